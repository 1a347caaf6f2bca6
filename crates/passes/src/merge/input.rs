//! The parsed module.

use std::collections::HashMap;
use std::convert::Infallible;
use std::ops::Range;

use rayon::prelude::*;
use sha2::{Digest, Sha256};
use wasm_encoder::reencode::{self, Reencode};
use wasm_encoder::{ElementSection, GlobalSection, TableSection};
use wasmparser::{
    ExternalKind, FuncType, FunctionBody, FunctionSectionReader, Operator, Parser, Payload,
};

use super::{BROKEN, PassError, unsupported};
use crate::imported_functions;
use crate::link::LINKED;

pub(super) struct Input<'a> {
    pub module: &'a [u8],
    /// Number of imported functions, which come first in the index space.
    pub imports: u32,
    /// The defined functions.
    pub functions: Vec<Function>,
    /// Functions that exports, table entries and other initial values refer to.
    pub roots: Vec<u32>,
}

pub(super) struct Function {
    /// Index of its type.
    pub ty: u32,
    /// The first type with the same content.
    pub content: u32,
    pub in_table: bool,
    /// Whether it is exported to the host.
    pub exported: bool,
    pub body: Body,
}

#[derive(Default)]
pub(super) struct Body {
    /// Its place in the module.
    pub range: Range<usize>,
    pub calls: Vec<Call>,
    /// Hash of the body without the indices of called functions.
    pub hash: [u8; 32],
}

/// A function index in a body.
pub(super) struct Call {
    /// Its place in the module.
    pub at: Range<usize>,
    pub function: u32,
}

impl<'a> Input<'a> {
    pub fn parse(module: &'a [u8]) -> Result<Self, PassError> {
        let mut input = Self {
            module,
            imports: 0,
            functions: Vec::new(),
            roots: Vec::new(),
        };
        let (mut contents, mut bodies) = (Vec::new(), Vec::new());
        let (mut exported, mut in_table) = (Vec::new(), Indices::default());
        for payload in Parser::new(0).parse_all(module) {
            match payload? {
                Payload::TypeSection(section) => {
                    let mut first: HashMap<FuncType, u32> = HashMap::new();
                    for ty in section.into_iter_err_on_gc_types() {
                        let index = contents.len() as u32;
                        contents.push(*first.entry(ty?).or_insert(index));
                    }
                }
                Payload::ImportSection(section) => input.imports = imported_functions(section)?,
                Payload::FunctionSection(section) => input.declare(section, &contents)?,
                Payload::ExportSection(section) => {
                    for export in section {
                        let export = export?;
                        if export.kind == ExternalKind::Func {
                            input.roots.push(export.index);
                            // The meter does not count exports for extensions as such.
                            if !export.name.starts_with(LINKED) {
                                exported.push(export.index);
                            }
                        }
                    }
                }
                Payload::TableSection(section) => {
                    let parsed = in_table.parse_table_section(&mut TableSection::new(), section);
                    parsed.map_err(refused)?;
                }
                Payload::GlobalSection(section) => {
                    let parsed = in_table.parse_global_section(&mut GlobalSection::new(), section);
                    parsed.map_err(refused)?;
                }
                Payload::ElementSection(section) => {
                    let mut elements = ElementSection::new();
                    in_table.parse_element_section(&mut elements, section).map_err(refused)?;
                }
                Payload::CodeSectionEntry(body) => bodies.push(body),
                Payload::StartSection { .. } => return Err(unsupported("it has a start function")),
                Payload::CustomSection(section) if section.name().starts_with("metadata.code.") => {
                    return Err(unsupported("it has hints at places in its code"));
                }
                _ => {}
            }
        }
        input.take(&bodies)?;
        input.roots.extend(&in_table.0);
        for function in &input.functions {
            for call in &function.body.calls {
                if module.get(call.at.start.wrapping_sub(1)) == Some(&REF_FUNC) {
                    in_table.0.push(call.function);
                }
            }
        }
        for index in in_table.0 {
            if let Some(at) = input.defined(index)? {
                input.functions[at].in_table = true;
            }
        }
        for index in exported {
            if let Some(at) = input.defined(index)? {
                input.functions[at].exported = true;
            }
        }
        Ok(input)
    }

    fn declare(
        &mut self,
        section: FunctionSectionReader<'_>,
        contents: &[u32],
    ) -> Result<(), PassError> {
        for ty in section {
            let ty = ty?;
            self.functions.push(Function {
                ty,
                content: *contents.get(ty as usize).ok_or(BROKEN)?,
                in_table: false,
                exported: false,
                body: Body::default(),
            });
        }
        Ok(())
    }

    fn take(&mut self, bodies: &[FunctionBody<'_>]) -> Result<(), PassError> {
        let module = self.module;
        let read: Vec<Body> =
            bodies.par_iter().map(|body| Body::read(module, body)).collect::<Result<_, _>>()?;
        if read.len() != self.functions.len() {
            return Err(BROKEN);
        }
        for (function, body) in std::iter::zip(&mut self.functions, read) {
            function.body = body;
        }
        for function in &self.functions {
            for call in &function.body.calls {
                self.defined(call.function)?;
            }
        }
        Ok(())
    }

    /// Returns the index of a function among the defined ones, or `None` if it is imported.
    pub fn defined(&self, index: u32) -> Result<Option<usize>, PassError> {
        let at = index.checked_sub(self.imports).map(|at| at as usize);
        if at.is_some_and(|at| at >= self.functions.len()) {
            return Err(BROKEN);
        }
        Ok(at)
    }
}

/// The opcode of `ref.func`.
const REF_FUNC: u8 = 0xd2;

impl Body {
    fn read(module: &[u8], body: &FunctionBody<'_>) -> Result<Self, PassError> {
        let range = body.range();
        let range = offset(range.start)?..offset(range.end)?;
        let (mut calls, mut hash, mut from) = (Vec::new(), Sha256::new(), range.start);
        let mut reader = body.get_operators_reader()?;
        while !reader.eof() {
            let (operator, start) = reader.read_with_offset()?;
            match operator {
                Operator::Call { function_index } | Operator::RefFunc { function_index } => {
                    // After one byte, the opcode.
                    let at = offset(start)? + 1..offset(reader.original_position())?;
                    // Operators are read in the same way without the indices.
                    hash.update(module.get(from..at.start).ok_or(BROKEN)?);
                    from = at.end;
                    calls.push(Call {
                        at,
                        function: function_index,
                    });
                }
                Operator::ReturnCall { .. } => return Err(unsupported("it has tail calls")),
                _ => {}
            }
        }
        hash.update(module.get(from..range.end).ok_or(BROKEN)?);
        Ok(Self {
            range,
            calls,
            hash: hash.finalize().into(),
        })
    }
}

fn offset(at: u64) -> Result<usize, PassError> {
    usize::try_from(at).map_err(|_| BROKEN)
}

pub(super) fn refused(error: reencode::Error) -> PassError {
    PassError::of(error, "merge")
}

/// Records the functions that sections refer to.
#[derive(Default)]
struct Indices(Vec<u32>);

impl Reencode for Indices {
    type Error = Infallible;

    fn function_index(&mut self, index: u32) -> Result<u32, reencode::Error> {
        self.0.push(index);
        Ok(index)
    }
}

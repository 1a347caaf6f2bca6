//! Tiers: removes the functions that a tier does not contain.
//!
//! Images contain function pointers, which are table slots: slots stay, and a removed function is
//! replaced by a stub of the same type that tells the host which library was called ([`MISSING`]).
//! Functions called directly by a kept function are kept, too. Functions are renumbered in order;
//! the rest of the module is unchanged.
//!
//! Later decisions about a function, of the profile pass and of the meter, depend only on the
//! function, on those that it calls directly or through others, and on table slots that every tier
//! with the function has. So they are the same on these tiers, and so is the fuel.

use std::collections::BTreeMap;

use rayon::prelude::*;
use wasm_encoder::reencode::{self, Reencode};
use wasm_encoder::{
    CodeSection, ElementSection, EntityType, ExportSection, Function, FunctionSection,
    ImportSection, Instruction as I, NameMap, NameSection, RawSection, TypeSection, ValType,
};
use wasmparser::{
    ElementItems, ExternalKind, FunctionBody, KnownCustom, Name, Operator, Parser, Payload,
};

use super::{PassError, imported_functions};
use crate::tier::{Library, Tier};

/// Increased with every change of the pass's output: the code of smaller tiers is named after it.
pub(super) const VERSION: u32 = 1;

/// Module and name of the imported function that stubs call: it takes the index of the library in
/// [`LIBRARIES`](crate::LIBRARIES) and does not return.
pub const MISSING: (&str, &str) = ("belljar", "missing");

/// Returns the module with the parts of `libraries` that `tier` contains.
pub(super) fn apply(
    module: &[u8],
    tier: Tier,
    libraries: &[Library],
) -> Result<Vec<u8>, PassError> {
    let parsed = Parsed::new(module)?;
    let held = parsed.held(tier, libraries)?;
    Reduced::new(&parsed, &held)?.write()
}

const fn unsupported(why: &'static str) -> PassError {
    PassError::Unsupported { pass: "tiers", why }
}

const BROKEN: PassError = unsupported("its functions are not well formed");

fn refused(error: reencode::Error) -> PassError {
    PassError::of(error, "tiers")
}

/// The parsed module.
pub(crate) struct Parsed<'a> {
    module: &'a [u8],
    types: u32,
    /// Number of imported functions, which come first in the index space.
    imports: u32,
    /// Types of the defined functions.
    functions: Vec<u32>,
    bodies: Vec<FunctionBody<'a>>,
    /// Names of functions, by index.
    pub names: Vec<(u32, &'a str)>,
    exported: Vec<u32>,
    in_table: Vec<u32>,
}

impl<'a> Parsed<'a> {
    pub fn new(module: &'a [u8]) -> Result<Self, PassError> {
        let mut parsed = Self {
            module,
            types: 0,
            imports: 0,
            functions: Vec::new(),
            bodies: Vec::new(),
            names: Vec::new(),
            exported: Vec::new(),
            in_table: Vec::new(),
        };
        for payload in Parser::new(0).parse_all(module) {
            parsed.read(payload?)?;
        }
        let defined = parsed.functions.len();
        let count = parsed.imports as usize + defined;
        let mut named = parsed.exported.iter().chain(&parsed.in_table);
        if defined != parsed.bodies.len() || named.any(|&index| index as usize >= count) {
            return Err(BROKEN);
        }
        Ok(parsed)
    }

    fn read(&mut self, payload: Payload<'a>) -> Result<(), PassError> {
        match payload {
            Payload::TypeSection(section) => self.types = section.count(),
            Payload::ImportSection(section) => self.imports = imported_functions(section)?,
            Payload::FunctionSection(section) => {
                self.functions = section.into_iter().collect::<Result<_, _>>()?;
            }
            Payload::ExportSection(section) => {
                for export in section {
                    let export = export?;
                    if export.kind == ExternalKind::Func {
                        self.exported.push(export.index);
                    }
                }
            }
            Payload::ElementSection(section) => {
                for element in section {
                    let ElementItems::Functions(functions) = element?.items else {
                        return Err(unsupported("its table is filled with expressions"));
                    };
                    for function in functions {
                        self.in_table.push(function?);
                    }
                }
            }
            Payload::CodeSectionEntry(body) => self.bodies.push(body),
            Payload::StartSection { .. } => return Err(unsupported("it has a start function")),
            Payload::CustomSection(section) => {
                if let KnownCustom::Name(names) = section.as_known() {
                    for name in names {
                        if let Name::Function(functions) = name? {
                            for naming in functions {
                                let naming = naming?;
                                self.names.push((naming.index, naming.name));
                            }
                        }
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Returns, for each defined function, its calls if it is kept, or else its library.
    fn held(&self, tier: Tier, libraries: &[Library]) -> Result<Vec<Held>, PassError> {
        let starts = self.starts(libraries)?;
        let library_of = |at: usize| starts.partition_point(|&start| start <= at) - 1;
        let mut held: Vec<Held> =
            (0..self.functions.len()).map(|at| Held::Missing(library_of(at))).collect();
        let in_tier = (0..held.len()).filter(|&at| libraries[library_of(at)].tier <= tier);
        let exported = self.exported.iter().filter_map(|&index| self.defined(index));
        let mut open: Vec<usize> = in_tier.chain(exported).collect();
        while !open.is_empty() {
            open.sort_unstable();
            open.dedup();
            let found: Vec<(usize, Vec<Call>)> = open
                .par_iter()
                .map(|&at| Ok((at, calls(self.bodies.get(at).ok_or(BROKEN)?)?)))
                .collect::<Result<_, PassError>>()?;
            open.clear();
            for (at, calls) in found {
                open.extend(calls.iter().filter_map(|call| self.defined(call.function)));
                held[at] = Held::With(calls);
            }
            if open.iter().any(|&at| at >= held.len()) {
                return Err(BROKEN);
            }
            open.retain(|&at| matches!(held[at], Held::Missing(_)));
        }
        Ok(held)
    }

    /// Returns the start of each library, as an index of a defined function.
    pub fn starts(&self, libraries: &[Library]) -> Result<Vec<usize>, PassError> {
        let mut starts = vec![None; libraries.len()];
        for &(index, name) in &self.names {
            if let Some(library) = libraries.iter().position(|library| library.first == name) {
                if starts[library].is_some() {
                    return Err(unsupported("two functions have the name that begins a library"));
                }
                starts[library] = self.defined(index);
            }
        }
        if let Some(first) = starts.first_mut() {
            *first = Some(0);
        }
        let starts: Option<Vec<usize>> = starts.into_iter().collect();
        let starts =
            starts.ok_or(unsupported("it does not have a function that begins a library"))?;
        if !starts.is_sorted() {
            return Err(unsupported("its libraries are linked in another order"));
        }
        Ok(starts)
    }

    /// Returns the index of a function among the defined ones.
    pub fn defined(&self, index: u32) -> Option<usize> {
        index.checked_sub(self.imports).map(|at| at as usize)
    }
}

/// Whether a function is kept.
enum Held {
    With(Vec<Call>),
    /// Removed: the library that it belongs to.
    Missing(usize),
}

/// A function index in a body.
struct Call {
    /// Place of the index in the module.
    at: std::ops::Range<usize>,
    function: u32,
}

/// Returns the functions that a body refers to.
fn calls(body: &FunctionBody<'_>) -> Result<Vec<Call>, PassError> {
    let mut calls = Vec::new();
    let mut reader = body.get_operators_reader()?;
    while !reader.eof() {
        let (operator, start) = reader.read_with_offset()?;
        match operator {
            Operator::Call { function_index } | Operator::RefFunc { function_index } => {
                // After one byte, the opcode.
                let at = offset(start)? + 1..offset(reader.original_position())?;
                calls.push(Call {
                    at,
                    function: function_index,
                });
            }
            Operator::ReturnCall { .. } => return Err(unsupported("it has tail calls")),
            _ => {}
        }
    }
    Ok(calls)
}

fn offset(at: u64) -> Result<usize, PassError> {
    usize::try_from(at).map_err(|_| BROKEN)
}

/// The module being rewritten.
struct Reduced<'p, 'a> {
    parsed: &'p Parsed<'a>,
    held: &'p [Held],
    /// New index of each function, or of its stub.
    indices: Vec<u32>,
    /// Stubs of removed functions: library and type.
    stand_ins: Vec<(usize, u32)>,
}

impl<'p, 'a> Reduced<'p, 'a> {
    fn new(parsed: &'p Parsed<'a>, held: &'p [Held]) -> Result<Self, PassError> {
        // One more function is imported.
        let mut next = parsed.imports + 1;
        let mut indices: Vec<u32> = (0..parsed.imports).collect();
        for held in held {
            indices.push(next);
            next += u32::from(matches!(held, Held::With(_)));
        }
        let mut numbers: BTreeMap<(usize, u32), u32> = BTreeMap::new();
        let mut stand_ins = Vec::new();
        for &index in &parsed.in_table {
            let Some(at) = parsed.defined(index) else {
                continue;
            };
            if let Held::Missing(library) = held.get(at).ok_or(BROKEN)? {
                let kind = (*library, parsed.functions[at]);
                let number = numbers.entry(kind).or_insert_with(|| {
                    stand_ins.push(kind);
                    next + stand_ins.len() as u32 - 1
                });
                indices[index as usize] = *number;
            }
        }
        Ok(Self {
            parsed,
            held,
            indices,
            stand_ins,
        })
    }

    fn write(mut self) -> Result<Vec<u8>, PassError> {
        let module = self.parsed.module;
        let mut out = wasm_encoder::Module::new();
        for payload in Parser::new(0).parse_all(module) {
            let payload = payload?;
            match payload {
                Payload::TypeSection(section) => {
                    let mut types = TypeSection::new();
                    self.parse_type_section(&mut types, section).map_err(refused)?;
                    types.ty().function([ValType::I32], []);
                    out.section(&types);
                }
                Payload::ImportSection(section) => {
                    let mut imports = ImportSection::new();
                    self.parse_import_section(&mut imports, section).map_err(refused)?;
                    let ty = EntityType::Function(self.parsed.types);
                    imports.import(MISSING.0, MISSING.1, ty);
                    out.section(&imports);
                }
                Payload::FunctionSection(_) => {
                    out.section(&self.functions());
                }
                Payload::ExportSection(section) => {
                    let mut exports = ExportSection::new();
                    self.parse_export_section(&mut exports, section).map_err(refused)?;
                    out.section(&exports);
                }
                Payload::ElementSection(section) => {
                    let mut elements = ElementSection::new();
                    self.parse_element_section(&mut elements, section).map_err(refused)?;
                    out.section(&elements);
                }
                Payload::CodeSectionStart { .. } => {
                    out.section(&self.code()?);
                }
                Payload::CustomSection(_) | Payload::CodeSectionEntry(_) => {}
                payload => {
                    if let Some((id, range)) = payload.as_section() {
                        let range = offset(range.start)?..offset(range.end)?;
                        let data = module.get(range).ok_or(BROKEN)?;
                        out.section(&RawSection { id, data });
                    }
                }
            }
        }
        out.section(&self.names());
        Ok(out.finish())
    }

    /// Iterates over the kept functions, by old index.
    fn kept(&self) -> impl Iterator<Item = (usize, &'p [Call])> {
        self.held.iter().enumerate().filter_map(|(at, held)| match held {
            Held::With(calls) => Some((at, calls.as_slice())),
            Held::Missing(_) => None,
        })
    }

    fn functions(&self) -> FunctionSection {
        let mut section = FunctionSection::new();
        for (at, _) in self.kept() {
            section.function(self.parsed.functions[at]);
        }
        for (_, ty) in &self.stand_ins {
            section.function(*ty);
        }
        section
    }

    fn code(&self) -> Result<CodeSection, PassError> {
        let mut section = CodeSection::new();
        let mut body = Vec::new();
        for (at, calls) in self.kept() {
            body.clear();
            let range = self.parsed.bodies[at].range();
            let mut from = offset(range.start)?;
            for call in calls {
                let kept = self.parsed.module.get(from..call.at.start).ok_or(BROKEN)?;
                body.extend_from_slice(kept);
                let index = self.indices.get(call.function as usize).ok_or(BROKEN)?;
                wasm_encoder::Encode::encode(index, &mut body);
                from = call.at.end;
            }
            let rest = self.parsed.module.get(from..offset(range.end)?).ok_or(BROKEN)?;
            body.extend_from_slice(rest);
            section.raw(&body);
        }
        for (library, _) in &self.stand_ins {
            let mut stand_in = Function::new([]);
            stand_in
                .instruction(&I::I32Const((*library as u32).cast_signed()))
                .instruction(&I::Call(self.parsed.imports))
                .instruction(&I::Unreachable)
                .instruction(&I::End);
            section.function(&stand_in);
        }
        Ok(section)
    }

    /// Returns the names of kept functions, by which passes find them.
    fn names(&self) -> NameSection {
        let mut functions = NameMap::new();
        for &(index, name) in &self.parsed.names {
            let held = self.parsed.defined(index).map(|at| self.held.get(at));
            if let (None | Some(Some(Held::With(_))), Some(&index)) =
                (held, self.indices.get(index as usize))
            {
                functions.append(index, name);
            }
        }
        let mut section = NameSection::new();
        section.functions(&functions);
        section
    }
}

impl Reencode for Reduced<'_, '_> {
    type Error = std::convert::Infallible;

    fn function_index(&mut self, index: u32) -> Result<u32, reencode::Error> {
        // All functions were checked when the module was parsed.
        Ok(self.indices.get(index as usize).copied().unwrap_or(u32::MAX))
    }
}

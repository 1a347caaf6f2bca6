//! Writes the module without the functions that are merged or cannot be called.

use std::convert::Infallible;

use wasm_encoder::reencode::{self, Reencode};
use wasm_encoder::{
    CodeSection, ElementSection, Encode, ExportSection, FunctionSection, GlobalSection, RawSection,
    TableSection,
};
use wasmparser::{Parser, Payload};

use super::input::{Function, Input, refused};
use super::{BROKEN, PassError};

/// Writes the module. `first` has, for each function, the function that takes its place.
pub(super) fn write(input: &Input<'_>, first: &[u32]) -> Result<Vec<u8>, PassError> {
    let mut merged = Merged::new(input, first)?;
    let mut out = wasm_encoder::Module::new();
    for payload in Parser::new(0).parse_all(input.module) {
        let payload = payload?;
        match payload {
            Payload::FunctionSection(_) => {
                let mut functions = FunctionSection::new();
                for function in merged.kept(input) {
                    functions.function(function.ty);
                }
                out.section(&functions);
            }
            Payload::TableSection(section) => {
                let mut tables = TableSection::new();
                merged.parse_table_section(&mut tables, section).map_err(refused)?;
                out.section(&tables);
            }
            Payload::GlobalSection(section) => {
                let mut globals = GlobalSection::new();
                merged.parse_global_section(&mut globals, section).map_err(refused)?;
                out.section(&globals);
            }
            Payload::ExportSection(section) => {
                let mut exports = ExportSection::new();
                merged.parse_export_section(&mut exports, section).map_err(refused)?;
                out.section(&exports);
            }
            Payload::ElementSection(section) => {
                let mut elements = ElementSection::new();
                merged.parse_element_section(&mut elements, section).map_err(refused)?;
                out.section(&elements);
            }
            Payload::CodeSectionStart { .. } => {
                out.section(&merged.code(input)?);
            }
            // Custom sections name functions by their old indices.
            Payload::CustomSection(_) | Payload::CodeSectionEntry(_) => {}
            payload => {
                if let Some((id, range)) = payload.as_section() {
                    let range = usize::try_from(range.start).ok().zip(range.end.try_into().ok());
                    let data = range.and_then(|(start, end)| input.module.get(start..end));
                    out.section(&RawSection {
                        id,
                        data: data.ok_or(BROKEN)?,
                    });
                }
            }
        }
    }
    Ok(out.finish())
}

/// New indices of functions.
struct Merged {
    /// For each function, its new index or that of the function in its place.
    indices: Vec<u32>,
    /// The functions that stay, as indices of defined functions.
    kept: Vec<usize>,
}

impl Merged {
    fn new(input: &Input<'_>, first: &[u32]) -> Result<Self, PassError> {
        let mut is_kept = vec![false; input.functions.len()];
        let mut open = input.roots.clone();
        while let Some(index) = open.pop() {
            let index = *first.get(index as usize).ok_or(BROKEN)?;
            if let Some(at) = input.defined(index)?
                && !std::mem::replace(&mut is_kept[at], true)
            {
                open.extend(input.functions[at].body.calls.iter().map(|call| call.function));
            }
        }
        let kept: Vec<usize> = (0..is_kept.len()).filter(|&at| is_kept[at]).collect();
        let mut indices = first.to_vec();
        for (new, &at) in (input.imports..).zip(&kept) {
            indices[input.imports as usize + at] = new;
        }
        // The first of equal functions comes before the others.
        for index in 0..first.len() {
            indices[index] = indices[first[index] as usize];
        }
        Ok(Self { indices, kept })
    }

    /// Iterates over the functions that stay.
    fn kept<'i>(&self, input: &'i Input<'_>) -> impl Iterator<Item = &'i Function> {
        self.kept.iter().map(|&at| &input.functions[at])
    }

    fn code(&self, input: &Input<'_>) -> Result<CodeSection, PassError> {
        let (mut code, mut body) = (CodeSection::new(), Vec::new());
        for function in self.kept(input) {
            body.clear();
            let mut from = function.body.range.start;
            for call in &function.body.calls {
                body.extend_from_slice(input.module.get(from..call.at.start).ok_or(BROKEN)?);
                self.indices.get(call.function as usize).ok_or(BROKEN)?.encode(&mut body);
                from = call.at.end;
            }
            let rest = input.module.get(from..function.body.range.end);
            body.extend_from_slice(rest.ok_or(BROKEN)?);
            code.raw(&body);
        }
        Ok(code)
    }
}

impl Reencode for Merged {
    type Error = Infallible;

    fn function_index(&mut self, index: u32) -> Result<u32, reencode::Error> {
        // All indices were checked when the roots were followed.
        Ok(self.indices.get(index as usize).copied().unwrap_or(u32::MAX))
    }
}

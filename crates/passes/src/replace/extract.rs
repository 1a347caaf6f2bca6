//! A few functions of the Python module as a module of their own, to compare them with others.

use std::collections::HashMap;

use wasm_encoder::reencode::{Reencode, RoundtripReencoder};
use wasm_encoder::{
    CodeSection, ConstExpr, Encode, ExportKind, ExportSection, FunctionSection, GlobalSection,
    GlobalType, Instruction, MemorySection, MemoryType, Module, NameMap, NameSection, TypeSection,
    ValType,
};
use wasmparser::Operator;

use super::unsupported;
use super::write::{BROKEN, refused};
use crate::PassError;
use crate::profile::Input;

/// Returns a module with the named functions, which are exported, those that they call directly,
/// and a memory of `pages`, with the stack in the first one.
pub(super) fn extract(module: &[u8], names: &[&str], pages: u32) -> Result<Vec<u8>, PassError> {
    let input = Input::parse(module)?;
    let mut found: Vec<u32> = Vec::new();
    for name in names {
        let index = input.defined().find(|&index| input.name(index) == *name);
        found.push(index.ok_or(unsupported("it does not have a function to extract"))?);
    }
    let mut at = 0;
    while let Some(&function) = found.get(at) {
        for operator in input.operators(function)? {
            if let Operator::Call { function_index } = operator?.0
                && !found.contains(&function_index)
            {
                found.push(function_index);
            }
        }
        at += 1;
    }
    let (mut types, mut functions, mut code) =
        (TypeSection::new(), FunctionSection::new(), CodeSection::new());
    for ty in &input.types {
        types.ty().func_type(&RoundtripReencoder.func_type(ty.clone()).map_err(refused)?);
    }
    let places: HashMap<u32, u32> = found.iter().copied().zip(0..).collect();
    let (mut exports, mut labels) = (ExportSection::new(), NameMap::new());
    for (&old, new) in found.iter().zip(0..) {
        let ty = input.ty(old)?;
        let ty = input.types.iter().position(|known| known == ty).ok_or(BROKEN)?;
        functions.function(ty as u32);
        code.raw(&body(&input, old, &places)?);
        labels.append(new, input.name(old));
        if let Some(name) = names.get(new as usize) {
            exports.export(name, ExportKind::Func, new);
        }
    }
    let mut memories = MemorySection::new();
    memories.memory(MemoryType {
        minimum: pages.into(),
        maximum: None,
        memory64: false,
        shared: false,
        page_size_log2: None,
    });
    exports.export("memory", ExportKind::Memory, 0);
    let mut globals = GlobalSection::new();
    let ty = GlobalType {
        val_type: ValType::I32,
        mutable: true,
        shared: false,
    };
    globals.global(ty, &ConstExpr::i32_const(65_536));
    let mut section = NameSection::new();
    section.functions(&labels);
    let mut out = Module::new();
    out.section(&types).section(&functions).section(&memories).section(&globals);
    out.section(&exports).section(&code).section(&section);
    Ok(out.finish())
}

/// Returns a body with other indices of functions. All other bytes stay, so that its hash does.
fn body(
    input: &Input<'_>,
    function: u32,
    places: &HashMap<u32, u32>,
) -> Result<Vec<u8>, PassError> {
    let body = input.body(function).ok_or(BROKEN)?;
    let locals = body.get_operators_reader()?.original_position() - body.range().start;
    let locals = usize::try_from(locals).ok().and_then(|end| body.as_bytes().get(..end));
    let mut bytes = locals.ok_or(BROKEN)?.to_vec();
    for operator in input.operators(function)? {
        match operator? {
            (Operator::Call { function_index }, _) => {
                let index = places.get(&function_index).ok_or(BROKEN)?;
                Instruction::Call(*index).encode(&mut bytes);
            }
            (_, raw) => bytes.extend_from_slice(raw),
        }
    }
    Ok(bytes)
}

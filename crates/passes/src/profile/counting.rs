//! Makes a module report each call to the host. Only `benches/profile` compiles such a module.

use std::convert::Infallible;

use wasm_encoder::reencode::{self, Reencode};
use wasm_encoder::{
    CodeSection, EntityType, Function, ImportSection, Instruction as I, TypeSection, ValType,
};
use wasmparser::{FunctionBody, ImportSectionReader, Operator, Parser, TypeSectionReader};

use super::input::Input;
use super::unsupported;
use crate::PassError;

/// Module and name of the imported function that is called before each call. It takes the number of
/// the call, in order of functions and operators, and the slot of an indirect call, or `u32::MAX`.
pub const COUNT: (&str, &str) = ("belljar", "count");

/// Stands for a direct call.
pub const NO_SLOT: u32 = u32::MAX;

/// A call in the module.
pub(super) struct Site {
    pub function: u32,
    pub operator: u32,
    /// The function, for a direct call.
    pub callee: Option<u32>,
}

/// Returns all calls, by number.
pub(super) fn sites(input: &Input<'_>) -> Result<Vec<Site>, PassError> {
    let mut sites = Vec::new();
    for function in input.defined() {
        for (at, operator) in input.operators(function)?.enumerate() {
            let callee = match operator?.0 {
                Operator::Call { function_index } => Some(function_index),
                Operator::CallIndirect { .. } => None,
                _ => continue,
            };
            sites.push(Site {
                function,
                operator: at as u32,
                callee,
            });
        }
    }
    Ok(sites)
}

pub(super) fn count(module: &[u8]) -> Result<Vec<u8>, PassError> {
    let input = Input::parse(module)?;
    if input.imports == 0 {
        return Err(unsupported("it imports no functions"));
    }
    let mut counting = Counting {
        input: &input,
        function: input.imports,
        site: 0,
    };
    let mut out = wasm_encoder::Module::new();
    counting
        .parse_core_module(&mut out, Parser::new(0), module)
        .map_err(|e| PassError::of(e, "counting"))?;
    Ok(out.finish())
}

struct Counting<'a> {
    input: &'a Input<'a>,
    /// The function being written.
    function: u32,
    /// Number of the next call.
    site: i32,
}

impl Reencode for Counting<'_> {
    type Error = Infallible;

    /// Functions come after an additional import.
    fn function_index(&mut self, index: u32) -> Result<u32, reencode::Error> {
        Ok(index + u32::from(index >= self.input.imports))
    }

    fn parse_type_section(
        &mut self,
        types: &mut TypeSection,
        section: TypeSectionReader<'_>,
    ) -> Result<(), reencode::Error> {
        reencode::utils::parse_type_section(self, types, section)?;
        types.ty().function([ValType::I32; 2], []);
        Ok(())
    }

    fn parse_import_section(
        &mut self,
        imports: &mut ImportSection,
        section: ImportSectionReader<'_>,
    ) -> Result<(), reencode::Error> {
        reencode::utils::parse_import_section(self, imports, section)?;
        let ty = self.input.types.len() as u32;
        imports.import(COUNT.0, COUNT.1, EntityType::Function(ty));
        Ok(())
    }

    fn parse_function_body(
        &mut self,
        code: &mut CodeSection,
        body: FunctionBody<'_>,
    ) -> Result<(), reencode::Error> {
        let mut slot = 0;
        let mut locals = Vec::new();
        for group in body.get_locals_reader()? {
            let (count, ty) = group?;
            slot += count;
            locals.push((count, self.val_type(ty)?));
        }
        if let Ok(ty) = self.input.ty(self.function) {
            slot += ty.params().len() as u32;
        }
        locals.push((1, ValType::I32));
        let mut out = Function::new(locals);
        for operator in body.get_operators_reader()? {
            let operator = operator?;
            let count = I::Call(self.input.imports);
            match operator {
                Operator::Call { .. } => {
                    out.instruction(&I::I32Const(self.site));
                    out.instruction(&I::I32Const(NO_SLOT.cast_signed())).instruction(&count);
                    self.site += 1;
                }
                Operator::CallIndirect { .. } => {
                    out.instruction(&I::LocalSet(slot)).instruction(&I::I32Const(self.site));
                    out.instruction(&I::LocalGet(slot)).instruction(&count);
                    out.instruction(&I::LocalGet(slot));
                    self.site += 1;
                }
                _ => {}
            }
            out.instruction(&self.instruction(operator)?);
        }
        code.function(&out);
        self.function += 1;
        Ok(())
    }
}

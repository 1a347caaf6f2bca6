//! Writes the module with rewritten calls.
//!
//! A body that replaces a call becomes a block with the function's results:
//!
//! * Its parameters and locals become new locals of the caller. Parameters are taken from the
//!   stack, and other locals are set to zero whenever the block is entered.
//! * Branches keep their depths: the block takes the place of the function's own label, to which
//!   `return` branches.
//!
//! An indirect call stores its operands and compares the slot. The table of the module cannot
//! change at the compared slots: no code writes to it, which the checker verifies, and extensions
//! fill other slots. The function there must have the type of the call.

use rayon::prelude::*;
use wasm_encoder::reencode::{Reencode, RoundtripReencoder};
use wasm_encoder::{BlockType, CodeSection, Encode, Instruction as I, RawSection, ValType};
use wasmparser::{FuncType, Operator, Parser, Payload};

use super::input::Input;
use super::plan::{Limits, Plan, Reached};
use super::{BROKEN, unsupported};
use crate::PassError;

pub(super) fn rewrite(
    input: &Input<'_>,
    plan: &Plan,
    limits: Limits,
) -> Result<Vec<u8>, PassError> {
    let indices: Vec<u32> = input.defined().collect();
    let changed: Vec<Option<Vec<u8>>> = indices
        .into_par_iter()
        .map(|index| {
            plan.has(index).then(|| Writer::new(input, plan, limits, index)?.write()).transpose()
        })
        .collect::<Result<_, PassError>>()?;
    let mut out = wasm_encoder::Module::new();
    for payload in Parser::new(0).parse_all(input.module) {
        let payload = payload?;
        if let Payload::CodeSectionStart { .. } = payload {
            let mut code = CodeSection::new();
            for (body, changed) in std::iter::zip(&input.bodies, &changed) {
                code.raw(changed.as_deref().unwrap_or(body.as_bytes()));
            }
            out.section(&code);
        } else if let Some((id, range)) = payload.as_section() {
            let range = usize::try_from(range.start).ok().zip(usize::try_from(range.end).ok());
            let data = range.and_then(|(start, end)| input.module.get(start..end));
            out.section(&RawSection {
                id,
                data: data.ok_or(BROKEN)?,
            });
        }
    }
    Ok(out.finish())
}

/// A function being written.
struct Writer<'w, 'a> {
    input: &'w Input<'a>,
    plan: &'w Plan,
    limits: Limits,
    function: u32,
    parameters: usize,
    /// Types of all locals, parameters first.
    locals: Vec<ValType>,
    /// The function and the functions whose bodies are being written in it, outermost first.
    path: Vec<u32>,
    code: Vec<u8>,
}

impl<'w, 'a> Writer<'w, 'a> {
    fn new(
        input: &'w Input<'a>,
        plan: &'w Plan,
        limits: Limits,
        function: u32,
    ) -> Result<Self, PassError> {
        Ok(Self {
            input,
            plan,
            limits,
            function,
            parameters: input.ty(function)?.params().len(),
            locals: locals(input, function)?,
            path: Vec::new(),
            code: Vec::new(),
        })
    }

    fn write(mut self) -> Result<Vec<u8>, PassError> {
        self.body(self.function, 0, 1.0)?;
        let declared = self.locals.get(self.parameters..).ok_or(BROKEN)?;
        let groups: Vec<&[ValType]> = declared.chunk_by(PartialEq::eq).collect();
        let mut body = Vec::new();
        groups.len().encode(&mut body);
        for group in groups {
            (group.len() as u32).encode(&mut body);
            group[0].encode(&mut body);
        }
        body.append(&mut self.code);
        Ok(body)
    }

    /// Writes the body of `function`, whose locals begin at `base`. `part` is the part of its calls
    /// that this copy stands for.
    fn body(&mut self, function: u32, base: u32, part: f64) -> Result<(), PassError> {
        let is_inner = !self.path.is_empty();
        self.path.push(function);
        let mut depth: u32 = 0;
        for (at, operator) in self.input.operators(function)?.enumerate() {
            let (operator, bytes) = operator?;
            match operator {
                Operator::Block { .. }
                | Operator::Loop { .. }
                | Operator::If { .. }
                | Operator::TryTable { .. } => depth += 1,
                Operator::End => depth = depth.wrapping_sub(1),
                Operator::Try { .. } => return Err(unsupported("it has legacy exceptions")),
                Operator::ReturnCall { .. }
                | Operator::ReturnCallIndirect { .. }
                | Operator::ReturnCallRef { .. } => {
                    return Err(unsupported("it has tail calls"));
                }
                Operator::LocalGet { local_index } if is_inner => {
                    self.one(&I::LocalGet(local(base, local_index)?));
                    continue;
                }
                Operator::LocalSet { local_index } if is_inner => {
                    self.one(&I::LocalSet(local(base, local_index)?));
                    continue;
                }
                Operator::LocalTee { local_index } if is_inner => {
                    self.one(&I::LocalTee(local(base, local_index)?));
                    continue;
                }
                Operator::Return if is_inner => {
                    self.one(&I::Br(depth));
                    continue;
                }
                Operator::Call { function_index } => {
                    let reached = self.plan.reached(function, at as u32).first();
                    let frequency = reached.map_or(0.0, |reached| reached.frequency * part);
                    self.call(function_index, frequency, bytes)?;
                    continue;
                }
                Operator::CallIndirect { type_index, .. } => {
                    let reached = self.plan.reached(function, at as u32);
                    let ty = self.input.types.get(type_index as usize).ok_or(BROKEN)?;
                    self.call_indirect(ty, reached, part, bytes)?;
                    continue;
                }
                _ => {}
            }
            self.code.extend_from_slice(bytes);
        }
        self.path.pop();
        Ok(())
    }

    /// Writes a direct call, or the body of the function if the call is frequent enough.
    fn call(&mut self, function: u32, frequency: f64, call: &[u8]) -> Result<(), PassError> {
        if !self.inlines(function, frequency)? {
            self.code.extend_from_slice(call);
            return Ok(());
        }
        let ty = self.input.ty(function)?;
        let result = block_type(ty).ok_or(BROKEN)?;
        let (base, parameters) = (self.locals.len(), ty.params().len());
        self.locals.extend(locals(self.input, function)?);
        for index in (base..base + parameters).rev() {
            self.one(&I::LocalSet(index as u32));
        }
        for index in base + parameters..self.locals.len() {
            let value = zero(self.locals[index]).ok_or(BROKEN)?;
            self.one(&value);
            self.one(&I::LocalSet(index as u32));
        }
        self.one(&I::Block(result));
        let entries = self.plan.entries(function).max(frequency);
        self.body(function, base as u32, frequency / entries)
    }

    /// Whether the body of `function` replaces a call of this frequency.
    fn inlines(&self, function: u32, frequency: f64) -> Result<bool, PassError> {
        let Limits {
            inlined,
            frequent,
            depth,
            locals: most,
            code,
            ..
        } = self.limits;
        if frequency < inlined.0.min(frequent.0)
            || self.path.len() > depth
            || self.code.len() > code
            || self.path.contains(&function)
            || block_type(self.input.ty(function)?).is_none()
        {
            return Ok(false);
        }
        let Some(size) = self.input.size(function)? else {
            return Ok(false);
        };
        let fits = |(least, most): (f64, usize)| frequency >= least && size <= most;
        if !fits(inlined) && !fits(frequent) {
            return Ok(false);
        }
        let added = locals(self.input, function)?;
        Ok(self.locals.len() + added.len() <= most
            && added.into_iter().all(|ty| zero(ty).is_some()))
    }

    /// Writes an indirect call, with a comparison for each slot that it frequently reached.
    fn call_indirect(
        &mut self,
        ty: &FuncType,
        reached: &[Reached],
        part: f64,
        call: &[u8],
    ) -> Result<(), PassError> {
        let promoted = self.promoted(ty, reached, part)?;
        let (Some(result), false) = (block_type(ty), promoted.is_empty()) else {
            self.code.extend_from_slice(call);
            return Ok(());
        };
        let parameters: Vec<ValType> =
            ty.params().iter().map(|&ty| value_type(ty)).collect::<Result<_, _>>()?;
        let first = self.locals.len() as u32;
        let slot = first + parameters.len() as u32;
        self.locals.extend(&parameters);
        self.locals.push(ValType::I32);
        for index in (first..=slot).rev() {
            self.one(&I::LocalSet(index));
        }
        for &(target, index, frequency) in &promoted {
            self.one(&I::LocalGet(slot));
            self.one(&I::I32Const(target.cast_signed()));
            self.one(&I::I32Eq);
            self.one(&I::If(result));
            for index in first..slot {
                self.one(&I::LocalGet(index));
            }
            let mut call = Vec::new();
            I::Call(index).encode(&mut call);
            self.call(index, frequency, &call)?;
            self.one(&I::Else);
        }
        for index in first..=slot {
            self.one(&I::LocalGet(index));
        }
        self.code.extend_from_slice(call);
        for _ in &promoted {
            self.one(&I::End);
        }
        Ok(())
    }

    /// Returns the slots that a call is compared with, each with its function and frequency.
    fn promoted(
        &self,
        ty: &FuncType,
        reached: &[Reached],
        part: f64,
    ) -> Result<Vec<(u32, u32, f64)>, PassError> {
        let mut left: f64 = reached.iter().map(|reached| reached.frequency).sum();
        let mut promoted: Vec<(u32, u32, f64)> = Vec::new();
        for reached in reached {
            let Some(slot) = reached.slot else {
                continue;
            };
            let frequency = reached.frequency * part;
            let Some(&function) = self.input.slots.get(&slot) else {
                continue;
            };
            if frequency < self.limits.promoted
                || reached.frequency < left * self.limits.share
                || self.locals.len() > self.limits.locals
                || self.input.ty(function)? != ty
            {
                break;
            }
            left -= reached.frequency;
            promoted.push((slot, function, frequency));
        }
        Ok(promoted)
    }

    fn one(&mut self, instruction: &I<'_>) {
        instruction.encode(&mut self.code);
    }
}

/// Returns the index, in the caller, of a local of a function whose locals begin at `base`.
fn local(base: u32, index: u32) -> Result<u32, PassError> {
    base.checked_add(index).ok_or(BROKEN)
}

/// Returns the types of a function's parameters and locals.
fn locals(input: &Input<'_>, function: u32) -> Result<Vec<ValType>, PassError> {
    let parameters = input.ty(function)?.params().iter().map(|&ty| value_type(ty));
    let mut locals: Vec<ValType> = parameters.collect::<Result<_, _>>()?;
    for group in input.body(function).ok_or(BROKEN)?.get_locals_reader()? {
        let (count, ty) = group?;
        // The limit of the specification, against memory for a body of a few bytes.
        if count as usize > MAX_LOCALS - locals.len().min(MAX_LOCALS) {
            return Err(BROKEN);
        }
        locals.extend(std::iter::repeat_n(value_type(ty)?, count as usize));
    }
    Ok(locals)
}

const MAX_LOCALS: usize = 50_000;

fn value_type(ty: wasmparser::ValType) -> Result<ValType, PassError> {
    RoundtripReencoder.val_type(ty).map_err(|e| PassError::of(e, "profile"))
}

/// Returns the initial value of a local, or `None` if it is a reference.
fn zero(ty: ValType) -> Option<I<'static>> {
    match ty {
        ValType::I32 => Some(I::I32Const(0)),
        ValType::I64 => Some(I::I64Const(0)),
        ValType::F32 => Some(I::F32Const(0.0.into())),
        ValType::F64 => Some(I::F64Const(0.0.into())),
        ValType::V128 => Some(I::V128Const(0)),
        ValType::Ref(_) => None,
    }
}

/// Returns the type of a block with a function's results, or `None` if it has several.
fn block_type(ty: &FuncType) -> Option<BlockType> {
    match ty.results() {
        [] => Some(BlockType::Empty),
        [result] => Some(BlockType::Result(value_type(*result).ok()?)),
        _ => None,
    }
}

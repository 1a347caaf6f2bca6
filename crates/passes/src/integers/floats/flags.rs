//! Flags: computes the flags of a float operation from its operands and result.

use wasm_encoder::{BlockType, Function, InstructionSink, ValType};

use super::super::parsed::Changes;
use super::super::patterns::at;

/// Address of the word that emulates the status register.
pub(super) const STATUS: u64 = 27_608_152;

/// Bit of this word: the code asks for underflow. numpy does not use this bit.
pub(super) const WANTED: i32 = 1 << 16;

/// Bits of that word, as on x86-64.
#[derive(Clone, Copy)]
pub(super) enum Flag {
    Invalid = 1,
    Divide = 4,
    Overflow = 8,
    Underflow = 16,
}

/// Sets bits of the status word.
pub(super) fn set(code: &mut InstructionSink<'_>, bits: i32) {
    code.i32_const(0).i32_const(0).i32_load(at(STATUS)).i32_const(bits).i32_or();
    code.i32_store(at(STATUS));
}

pub(super) fn raise(code: &mut InstructionSink<'_>, flag: Flag) {
    set(code, flag as i32);
}

/// Indices of functions `(operand, operand, result)` that raise flags. Unary operations pass their
/// operand twice.
pub(super) struct Notes {
    pub double: Kinds,
    pub single: Kinds,
    /// `(f64, f32)`: a conversion.
    pub demoted: u32,
}

pub(super) struct Kinds {
    /// Additions, subtractions and square roots, which never underflow.
    pub sum: u32,
    pub product: u32,
    pub quotient: u32,
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Sum,
    Product,
    Quotient,
}

const A: u32 = 0;
const B: u32 = 1;
const RESULT: u32 = 2;

impl Notes {
    pub(super) fn add(changes: &mut Changes<'_, '_>) -> Self {
        let mut kinds = |width: Width| {
            let ty = width.wasm();
            let mut add = |kind| {
                let ty = wasmparser::FuncType::new([ty, ty, ty], []);
                changes.add_of_type(ty, note(width, kind))
            };
            Kinds {
                sum: add(Kind::Sum),
                product: add(Kind::Product),
                quotient: add(Kind::Quotient),
            }
        };
        let (double, single) = (kinds(Width::Double), kinds(Width::Single));
        let ty = [wasmparser::ValType::F64, wasmparser::ValType::F32];
        let demoted = changes.add_of_type(wasmparser::FuncType::new(ty, []), note_demoted());
        Self {
            double,
            single,
            demoted,
        }
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Width {
    Double,
    Single,
}

impl Width {
    fn wasm(self) -> wasmparser::ValType {
        match self {
            Self::Double => wasmparser::ValType::F64,
            Self::Single => wasmparser::ValType::F32,
        }
    }

    /// Pushes a local as an `f64`, which represents every `f32`.
    fn get(self, code: &mut InstructionSink<'_>, local: u32) {
        code.local_get(local);
        if self == Self::Single {
            code.f64_promote_f32();
        }
    }
}

/// Returns unless the condition on the stack holds.
fn only_if(code: &mut InstructionSink<'_>) {
    code.i32_eqz().if_(BlockType::Empty).return_().end();
}

fn is_nan(code: &mut InstructionSink<'_>, width: Width, local: u32) {
    width.get(code, local);
    width.get(code, local);
    code.f64_ne();
}

fn is_finite(code: &mut InstructionSink<'_>, width: Width, local: u32) {
    width.get(code, local);
    code.f64_abs().f64_const(f64::INFINITY.into()).f64_lt();
}

fn note(width: Width, kind: Kind) -> Function {
    let mut function = Function::new([]);
    let mut code = function.instructions();
    is_nan(&mut code, width, RESULT);
    code.if_(BlockType::Empty);
    for operand in [A, B] {
        is_nan(&mut code, width, operand);
        code.i32_eqz();
        only_if(&mut code);
    }
    raise(&mut code, Flag::Invalid);
    code.return_().end();

    is_finite(&mut code, width, RESULT);
    code.i32_eqz().if_(BlockType::Empty);
    for operand in [A, B] {
        is_finite(&mut code, width, operand);
        only_if(&mut code);
    }
    if kind == Kind::Quotient {
        width.get(&mut code, B);
        code.f64_const(0.0.into()).f64_eq().if_(BlockType::Empty);
        raise(&mut code, Flag::Divide);
        code.return_().end();
    }
    raise(&mut code, Flag::Overflow);
    code.return_().end();

    if kind != Kind::Sum {
        tiny(&mut code, width, kind);
    }
    code.end();
    function
}

/// The end of a function for results smaller than every normal number: an underflow unless the
/// result is exact.
fn tiny(code: &mut InstructionSink<'_>, width: Width, kind: Kind) {
    let not_zero = |code: &mut InstructionSink<'_>, local| {
        width.get(code, local);
        code.f64_const(0.0.into()).f64_ne();
        only_if(code);
    };
    not_zero(code, A);
    if kind == Kind::Product {
        not_zero(code, B);
    } else {
        is_finite(code, width, B);
        only_if(code);
    }
    code.block(BlockType::Empty);
    width.get(code, RESULT);
    code.f64_const(0.0.into()).f64_eq().br_if(0);
    match (width, kind) {
        // The product of two `f32` is exact as an `f64`.
        (Width::Single, Kind::Product) => {
            width.get(code, A);
            width.get(code, B);
            code.f64_mul();
            width.get(code, RESULT);
        }
        (Width::Single, _) => {
            width.get(code, RESULT);
            width.get(code, B);
            code.f64_mul();
            width.get(code, A);
        }
        // Repeats the operation with scaled, normal numbers.
        (Width::Double, Kind::Product) => {
            code.local_get(A).f64_abs().local_get(B).f64_abs().f64_lt();
            code.if_(BlockType::Result(ValType::F64));
            scaled(code, A);
            code.local_get(B).f64_mul().else_();
            scaled(code, B);
            code.local_get(A).f64_mul().end();
            scaled(code, RESULT);
        }
        (Width::Double, _) => {
            scaled(code, A);
            code.local_get(B).f64_div();
            scaled(code, RESULT);
        }
    }
    code.f64_ne();
    only_if(code);
    code.end();
    raise(code, Flag::Underflow);
}

fn scaled(code: &mut InstructionSink<'_>, local: u32) {
    code.local_get(local).f64_const(2f64.powi(600).into()).f64_mul();
}

fn note_demoted() -> Function {
    let mut function = Function::new([]);
    let mut code = function.instructions();
    is_finite(&mut code, Width::Double, A);
    only_if(&mut code);
    is_finite(&mut code, Width::Single, B);
    code.i32_eqz().if_(BlockType::Empty);
    raise(&mut code, Flag::Overflow);
    code.return_().end();
    code.local_get(A);
    Width::Single.get(&mut code, B);
    code.f64_ne();
    only_if(&mut code);
    raise(&mut code, Flag::Underflow);
    code.end();
    function
}

//! Casts: converts floats to integers like compiled code on x86-64.
//!
//! x86-64 has an instruction that converts to a signed integer of 32 or 64 bits, and gives the
//! smallest integer if the number does not fit. Smaller and unsigned integers are its lower bits.
//! Two kinds are converted in two halves: unsigned 64-bit integers, and vectors of unsigned 32-bit
//! integers, which convert contiguous arrays except the last elements.

use wasm_encoder::{BlockType, Function, InstructionSink, ValType};
use wasmparser::Operator;

use super::super::parsed::{Changes, Copies};
use super::super::patterns::{aligned, at};
use super::flags::{Flag, STATUS, WANTED, raise};
use super::vectors::{CHUNK, Width};

/// numpy's names of the source types.
pub(super) const SOURCES: &str = "half float double cfloat cdouble";
pub(super) const TARGETS: &str = "byte ubyte short ushort int uint long ulong longlong ulonglong \
                                  half float cfloat";

/// Functions that convert numbers too large for the usual way, `(f64) -> i32` or `(f64) -> i64`.
#[derive(Clone, Copy)]
pub(super) struct Casts {
    word: u32,
    unsigned_words: u32,
    long: u32,
    unsigned_long: u32,
}

/// A kind of conversion.
#[derive(Clone, Copy)]
pub(super) enum Cast {
    /// To 32 bits or less, or to vectors of unsigned 32-bit integers.
    Word(u32),
    /// To unsigned 32 bits, through 64 bits.
    UnsignedWord(u32),
    Long(u32),
}

/// Number of elements of a contiguous array converted per vector.
const AT_ONCE: i32 = 4;

/// The global that holds the stack pointer.
const STACK: u32 = 0;

/// `(context, arrays, count, strides, data) -> i32`: a loop over a contiguous array. `all` converts
/// full vectors, and `single` the rest.
pub(super) fn in_vectors(all: u32, single: u32) -> Function {
    const ARRAYS: u32 = 1;
    const COUNT: u32 = 2;
    const STRIDES: u32 = 3;
    const TOTAL: u32 = 5;
    const FULL: u32 = 6;
    const FRAME: u32 = 7;
    const RESULT: u32 = 8;
    let mut function = Function::new([(4, ValType::I32)]);
    let mut code = function.instructions();
    code.local_get(COUNT).i32_load(at(0)).local_tee(TOTAL);
    code.i32_const(-AT_ONCE).i32_and().local_set(FULL);
    code.global_get(STACK).i32_const(16).i32_sub().local_tee(FRAME).global_set(STACK);
    code.local_get(FRAME).local_get(FULL).i32_store(at(0));
    code.local_get(0).local_get(ARRAYS).local_get(FRAME).local_get(STRIDES).local_get(4);
    code.call(all).local_set(RESULT);
    code.block(BlockType::Empty);
    code.local_get(RESULT).br_if(0);
    code.local_get(TOTAL).local_get(FULL).i32_eq().br_if(0);
    code.local_get(FRAME).local_get(TOTAL).local_get(FULL).i32_sub().i32_store(at(0));
    for array in [0, 4] {
        code.local_get(FRAME);
        code.local_get(ARRAYS).i32_load(at(array));
        code.local_get(STRIDES).i32_load(at(array)).local_get(FULL).i32_mul().i32_add();
        code.i32_store(at(4 + array));
    }
    code.local_get(0).local_get(FRAME).i32_const(4).i32_add().local_get(FRAME);
    code.local_get(STRIDES).local_get(4).call(single).local_set(RESULT);
    code.end();
    code.local_get(FRAME).i32_const(16).i32_add().global_set(STACK);
    code.local_get(RESULT).end();
    function
}

/// Returns the limit below which all numbers, in absolute value, convert in the original way, if
/// checking is worthwhile: signed 32 and 64 bits, and `f32`.
pub(super) fn below(from: &str, to: &str) -> Option<f64> {
    match (from, to) {
        ("float" | "double", "int" | "long") => Some(TWO_TO_31),
        ("float" | "double", "longlong") => Some(TWO_TO_63),
        ("double", "float") => Some(f32::MAX.into()),
        _ => None,
    }
}

/// `(context, arrays, count, strides, data) -> i32`: a loop over a contiguous array that first
/// checks in vectors whether all numbers are below a limit.
pub(super) fn looking_first(from: &str, below: f64, copies: Copies) -> Function {
    const ARRAYS: u32 = 1;
    const COUNT: u32 = 2;
    const NEXT: u32 = 5;
    const END: u32 = 6;
    const LAST: u32 = 7;
    const LIMIT: u32 = 8;
    const FIT: u32 = 9;
    let width = if from == "float" {
        Width::Single
    } else {
        Width::Double
    };
    let mut function = Function::new([(3, ValType::I32), (2, ValType::V128)]);
    let mut code = function.instructions();
    let pass = |code: &mut InstructionSink<'_>| {
        for parameter in 0..5 {
            code.local_get(parameter);
        }
    };
    code.block(BlockType::Empty);
    // This check does not detect underflow.
    code.i32_const(0).i32_load(at(STATUS)).i32_const(WANTED).i32_and().br_if(0);
    code.local_get(COUNT).i32_load(at(0)).i32_const(width as i32).i32_mul().local_tee(END);
    code.i32_const(CHUNK).i32_lt_s().br_if(0);
    code.local_get(ARRAYS).i32_load(at(0)).local_tee(NEXT);
    code.local_get(END).i32_add().local_tee(END).i32_const(CHUNK).i32_sub().local_set(LAST);
    width.splat(&mut code, below);
    code.local_set(LIMIT).i32_const(-1).i32x4_splat().local_set(FIT);
    code.loop_(BlockType::Empty);
    // The last chunk may overlap the previous one.
    code.local_get(NEXT).local_get(LAST).local_get(NEXT).local_get(LAST).i32_lt_u().select();
    code.local_set(NEXT).local_get(FIT);
    for offset in (0..CHUNK.cast_unsigned()).step_by(16) {
        code.local_get(NEXT).v128_load(aligned(offset.into(), 0));
        width.abs(&mut code);
        code.local_get(LIMIT);
        width.lt(&mut code);
        code.v128_and();
    }
    code.local_set(FIT);
    code.local_get(NEXT).i32_const(CHUNK).i32_add().local_tee(NEXT);
    code.local_get(END).i32_lt_u().br_if(0).end();
    code.local_get(FIT).i32x4_all_true().i32_eqz().br_if(0);
    pass(&mut code);
    code.call(copies.was).return_().end();
    pass(&mut code);
    code.call(copies.changed).end();
    function
}

const NUMBER: u32 = 0;
const TWO_TO_31: f64 = 2_147_483_648.0;
const TWO_TO_63: f64 = 9_223_372_036_854_775_808.0;

impl Casts {
    pub(super) fn add(changes: &mut Changes<'_, '_>) -> Self {
        use wasmparser::{FuncType, ValType};
        let to_word = FuncType::new([ValType::F64], [ValType::I32]);
        let to_long = FuncType::new([ValType::F64], [ValType::I64]);
        Self {
            word: changes.add_of_type(to_word.clone(), word()),
            unsigned_words: changes.add_of_type(to_word, unsigned_words()),
            long: changes.add_of_type(to_long.clone(), long(false)),
            unsigned_long: changes.add_of_type(to_long, long(true)),
        }
    }

    /// Returns the conversion to the integer type of this name. `vectors` is for loops that
    /// compilers vectorize for x86-64.
    pub(super) fn into(self, name: &str, vectors: bool) -> Option<Cast> {
        match name {
            "byte" | "ubyte" | "short" | "ushort" | "int" | "long" => Some(Cast::Word(self.word)),
            "uint" | "ulong" if vectors => Some(Cast::Word(self.unsigned_words)),
            "uint" | "ulong" => Some(Cast::UnsignedWord(self.long)),
            "longlong" => Some(Cast::Long(self.long)),
            "ulonglong" => Some(Cast::Long(self.unsigned_long)),
            _ => None,
        }
    }

    /// Returns the conversion that an instruction performs.
    pub(super) fn of(self, operator: &Operator<'_>) -> Option<Cast> {
        self.into(
            match operator {
                Operator::I32TruncSatF32S | Operator::I32TruncSatF64S => "int",
                Operator::I32TruncSatF32U | Operator::I32TruncSatF64U => "uint",
                Operator::I64TruncSatF32S | Operator::I64TruncSatF64S => "longlong",
                Operator::I64TruncSatF32U | Operator::I64TruncSatF64U => "ulonglong",
                _ => return None,
            },
            false,
        )
    }
}

impl Cast {
    /// Converts the number in `local`.
    pub(super) fn convert(self, code: &mut InstructionSink<'_>, local: u32) {
        let (below, function, ty) = match self {
            Self::Word(function) => (TWO_TO_31, function, ValType::I32),
            Self::UnsignedWord(function) | Self::Long(function) => {
                (TWO_TO_63, function, ValType::I64)
            }
        };
        code.local_get(local).f64_abs().f64_const(below.into()).f64_lt();
        code.if_(BlockType::Result(ty)).local_get(local);
        match ty {
            ValType::I32 => code.i32_trunc_sat_f64_s(),
            _ => code.i64_trunc_sat_f64_s(),
        };
        code.else_().local_get(local).call(function).end();
        if matches!(self, Self::UnsignedWord(_)) {
            code.i32_wrap_i64();
        }
    }
}

fn word() -> Function {
    let mut function = Function::new([]);
    let mut code = function.instructions();
    code.local_get(NUMBER).f64_const((-TWO_TO_31 - 1.0).into()).f64_gt();
    code.local_get(NUMBER).f64_const(TWO_TO_31.into()).f64_lt().i32_and();
    code.if_(BlockType::Empty).local_get(NUMBER).i32_trunc_sat_f64_s().return_().end();
    raise(&mut code, Flag::Invalid);
    code.i32_const(i32::MIN).end();
    function
}

/// Converts like vectorized code to unsigned 32 bits: in two halves.
fn unsigned_words() -> Function {
    let mut function = Function::new([]);
    let mut code = function.instructions();
    code.local_get(NUMBER).f64_const((-TWO_TO_31 - 1.0).into()).f64_gt();
    code.local_get(NUMBER).f64_const((2.0 * TWO_TO_31).into()).f64_lt().i32_and();
    code.if_(BlockType::Empty);
    code.local_get(NUMBER).i64_trunc_sat_f64_s().i32_wrap_i64().return_().end();
    raise(&mut code, Flag::Invalid);
    code.i32_const(0).i32_const(i32::MIN);
    code.local_get(NUMBER).f64_const(TWO_TO_31.into()).f64_ge().select();
    code.end();
    function
}

fn long(unsigned: bool) -> Function {
    let mut function = Function::new([]);
    let mut code = function.instructions();
    if unsigned {
        code.local_get(NUMBER).f64_const(TWO_TO_63.into()).f64_ge();
        code.local_get(NUMBER).f64_const((2.0 * TWO_TO_63).into()).f64_lt().i32_and();
        code.if_(BlockType::Empty).local_get(NUMBER).i64_trunc_sat_f64_u().return_().end();
        code.local_get(NUMBER).f64_const((2.0 * TWO_TO_63).into()).f64_ge();
        code.if_(BlockType::Empty);
        raise(&mut code, Flag::Invalid);
        code.i64_const(0).return_().end();
    }
    code.local_get(NUMBER).f64_const((-TWO_TO_63).into()).f64_ne();
    code.if_(BlockType::Empty);
    raise(&mut code, Flag::Invalid);
    code.end();
    code.i64_const(i64::MIN).end();
    function
}

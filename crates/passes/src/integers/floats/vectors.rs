//! Vectors: a loop with flags whose operands are contiguous or single numbers.
//!
//! Four vectors are computed at a time. Usually no result is an infinity or NaN, so no flag is
//! raised. Otherwise flags are computed from operands and results, also in vectors: so arrays with
//! many NaNs are not much slower than others.

use wasm_encoder::{BlockType, Function, InstructionSink, ValType};

use super::super::patterns::{aligned, at};
use super::flags::{Flag, raise};

#[derive(Clone, Copy, PartialEq)]
pub(super) enum Width {
    Single = 4,
    Double = 8,
}

#[derive(Clone, Copy, PartialEq)]
pub(super) enum Operation {
    Sum,
    Difference,
    Product,
    Quotient,
    Square,
}

impl Operation {
    pub(super) fn operands(self) -> u64 {
        if self == Self::Square { 1 } else { 2 }
    }
}

impl Width {
    /// Pushes the result of the operation on two vectors.
    fn compute(self, code: &mut InstructionSink<'_>, operation: Operation) {
        match (self, operation) {
            (Self::Single, Operation::Sum) => code.f32x4_add(),
            (Self::Single, Operation::Difference) => code.f32x4_sub(),
            (Self::Single, Operation::Product | Operation::Square) => code.f32x4_mul(),
            (Self::Single, Operation::Quotient) => code.f32x4_div(),
            (Self::Double, Operation::Sum) => code.f64x2_add(),
            (Self::Double, Operation::Difference) => code.f64x2_sub(),
            (Self::Double, Operation::Product | Operation::Square) => code.f64x2_mul(),
            (Self::Double, Operation::Quotient) => code.f64x2_div(),
        };
    }

    pub(super) fn eq(self, code: &mut InstructionSink<'_>) {
        match self {
            Self::Single => code.f32x4_eq(),
            Self::Double => code.f64x2_eq(),
        };
    }

    fn ne(self, code: &mut InstructionSink<'_>) {
        match self {
            Self::Single => code.f32x4_ne(),
            Self::Double => code.f64x2_ne(),
        };
    }

    pub(super) fn lt(self, code: &mut InstructionSink<'_>) {
        match self {
            Self::Single => code.f32x4_lt(),
            Self::Double => code.f64x2_lt(),
        };
    }

    pub(super) fn abs(self, code: &mut InstructionSink<'_>) {
        match self {
            Self::Single => code.f32x4_abs(),
            Self::Double => code.f64x2_abs(),
        };
    }

    /// Pushes a vector of one number.
    pub(super) fn splat(self, code: &mut InstructionSink<'_>, number: f64) {
        match self {
            Self::Single => code.f32_const((number as f32).into()).f32x4_splat(),
            Self::Double => code.f64_const(number.into()).f64x2_splat(),
        };
    }
}

/// Bytes computed at a time, in [`AT_ONCE`] vectors.
pub(super) const CHUNK: i32 = 64;
const AT_ONCE: u32 = 4;

/// The global that holds the stack pointer.
const STACK: u32 = 0;
/// Frame on the stack: number of remaining elements, addresses of their arrays, and vectors of
/// operands that are single numbers.
const FRAME_SIZE: i32 = 16 + 2 * CHUNK;
const FRAME_ARRAYS: i32 = 4;
const FRAME_NUMBERS: i32 = 16;

/// Parameters.
const ARRAYS: u32 = 0;
const COUNT: u32 = 1;
const STRIDES: u32 = 2;
const DATA: u32 = 3;
/// Locals.
const BYTES: u32 = 4;
const FRAME: u32 = 5;
const RESULTS: u32 = 6;
const NEXT: u32 = 7;
const END: u32 = 8;
/// Address and step of each operand; each uses this local and the next.
const PLACE: u32 = 9;
const STEP: u32 = 11;
/// Vectors of operands, and of results.
const OPERAND: [u32; 2] = [13, 17];
const RESULT: u32 = 21;
const INFINITY: u32 = 25;
const INVALID: u32 = 26;
const OVERFLOW: u32 = 27;
const DIVIDE: u32 = 28;

/// `(arrays, count, strides, data) -> i32`: 1 if the loop was performed, 0 if it is not supported
/// and nothing was done. `flagged` is the loop for elements that do not fill vectors.
pub(super) fn vectors(width: Width, operation: Operation, flagged: u32) -> Function {
    let mut function = Function::new([(9, ValType::I32), (16, ValType::V128)]);
    let mut code = function.instructions();
    let operands = operation.operands() as u32;
    code.block(BlockType::Empty);
    code.local_get(COUNT).i32_load(at(0)).i32_const(width as i32).i32_mul().local_tee(BYTES);
    code.i32_const(CHUNK).i32_lt_s().br_if(0);
    let result = 4 * u64::from(operands);
    code.local_get(STRIDES).i32_load(at(result)).i32_const(width as i32).i32_ne().br_if(0);
    code.local_get(ARRAYS).i32_load(at(result)).local_set(RESULTS);
    for operand in 0..operands {
        look_at_place(&mut code, width, operand);
    }

    code.global_get(STACK).i32_const(FRAME_SIZE).i32_sub().local_tee(FRAME).global_set(STACK);
    for operand in 0..operands {
        repeat_number(&mut code, width, operand);
    }
    width.splat(&mut code, f64::INFINITY);
    code.local_set(INFINITY);
    code.local_get(RESULTS).local_tee(NEXT);
    code.local_get(BYTES).i32_const(-CHUNK).i32_and().i32_add().local_set(END);
    code.loop_(BlockType::Empty);
    compute(&mut code, width, operation);
    for operand in 0..operands {
        code.local_get(PLACE + operand).local_get(STEP + operand).i32_add();
        code.local_set(PLACE + operand);
    }
    code.local_get(NEXT).i32_const(CHUNK).i32_add().local_tee(NEXT);
    code.local_get(END).i32_lt_u().br_if(0).end();
    for (found, flag) in
        [(INVALID, Flag::Invalid), (OVERFLOW, Flag::Overflow), (DIVIDE, Flag::Divide)]
    {
        code.local_get(found).v128_any_true().if_(BlockType::Empty);
        raise(&mut code, flag);
        code.end();
    }
    rest(&mut code, width, operands, flagged);
    code.local_get(FRAME).i32_const(FRAME_SIZE).i32_add().global_set(STACK);
    code.i32_const(1).return_().end();
    code.i32_const(0).end();
    function
}

/// Leaves the outer block unless the operand is a single number or contiguous, and does not overlap
/// the results, except for exactly equal places.
fn look_at_place(code: &mut InstructionSink<'_>, width: Width, operand: u32) {
    let (array, size) = (u64::from(operand) * 4, width as i32);
    let (place, step) = (PLACE + operand, STEP + operand);
    code.local_get(ARRAYS).i32_load(at(array)).local_set(place);
    code.block(BlockType::Empty);
    code.local_get(STRIDES).i32_load(at(array)).i32_const(size).i32_eq().if_(BlockType::Empty);
    code.i32_const(CHUNK).local_set(step);
    code.local_get(place).local_get(RESULTS).i32_eq().br_if(1);
    code.else_();
    code.local_get(STRIDES).i32_load(at(array)).br_if(2).end();
    // End of the operand.
    code.local_get(place).local_get(BYTES).i32_const(size).local_get(step).select().i32_add();
    code.local_get(RESULTS).i32_le_u().br_if(0);
    code.local_get(RESULTS).local_get(BYTES).i32_add().local_get(place).i32_gt_u().br_if(1);
    code.end();
}

/// Stores vectors of a single-number operand in the frame.
fn repeat_number(code: &mut InstructionSink<'_>, width: Width, operand: u32) {
    let (place, step) = (PLACE + operand, STEP + operand);
    code.local_get(step).i32_eqz().if_(BlockType::Empty);
    code.local_get(place);
    match width {
        Width::Single => code.v128_load32_splat(aligned(0, 0)),
        Width::Double => code.v128_load64_splat(aligned(0, 0)),
    };
    code.local_set(RESULT);
    code.local_get(FRAME).i32_const(FRAME_NUMBERS + CHUNK * operand.cast_signed()).i32_add();
    code.local_set(place);
    for vector in 0..AT_ONCE {
        code.local_get(place).local_get(RESULT).v128_store(place_of(vector));
    }
    code.end();
}

fn place_of(vector: u32) -> wasm_encoder::MemArg {
    aligned(u64::from(16 * vector), 0)
}

/// Computes and stores a chunk, and records its flags.
fn compute(code: &mut InstructionSink<'_>, width: Width, operation: Operation) {
    let operands = operation.operands() as u32;
    let operand = |which: usize, vector| OPERAND[which.min(operands as usize - 1)] + vector;
    for vector in 0..AT_ONCE {
        for which in 0..operands {
            code.local_get(PLACE + which).v128_load(place_of(vector));
            code.local_set(operand(which as usize, vector));
        }
        code.local_get(operand(0, vector)).local_get(operand(1, vector));
        width.compute(code, operation);
        code.local_set(RESULT + vector);
    }
    for vector in 0..AT_ONCE {
        code.local_get(NEXT).local_get(RESULT + vector).v128_store(place_of(vector));
    }
    for vector in 0..AT_ONCE {
        // Infinities and NaNs minus themselves are not zero.
        code.local_get(RESULT + vector).local_get(RESULT + vector);
        width.compute(code, Operation::Difference);
        if vector > 0 {
            code.v128_or();
        }
    }
    code.v128_any_true().if_(BlockType::Empty);
    for vector in 0..AT_ONCE {
        let (a, b) = (operand(0, vector), operand(1, vector));
        look(code, width, operation, (a, b, RESULT + vector));
    }
    code.end();
}

/// Records the flags of a vector: a NaN is invalid if no operand is a NaN, and an infinity is a
/// division by zero or an overflow if the operands are finite.
fn look(
    code: &mut InstructionSink<'_>,
    width: Width,
    operation: Operation,
    (a, b, result): (u32, u32, u32),
) {
    code.local_get(result).local_get(result);
    width.ne(code);
    for operand in [a, b] {
        code.local_get(operand).local_get(operand);
        width.eq(code);
        code.v128_and();
    }
    code.local_get(INVALID).v128_or().local_set(INVALID);

    code.local_get(result);
    width.abs(code);
    code.local_get(INFINITY);
    width.eq(code);
    for operand in [a, b] {
        code.local_get(operand);
        width.abs(code);
        code.local_get(INFINITY);
        width.lt(code);
        code.v128_and();
    }
    if operation == Operation::Quotient {
        code.local_tee(result).local_get(b);
        width.splat(code, 0.0);
        width.eq(code);
        code.v128_and().local_get(DIVIDE).v128_or().local_set(DIVIDE);
        code.local_get(result).local_get(b);
        width.splat(code, 0.0);
        width.ne(code);
        code.v128_and();
    }
    code.local_get(OVERFLOW).v128_or().local_set(OVERFLOW);
}

/// Performs the loop for the elements that do not fill a chunk.
fn rest(code: &mut InstructionSink<'_>, width: Width, operands: u32, flagged: u32) {
    code.local_get(BYTES).i32_const(CHUNK - 1).i32_and().local_tee(BYTES);
    code.if_(BlockType::Empty);
    code.local_get(FRAME).local_get(BYTES).i32_const(width as i32).i32_div_u();
    code.local_tee(BYTES).i32_store(at(0));
    for array in 0..=operands {
        let array = 4 * u64::from(array);
        code.local_get(FRAME).local_get(ARRAYS).i32_load(at(array));
        code.local_get(COUNT).i32_load(at(0)).local_get(BYTES).i32_sub();
        code.local_get(STRIDES).i32_load(at(array)).i32_mul().i32_add();
        code.i32_store(at(FRAME_ARRAYS as u64 + array));
    }
    code.local_get(FRAME).i32_const(FRAME_ARRAYS).i32_add().local_get(FRAME);
    code.local_get(STRIDES).local_get(DATA).call(flagged).end();
}

//! Loops: the fastest loops of numpy, with flags.
//!
//! If the operands are contiguous or single numbers, vectors of them are computed and checked here
//! ([`vectors`]). Other loops run unchanged, one block at a time: a block with an infinity or NaN
//! among its results runs again, with flags. Checking the results of a block while they are in the
//! processor's cache costs less than a comparison after each operation. A loop that overwrites its
//! operands cannot run again, so it runs with flags at once.

use wasm_encoder::{BlockType, Function, InstructionSink, ValType};

use super::super::IntegersError;
use super::super::parsed::{Changes, Copies, Parsed};
use super::super::patterns::{aligned, at};
use super::emit::{self, Other};
use super::flags::{Notes, STATUS, WANTED};
use super::sums;
use super::vectors::{Operation, Width, vectors};

/// Loops of the same operations on floats of either width.
struct Loops {
    width: Width,
    /// The sum of many numbers, which the first entry of `real` calls.
    sum: &'static str,
    real: [(&'static str, Operation); 5],
    /// Loops with two operands whose operations already raise flags.
    complex: [&'static str; 3],
}

const LOOPS: [Loops; 2] = [
    Loops {
        width: Width::Single,
        sum: "FLOAT_pairwise_sum",
        real: [
            ("FLOAT_add", Operation::Sum),
            ("FLOAT_subtract", Operation::Difference),
            ("FLOAT_multiply", Operation::Product),
            ("FLOAT_divide", Operation::Quotient),
            ("FLOAT_square", Operation::Square),
        ],
        complex: ["CFLOAT_add", "CFLOAT_subtract", "CFLOAT_multiply"],
    },
    Loops {
        width: Width::Double,
        sum: "DOUBLE_pairwise_sum",
        real: [
            ("DOUBLE_add", Operation::Sum),
            ("DOUBLE_subtract", Operation::Difference),
            ("DOUBLE_multiply", Operation::Product),
            ("DOUBLE_divide", Operation::Quotient),
            ("DOUBLE_square", Operation::Square),
        ],
        complex: ["CDOUBLE_add", "CDOUBLE_subtract", "CDOUBLE_multiply"],
    },
];

pub(super) fn apply(
    parsed: &Parsed<'_>,
    notes: &Notes,
    changes: &mut Changes<'_, '_>,
) -> Result<(), IntegersError> {
    for loops in LOOPS {
        let sum = parsed.function(loops.sum)?;
        let other = Other {
            call: Some((sum, changes.copy_changed(sum)?)),
            ..Other::default()
        };
        emit::rewrite(parsed, sum, notes, other, changes)?;
        let width = loops.width;
        let ty = [wasmparser::ValType::I32, wasmparser::ValType::I32, wasmparser::ValType::F64];
        let ty = wasmparser::FuncType::new(ty, [wasmparser::ValType::I32]);
        let quiet = changes.add_of_type(ty, sums::are_quiet(width));
        for (name, operation) in loops.real {
            let index = parsed.function(name)?;
            emit::rewrite(parsed, index, notes, other, changes)?;
            let copies = changes.both(index)?;
            let body = vectors(width, operation, copies.changed);
            let real = Real {
                operation,
                vectors: changes.add(&[(); 4], true, body)?,
                quiet,
            };
            changes.replace(
                index,
                around(&Around {
                    width,
                    size: width as i32,
                    real: Some(real),
                    copies,
                }),
            );
        }
        for name in loops.complex {
            let index = parsed.function(name)?;
            let copies = changes.both(index)?;
            changes.replace(
                index,
                around(&Around {
                    width,
                    size: 2 * width as i32,
                    real: None,
                    copies,
                }),
            );
        }
    }
    Ok(())
}

struct Around {
    width: Width,
    /// Size of an element, in bytes.
    size: i32,
    real: Option<Real>,
    copies: Copies,
}

/// A loop over real numbers.
struct Real {
    operation: Operation,
    /// The functions [`vectors()`] and [`sums::are_quiet`].
    vectors: u32,
    quiet: u32,
}

impl Around {
    fn operands(&self) -> u64 {
        self.real.as_ref().map_or(2, |real| real.operation.operands())
    }
}

/// Number of elements per block.
const BLOCK: i32 = 1024;
/// Minimum length of an array, and of the rest of a block, that is worth a block.
const SHORT: i32 = 16;

/// The global that holds the stack pointer.
const STACK: u32 = 0;
/// Frame on the stack: the length of a block, and the addresses of its arrays.
const FRAME_SIZE: i32 = 16;
const FRAME_ARRAYS: i32 = 4;

const ARRAYS: u32 = 0;
const COUNT: u32 = 1;
const STRIDES: u32 = 2;
const DATA: u32 = 3;
const LEFT: u32 = 4;
const FRAME: u32 = 5;
const LENGTH: u32 = 6;
const NEXT: u32 = 7;
const END: u32 = 8;
const RESULTS: u32 = 9;
const OTHERS: u32 = 10;
const FOUND: u32 = 11;
const SAVED: u32 = 12;

fn around(around: &Around) -> Function {
    let float = match around.width {
        Width::Single => ValType::F32,
        Width::Double => ValType::F64,
    };
    let mut function = Function::new([(6, ValType::I32), (2, ValType::V128), (1, float)]);
    let mut code = function.instructions();
    code.block(BlockType::Empty);
    // This check does not detect underflow.
    code.i32_const(0).i32_load(at(STATUS)).i32_const(WANTED).i32_and().br_if(0);
    code.local_get(COUNT).i32_load(at(0)).local_set(LEFT);
    // A quotient may be finite after an infinity.
    if let Some(real) = &around.real
        && matches!(real.operation, Operation::Sum | Operation::Difference | Operation::Product)
    {
        reduction(&mut code, around, real);
    }
    code.local_get(LEFT).i32_const(SHORT).i32_lt_s().br_if(0);
    if let Some(real) = &around.real {
        pass(&mut code);
        code.call(real.vectors).if_(BlockType::Empty).return_().end();
    }
    apart(&mut code, around);
    blocks(&mut code, around);
    code.return_().end();
    pass(&mut code);
    code.call(around.copies.changed).end();
    function
}

fn pass(code: &mut InstructionSink<'_>) {
    for parameter in [ARRAYS, COUNT, STRIDES, DATA] {
        code.local_get(parameter);
    }
}

/// If the first operand is the result and a single number, performs the loop. Leaves the block if
/// the result is not finite, with the number restored.
fn reduction(code: &mut InstructionSink<'_>, around: &Around, real: &Real) {
    let load = |code: &mut InstructionSink<'_>| {
        code.local_get(ARRAYS).i32_load(at(0));
        match around.width {
            Width::Single => code.f32_load(aligned(0, 0)),
            Width::Double => code.f64_load(aligned(0, 0)),
        };
    };
    code.block(BlockType::Empty);
    code.local_get(ARRAYS).i32_load(at(0)).local_get(ARRAYS).i32_load(at(8)).i32_ne().br_if(0);
    code.local_get(STRIDES).i32_load(at(0)).local_get(STRIDES).i32_load(at(8)).i32_or().br_if(0);
    load(code);
    code.local_set(SAVED);
    pass(code);
    code.call(around.copies.was);
    load(code);
    load(code);
    match around.width {
        Width::Single => code.f32_sub().f32_const(0.0.into()).f32_eq(),
        Width::Double => code.f64_sub().f64_const(0.0.into()).f64_eq(),
    };
    code.if_(BlockType::Empty).return_().end();
    if real.operation == Operation::Sum {
        code.local_get(STRIDES).i32_load(at(4)).i32_const(around.size).i32_eq();
        code.if_(BlockType::Empty);
        code.local_get(ARRAYS).i32_load(at(4)).local_get(LEFT).local_get(SAVED);
        if around.width == Width::Single {
            code.f64_promote_f32();
        }
        code.call(real.quiet).if_(BlockType::Empty).return_().end().end();
    }
    code.local_get(ARRAYS).i32_load(at(0)).local_get(SAVED);
    match around.width {
        Width::Single => code.f32_store(aligned(0, 0)),
        Width::Double => code.f64_store(aligned(0, 0)),
    };
    code.br(1).end();
}

/// Leaves the block unless results are contiguous and overlap no operand. If the first operand is
/// the previous result, as in cumulative sums, it still exists when the block runs again.
fn apart(code: &mut InstructionSink<'_>, around: &Around) {
    let size = around.size;
    let result = 4 * around.operands();
    code.local_get(STRIDES).i32_load(at(result)).i32_const(size).i32_ne().br_if(0);
    code.local_get(ARRAYS).i32_load(at(result)).local_set(RESULTS);
    for operand in (0..result).step_by(4) {
        code.block(BlockType::Empty);
        if operand == 0 {
            code.local_get(ARRAYS).i32_load(at(0)).i32_const(size).i32_add();
            code.local_get(RESULTS).i32_eq();
            code.local_get(STRIDES).i32_load(at(0)).i32_const(size).i32_eq().i32_and().br_if(0);
        }
        // From NEXT to END, or reversed for a negative stride.
        code.local_get(ARRAYS).i32_load(at(operand)).local_tee(NEXT);
        code.local_get(STRIDES).i32_load(at(operand));
        code.local_get(LEFT).i32_const(1).i32_sub().i32_mul().i32_add().local_set(END);
        let lesser = |code: &mut InstructionSink<'_>, greater: bool| {
            code.local_get(NEXT).local_get(END).local_get(NEXT).local_get(END);
            if greater {
                code.i32_gt_u().select();
            } else {
                code.i32_lt_u().select();
            }
        };
        lesser(code, false);
        code.local_get(RESULTS).local_get(LEFT).i32_const(size).i32_mul().i32_add().i32_lt_u();
        code.local_get(RESULTS);
        lesser(code, true);
        code.i32_const(size).i32_add().i32_lt_u().i32_and().br_if(1).end();
    }
}

fn blocks(code: &mut InstructionSink<'_>, around: &Around) {
    let size = around.size;
    let arrays = (0..=4 * around.operands()).step_by(4);
    let result = FRAME_ARRAYS as u64 + 4 * around.operands();
    code.global_get(STACK).i32_const(FRAME_SIZE).i32_sub().local_tee(FRAME).global_set(STACK);
    for array in arrays.clone() {
        code.local_get(FRAME).local_get(ARRAYS).i32_load(at(array));
        code.i32_store(at(FRAME_ARRAYS as u64 + array));
    }
    code.loop_(BlockType::Empty);
    code.local_get(LEFT).i32_const(BLOCK).local_get(LEFT).i32_const(BLOCK + SHORT).i32_lt_u();
    code.select().local_set(LENGTH);
    code.local_get(FRAME).local_get(LENGTH).i32_store(at(0));
    call_on_block(code, around.copies.was);

    // Infinities and NaNs minus themselves are not zero.
    let look = |code: &mut InstructionSink<'_>| {
        code.v128_load(aligned(0, 0)).local_tee(OTHERS).local_get(OTHERS);
        match around.width {
            Width::Single => code.f32x4_sub(),
            Width::Double => code.f64x2_sub(),
        };
    };
    code.local_get(FRAME).i32_load(at(result)).local_tee(NEXT);
    code.local_get(LENGTH).i32_const(size).i32_mul().i32_add().i32_const(16).i32_sub();
    code.local_tee(END);
    look(code);
    code.local_set(FOUND);
    code.loop_(BlockType::Empty);
    code.local_get(NEXT);
    look(code);
    code.local_get(FOUND).v128_or().local_set(FOUND);
    code.local_get(NEXT).i32_const(16).i32_add().local_tee(NEXT);
    code.local_get(END).i32_lt_u().br_if(0).end();
    code.local_get(FOUND).v128_any_true().if_(BlockType::Empty);
    call_on_block(code, around.copies.changed);
    code.end();

    for array in arrays {
        let place = at(FRAME_ARRAYS as u64 + array);
        code.local_get(FRAME).local_get(FRAME).i32_load(place);
        code.local_get(STRIDES).i32_load(at(array)).local_get(LENGTH).i32_mul().i32_add();
        code.i32_store(place);
    }
    code.local_get(LEFT).local_get(LENGTH).i32_sub().local_tee(LEFT).br_if(0).end();
    code.local_get(FRAME).i32_const(FRAME_SIZE).i32_add().global_set(STACK);
}

fn call_on_block(code: &mut InstructionSink<'_>, function: u32) {
    code.local_get(FRAME).i32_const(FRAME_ARRAYS).i32_add().local_get(FRAME);
    code.local_get(STRIDES).local_get(DATA).call(function);
}

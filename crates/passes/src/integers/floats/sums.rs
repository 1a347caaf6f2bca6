//! Sums: whether a sum that is an infinity or NaN raises a flag.

use wasm_encoder::{BlockType, Function, ValType};

use super::super::patterns::aligned;
use super::vectors::Width;

/// Parameters: address of the numbers, their count, and the initial value.
const NEXT: u32 = 0;
const COUNT: u32 = 1;
const FIRST: u32 = 2;
/// Locals.
const END: u32 = 3;
const NUMBERS: u32 = 4;
const SUM: u32 = 5;
const INFINITIES: u32 = 6;
const NEGATIVE: u32 = 7;

/// Minimum count of numbers for which this is worthwhile.
const LEAST: i32 = 16;

/// `(numbers, count, f64) -> i32`: 1 if adding the contiguous numbers and the initial value in any
/// order raises no flag.
///
/// NaNs raise no flag, and neither do infinities of the same sign. Finite numbers raise no flag if
/// the sum of their absolute values is far below the largest number, so that rounding does not
/// matter.
pub(super) fn are_quiet(width: Width) -> Function {
    let mut function = Function::new([(1, ValType::I32), (4, ValType::V128)]);
    let mut code = function.instructions();
    let greatest = match width {
        Width::Single => f64::from(f32::MAX),
        Width::Double => f64::MAX,
    };
    code.local_get(COUNT).i32_const(LEAST).i32_lt_s();
    code.local_get(FIRST).f64_abs().f64_const(f64::INFINITY.into()).f64_eq().i32_or();
    code.if_(BlockType::Empty).i32_const(0).return_().end();
    code.local_get(NEXT).local_get(COUNT).i32_const(width as i32).i32_mul().i32_add();
    code.i32_const(16).i32_sub().local_set(END);
    code.loop_(BlockType::Empty);
    // The last vector may overlap the previous one: its numbers count twice.
    code.local_get(NEXT).local_get(END).local_get(NEXT).local_get(END).i32_lt_u().select();
    code.v128_load(aligned(0, 0)).local_tee(NUMBERS);
    width.abs(&mut code);
    code.local_get(NUMBERS);
    width.abs(&mut code);
    width.splat(&mut code, f64::INFINITY);
    width.lt(&mut code);
    code.v128_and().local_get(SUM);
    match width {
        Width::Single => code.f32x4_add(),
        Width::Double => code.f64x2_add(),
    };
    code.local_set(SUM);
    for (infinity, found) in [(f64::INFINITY, INFINITIES), (f64::NEG_INFINITY, NEGATIVE)] {
        code.local_get(NUMBERS);
        width.splat(&mut code, infinity);
        width.eq(&mut code);
        code.local_get(found).v128_or().local_set(found);
    }
    code.local_get(NEXT).i32_const(16).i32_add().local_tee(NEXT);
    code.local_get(END).i32_const(16).i32_add().i32_lt_u().br_if(0).end();

    code.local_get(INFINITIES).v128_any_true().local_get(NEGATIVE).v128_any_true().i32_and();
    code.i32_eqz();
    // The initial value, unless it is a NaN.
    code.local_get(FIRST).f64_abs().f64_const(0.0.into());
    code.local_get(FIRST).local_get(FIRST).f64_eq().select();
    match width {
        Width::Single => {
            for lane in 0..4 {
                code.local_get(SUM).f32x4_extract_lane(lane).f64_promote_f32().f64_add();
            }
        }
        Width::Double => {
            for lane in 0..2 {
                code.local_get(SUM).f64x2_extract_lane(lane).f64_add();
            }
        }
    }
    code.f64_const((greatest / 1024.0).into()).f64_lt().i32_and().end();
    function
}

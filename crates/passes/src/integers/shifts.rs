//! Shifts: uses a 64-bit count to shift 64-bit integers.
//!
//! numpy handles too large counts in two steps: it compares the count, which has the width of an
//! address, with the integer's width, and returns 0 or the sign if it is not less. Here this would
//! truncate the count, so that a shift by 2^40 would be a shift by 0.

use wasm_encoder::Instruction;
use wasmparser::Operator;

use super::IntegersError;
use super::parsed::{Changes, Parsed};

/// The loops and scalar operations.
const FUNCTIONS: [&str; 8] = [
    "LONGLONG_left_shift",
    "LONGLONG_right_shift",
    "ULONGLONG_left_shift",
    "ULONGLONG_right_shift",
    "longlong_lshift",
    "longlong_rshift",
    "ulonglong_lshift",
    "ulonglong_rshift",
];

/// The bits that make a count too large: for address width, and for 64 bits.
const OF_ADDRESS: i64 = 0xffff_ffc0;
const ALL: i64 = !63;

pub(super) fn apply(
    parsed: &Parsed<'_>,
    changes: &mut Changes<'_, '_>,
) -> Result<(), IntegersError> {
    for function in FUNCTIONS {
        let index = parsed.function(function)?;
        let is =
            |operator: &Operator<'_>| matches!(operator, Operator::I64Const { value: OF_ADDRESS });
        if changes.replace_each(index, is, &Instruction::I64Const(ALL))? == 0 {
            let what = "the bits of a shift that is too large";
            return Err(IntegersError::Other { function, what });
        }
    }
    Ok(())
}

//! Identifies functions by name and code, independently of indices, which differ between tiers.

use sha2::{Digest, Sha256};
use wasmparser::Operator;

use super::BROKEN;
use super::input::Input;
use crate::PassError;

/// Returns a hash of a function's code. Called functions are represented by their names,
/// and types of calls by their parameters and results.
pub(crate) fn identity(input: &Input<'_>, function: u32) -> Result<u64, PassError> {
    let mut hash = Sha256::new();
    hash.update(input.ty(function)?.to_string());
    for operator in input.operators(function)? {
        match operator? {
            (Operator::Call { function_index } | Operator::RefFunc { function_index }, bytes) => {
                hash.update(&bytes[..1]);
                hash.update(input.name(function_index));
                hash.update([0]);
            }
            (Operator::CallIndirect { type_index, .. }, bytes) => {
                hash.update(&bytes[..1]);
                hash.update(input.types.get(type_index as usize).ok_or(BROKEN)?.to_string());
            }
            (_, bytes) => hash.update(bytes),
        }
    }
    Ok(hash.finalize().iter().take(8).fold(0, |value, &byte| value << 8 | u64::from(byte)))
}

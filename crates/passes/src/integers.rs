//! Integers: makes numpy's default integer 64 bits wide in user code, as on Linux.
//!
//! numpy's default integer has the width of an address, 32 bits here, and wraps around silently.
//! Making it 64 bits everywhere breaks the libraries: their compiled parts require index arrays
//! with the width of an address from their own Python code. So values are 64 bits wide for all
//! code, and the width of indices depends on the caller: a function added to the module walks the
//! interpreter's frames, and every place in numpy that uses the default calls it ([`width_query`]).
//!
//! * Constants in numpy's functions become calls ([`PLACES`]).
//! * Functions that return indices widen their results for user code ([`results`]).
//! * Where numpy requires indices, 64-bit integers are accepted if each fits into 32 bits
//!   ([`indices`]).
//! * Integers of 64 bits are shifted by numbers of 64 bits ([`shifts`]).
//! * The legacy generator draws integers of 64 bits ([`draws`]).
//!
//! No step guesses: functions are found by name, the code around a changed instruction is compared,
//! addresses are taken from code that is compared in the same way, and the layout of the
//! interpreter's structures comes from the table that it keeps for debuggers. A module that differs
//! is rejected.

mod addresses;
mod draws;
mod empty_paths;
mod error_numbers;
mod file_modes;
mod floats;
mod indices;
mod names;
mod offsets;
mod overflows;
mod parsed;
mod patterns;
mod results;
mod shifts;
mod width_query;

use wasmparser::BinaryReaderError;

use addresses::Addresses;
pub(super) use error_numbers::write_texts;
pub(super) use overflows::apply as tell_overflows;
use parsed::{Changes, Parsed};
use patterns::PLACES;

/// Increased with every change of the pass's output.
pub(super) const VERSION: u32 = 14;

/// The pass does not support this module.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IntegersError {
    /// The module cannot be parsed.
    #[error("the Python module cannot be parsed")]
    Parse(#[from] BinaryReaderError),
    /// A function is missing, or its name is not unique.
    #[error("the Python module has no function {0}, or more than one")]
    Function(&'static str),
    /// A function differs from the expected code.
    #[error("the function {function} of the Python module differs: {what}")]
    Other {
        /// The function.
        function: &'static str,
        /// The expected code.
        what: &'static str,
    },
    /// A part of the module is missing.
    #[error("the Python module has no {0}")]
    Missing(&'static str),
}

/// numpy's number for a C `long`, and the width of an address, 32 bits.
const LONG: i32 = 7;

/// numpy's number for a C `long long`, 64 bits.
const LONG_LONG: i32 = 9;

/// Added to a signed type's number for the unsigned type.
const UNSIGNED: i32 = 1;

/// Indices of the added functions in the module.
struct Functions {
    /// `() -> i32`: [`LONG`] or [`LONG_LONG`], depending on the caller.
    default_int: u32,
    /// The same for code that names the type `int`.
    named_int: u32,
    /// The same for values: arrays of Python integers, and sums.
    value_int: u32,
    /// `(object) -> object`: consumes a result and returns it with the width of its caller's
    /// integers.
    widen: u32,
    /// The same for a tuple of results.
    widen_tuple: u32,
}

/// Changes the module.
pub(super) fn apply(module: &[u8]) -> Result<Vec<u8>, IntegersError> {
    let parsed = Parsed::new(module)?;
    let addresses = Addresses::find(&parsed)?;
    let mut changes = Changes::new(&parsed);

    let default_int =
        changes.add(&[], true, width_query::default_int(&addresses, width_query::COMPUTING))?;
    let named_int = changes.add(&[], true, width_query::named_int(&addresses))?;
    let value_int = changes.add(&[], true, width_query::value_int(&addresses))?;
    let widen_one = changes.add(&[()], true, results::widen_one(&parsed, &addresses)?)?;
    let widen = changes.add(&[()], true, results::widen(default_int, widen_one))?;
    let widen_tuple = {
        let body = results::widen_tuple(&parsed, &addresses, default_int, widen_one)?;
        changes.add(&[()], true, body)?
    };
    let functions = Functions {
        default_int,
        named_int,
        value_int,
        widen,
        widen_tuple,
    };

    for place in PLACES {
        place.change(&parsed, &functions, &mut changes)?;
    }
    results::wrap(&parsed, &addresses, &functions, &mut changes)?;
    names::wrap(&parsed, &functions, &mut changes)?;
    indices::wrap(&parsed, &addresses, &mut changes)?;
    shifts::apply(&parsed, &mut changes)?;
    draws::apply(&parsed, &mut changes)?;
    floats::apply(&parsed, &mut changes)?;
    changes.finish()
}

/// Changes what all tiers contain, in the same way on all of them: a function's cost decides which
/// functions count fuel.
pub(super) fn apply_to_core(module: &[u8]) -> Result<Vec<u8>, IntegersError> {
    let parsed = Parsed::new(module)?;
    let mut changes = Changes::new(&parsed);
    floats::apply_to_c_library(&parsed, &mut changes)?;
    error_numbers::apply(&parsed, &mut changes)?;
    empty_paths::apply(&parsed, &mut changes)?;
    file_modes::apply(&parsed, &mut changes)?;
    changes.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_without_names_is_refused() {
        assert!(matches!(
            apply(b"\0asm\x01\0\0\0"),
            Err(IntegersError::Function(_) | IntegersError::Missing(_))
        ));
    }

    #[test]
    fn what_is_no_module_is_refused() {
        assert!(matches!(apply(b"python"), Err(IntegersError::Parse(_))));
    }
}

//! Merge: identical code folding. Equal functions become one, and functions that cannot be called
//! are removed.
//!
//! Functions are equal if their types have the same content and their bodies are the same, byte by
//! byte, except that calls may reach equal functions. The first function stays. Calls, exports and
//! table entries of the others refer to it. Table slots keep their numbers: function pointers are
//! slots, and different ones stay different.
//!
//! [`equal`] only merges functions that the meter treats alike, so fuel stays the same everywhere.
//!
//! Functions are renumbered, so the pass follows those that find functions by name.

mod equal;
mod input;
mod write;

use super::PassError;

/// Increased with every change of the pass's output.
pub(super) const VERSION: u32 = 1;

/// Merges the equal functions of `module`.
pub(super) fn apply(module: &[u8]) -> Result<Vec<u8>, PassError> {
    let input = input::Input::parse(module)?;
    let first = equal::first_of_each(&input);
    write::write(&input, &first)
}

const fn unsupported(why: &'static str) -> PassError {
    PassError::Unsupported { pass: "merge", why }
}

const BROKEN: PassError = unsupported("its functions are not well formed");

#[cfg(test)]
mod tests;

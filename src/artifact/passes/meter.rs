//! The meter: a module that counts its own work, and comes to the host when its fuel is used up.
//!
//! One mutable 64-bit global is the fuel that is left. The entries of some functions and the
//! headers of loops take from it; where it is below zero they call the host, which lets others run,
//! stops the guest, or gives it more. Innermost loops without calls take from it where they are left,
//! and trap after very many turns. `docs/internals/metering.md` says what a unit is, and why a
//! check is always reached; `check` verifies it on what this makes.

mod analyse;
mod body;
mod cut_set;
mod helpers;
mod rewrite;

use super::PassError;

/// The name under which the code exports the fuel that is left.
pub(crate) const FUEL: &str = "belljar.fuel";
/// The module and the name of the function that gives more: it takes nothing and returns how much.
pub(crate) const REFUEL: (&str, &str) = ("belljar", "refuel");

/// What a loop takes at once that makes too many turns without a look: by this the host knows it.
pub(crate) const OVERRUN: i64 = 1 << 62;
/// Operators that a loop may run without a look. A pass over all of the memory, byte by byte, seldom
/// has so many; they take a few seconds.
pub(crate) const MAX_QUIET: u64 = 1 << 34;

pub(super) const VERSION: u32 = 5;

/// The longest way of a function in the Python module's table that calls none through it. A tier of the
/// module may have a shorter one, and reckons with this one all the same: what is chosen is then
/// the same on every tier.
pub(super) const TABLE_WAY: u64 = 49_963;

/// Makes `module` count its work. A call through its table is taken to run `table_way` operators
/// without a check, or more if there is a function with more.
pub(super) fn apply(module: &[u8], table_way: u64) -> Result<Vec<u8>, PassError> {
    let analysed = analyse::analyse(module)?;
    let cut = cut_set::cut_set(&analysed, table_way);
    rewrite::rewrite(module, &analysed, &cut)
}

/// The pass does not know how to meter this.
const fn unsupported(why: &'static str) -> PassError {
    PassError::Unsupported { pass: "meter", why }
}

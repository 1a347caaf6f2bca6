//! The meter: makes a module count its own work, and call the host when its fuel is used up.
//!
//! One mutable 64-bit global contains the remaining fuel. The entries of some functions and the
//! headers of loops subtract from it; if it is below zero they call the host, which lets other
//! tasks run, stops the guest, or adds fuel. Innermost loops without calls subtract on exit, and
//! trap after very many iterations. `docs/internals/metering.md` defines the unit and explains why
//! a check is always reached; `check` verifies it on the pass's output.

mod analyse;
mod body;
mod cut_set;
mod helpers;
mod rewrite;

use super::PassError;

pub(crate) use cut_set::on_cycles;

/// Export name of the remaining fuel.
pub const FUEL: &str = "belljar.fuel";
/// Module and name of the imported function that adds fuel: it takes no parameters and returns the
/// amount.
pub const REFUEL: (&str, &str) = ("belljar", "refuel");

/// Fuel that a loop subtracts when it has too many iterations without a check, by which the host
/// recognizes it.
pub const OVERRUN: i64 = 1 << 62;
/// Maximum number of operators that a loop runs without a check. A byte-by-byte pass over the whole
/// memory rarely has so many; they take a few seconds.
pub const MAX_QUIET: u64 = 1 << 34;

pub(super) const VERSION: u32 = 6;

/// Increased with every change of metered extensions.
pub(super) const EXTENSION_VERSION: u32 = 2;

/// Module and name of the imported global with the remaining fuel, in extensions.
const SHARED_FUEL: (&str, &str) = (crate::link::MAIN, FUEL);

/// Makes `module` count its work.
pub(super) fn apply(module: &[u8]) -> Result<Vec<u8>, PassError> {
    let analysed = analyse::analyse(module, Kind::Main)?;
    let cut = cut_set::cut_set(&analysed);
    rewrite::rewrite(module, &analysed, &cut)
}

/// Makes an extension count its work on the main module's counter. Extensions are not trusted to be
/// reasonable: every function and every loop checks the fuel and pays for its code, and so does
/// every call that leaves the extension.
pub(super) fn apply_to_extension(module: &[u8]) -> Result<Vec<u8>, PassError> {
    let analysed = analyse::analyse(module, Kind::Extension)?;
    rewrite::rewrite(module, &analysed, &vec![true; analysed.functions.len()])
}

/// Kind of a module.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
enum Kind {
    #[default]
    Main,
    /// A module that shares the state of the main module.
    Extension,
}

/// Returns the error for a module that the pass cannot meter.
const fn unsupported(why: &'static str) -> PassError {
    PassError::Unsupported { pass: "meter", why }
}

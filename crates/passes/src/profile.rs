//! Profile: rewrites frequent calls of the Python module, as counted with a corpus of programs.
//!
//! * An indirect call that mostly reaches the same function becomes a comparison of the table slot
//!   with a direct call; other slots take the indirect call as before ([`rewrite`]).
//! * Frequent direct calls of small functions are replaced by the function's body.
//!
//! The profile (`profile/calls.txt`) only decides which calls change. A wrong profile costs speed.
//! `benches/profile` writes it: it counts the calls of the module that this pass receives. A
//! function is identified by its name and a hash of its code ([`identity`]), and recorded with the
//! smallest tier that contains it. A recorded function that is missing or differs is an error.
//!
//! Functions, types and table slots keep their indices.

mod counting;
mod gather;
mod identity;
mod input;
mod plan;
mod recorded;
mod rewrite;

use crate::PassError;
use crate::tier::Tier;

pub use counting::COUNT;
pub use gather::{CallCounts, Profile};
pub(crate) use identity::identity;
pub(crate) use input::Input;

use plan::{Limits, Plan};
use recorded::Recorded;

/// Increased with every change of the pass's output. The profile has a version of its own.
pub(super) const VERSION: u32 = 3;

/// The profile of the pinned module.
const RECORDED: &str = include_str!("profile/calls.txt");

/// The profile does not belong to the module.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProfileError {
    /// The profile cannot be read.
    #[error("line {line} of the profile of calls is not valid")]
    Line {
        /// Number of the line, from 1.
        line: usize,
    },
    /// The profile belongs to another module.
    #[error(
        "the profile of calls belongs to another module ({what}): run `benches/profile` and commit \
         crates/passes/src/profile/calls.txt"
    )]
    Stale {
        /// The part of the module that differs.
        what: String,
    },
}

/// Rewrites the calls of the Python module of a tier.
pub(super) fn apply(module: &[u8], tier: Tier) -> Result<Vec<u8>, PassError> {
    let recorded = Recorded::parse(RECORDED)?;
    let input = Input::parse(module)?;
    let plan = Plan::of(&input, &recorded, tier)?;
    rewrite::rewrite(&input, &plan, Limits::DEFAULT)
}

/// A hash (FNV-1a) of the profile. It is computed at compile time: programs without the compiler do
/// not contain the profile.
pub(super) const RECORDED_VERSION: u64 = {
    let (mut hash, mut at) = (0xcbf2_9ce4_8422_2325_u64, 0);
    while at < RECORDED.len() {
        hash = (hash ^ RECORDED.as_bytes()[at] as u64).wrapping_mul(0x0100_0000_01b3);
        at += 1;
    }
    hash
};

/// Returns the module with a call of [`COUNT`] before each call.
pub(super) fn count(module: &[u8]) -> Result<Vec<u8>, PassError> {
    counting::count(module)
}

/// Rewrites the calls of a module with an invented profile.
pub(super) fn apply_at_random(
    module: &[u8],
    draw: impl FnMut() -> Option<(u32, f64)>,
) -> Result<Vec<u8>, PassError> {
    let input = Input::parse(module)?;
    let plan = Plan::at_random(&input, draw)?;
    rewrite::rewrite(&input, &plan, Limits::DEFAULT)
}

const fn unsupported(why: &'static str) -> PassError {
    PassError::Unsupported {
        pass: "profile",
        why,
    }
}

const BROKEN: PassError = unsupported("its functions are not well formed");

#[cfg(test)]
mod tests;

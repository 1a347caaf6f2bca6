//! Passes: what is changed in the module on its way from the artifact to the compiler.
//!
//! The module goes through [`WHOLE`], is split, and its code goes through [`CODE`]. Images hold the
//! interpreter's memory, in which function pointers are slots of the table: a pass may renumber
//! functions, but what stands in the table stays in its slot.

mod check;
mod integers;
mod meter;
mod tiers;

use std::time::Instant;

use wasmparser::{BinaryReaderError, ImportSectionReader, TypeRef};

use check::CheckError;
pub use integers::IntegersError;
pub(crate) use meter::{FUEL, MAX_QUIET, OVERRUN, REFUEL};
pub(crate) use tiers::MISSING;

use super::tier::{LIBRARIES, Tier};

/// A change of the module.
struct Pass {
    name: &'static str,
    /// The smallest tier with what it changes.
    from: Tier,
    /// Raised with every change of what the pass makes: compiled code and images are named after it.
    version: u32,
    apply: fn(&[u8]) -> Result<Vec<u8>, PassError>,
}

/// On the whole module, with its names and its data, in this order.
const WHOLE: &[Pass] = &[
    Pass {
        name: "flags of the C library",
        from: Tier::Core,
        version: integers::VERSION,
        apply: |module| Ok(integers::apply_to_c_library(module)?),
    },
    Pass {
        name: "integers",
        from: Tier::Data,
        version: integers::VERSION,
        apply: |module| Ok(integers::apply(module)?),
    },
];

/// On its code, which has neither, in this order.
const CODE: &[Pass] = &[Pass {
    name: "meter",
    from: Tier::Core,
    version: meter::VERSION,
    apply: |module| meter::apply(module, meter::TABLE_WAY),
}];

/// A pass met what it cannot change.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PassError {
    /// The module cannot be parsed.
    #[error("the Python module cannot be parsed")]
    Parse(#[from] BinaryReaderError),
    /// It holds what a pass does not know how to change.
    #[error("the pass `{pass}` cannot change the Python module: {why}")]
    Unsupported {
        /// The pass.
        pass: &'static str,
        /// What it holds.
        why: &'static str,
    },
    /// What came out of the passes cannot be shown to stop.
    #[error(transparent)]
    Check(#[from] CheckError),
    /// Numbers cannot be made 64 bits wide in it.
    #[error(transparent)]
    Integers(#[from] IntegersError),
}

/// Takes out of the module what `tier` does not hold, and applies what concerns the whole module.
pub(super) fn on_module(module: Vec<u8>, tier: Tier) -> Result<Vec<u8>, PassError> {
    if tier == Tier::All {
        return apply(WHOLE, module, tier);
    }
    let started = Instant::now();
    let held = tiers::apply(&module, tier, LIBRARIES)?;
    tracing::debug!(%tier, elapsed = ?started.elapsed(), "took what the tier does not hold");
    drop(module);
    apply(WHOLE, held, tier)
}

/// Applies what concerns the code, and proves that the code which comes out stops.
pub(super) fn on_code(code: Vec<u8>) -> Result<Vec<u8>, PassError> {
    let code = apply(CODE, code, Tier::All)?;
    let started = Instant::now();
    check::check(&code)?;
    tracing::debug!(elapsed = ?started.elapsed(), "checked the module");
    Ok(code)
}

fn apply(passes: &[Pass], mut module: Vec<u8>, tier: Tier) -> Result<Vec<u8>, PassError> {
    for pass in passes.iter().filter(|pass| pass.from <= tier) {
        let started = Instant::now();
        module = (pass.apply)(&module)?;
        tracing::debug!(pass = pass.name, elapsed = ?started.elapsed(), "changed the module");
    }
    Ok(module)
}

/// How many functions a module imports: the index of the first that it defines.
fn imported_functions(section: ImportSectionReader) -> Result<u32, BinaryReaderError> {
    let mut count = 0;
    for import in section.into_imports() {
        if matches!(import?.ty, TypeRef::Func(_) | TypeRef::FuncExact(_)) {
            count += 1;
        }
    }
    Ok(count)
}

/// Has a module that was changed tell of integers that overflow.
#[cfg(test)]
pub(super) fn tell_overflows(module: &[u8]) -> Result<Vec<u8>, PassError> {
    Ok(integers::tell_overflows(module)?)
}

/// Names all passes and their versions. Code and images depend on it.
pub(crate) fn versions() -> String {
    let passes = WHOLE.iter().chain(CODE);
    passes.map(|pass| format!("{} {}", pass.name, pass.version)).collect::<Vec<_>>().join("\n")
}

/// Names what takes code out of the module, besides [`versions`]: the code of `tier` depends on it.
pub(super) fn tier_version(tier: Tier) -> Option<String> {
    (tier != Tier::All).then(|| format!("tiers {} {tier}", tiers::VERSION))
}

/// Meters a module that is split already, unchecked.
#[cfg(feature = "fuzzing")]
pub(crate) fn meter_module(module: &[u8]) -> Result<Vec<u8>, PassError> {
    meter::apply(module, 0)
}

/// Checks a metered module.
#[cfg(feature = "fuzzing")]
pub(crate) fn check_module(module: &[u8]) -> Result<(), CheckError> {
    check::check(module)
}

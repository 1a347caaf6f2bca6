//! Passes: changes of the module between the artifact and the compiler.
//!
//! The passes `WHOLE` are applied to the module; it is split, and the passes `CODE` are applied
//! to its code. Images contain the interpreter's memory, in which function pointers are table
//! slots: a pass may renumber functions, but table entries must stay in their slots.

#![deny(unsafe_code)]

mod check;
mod integers;
mod link;
mod merge;
mod meter;
mod profile;
mod replace;
mod tier;
mod tiers;

use std::time::Instant;

use wasm_encoder::reencode;
use wasmparser::{BinaryReaderError, ImportSectionReader, TypeRef};

pub use check::{CheckError, check, check_extension};
pub use integers::IntegersError;
pub use link::{
    CONSTRUCTORS, Extension, LINKED, LinkError, Linked, MAIN, Needs, Place, STACK_POINTER, Targets,
};
pub use meter::{FUEL, MAX_QUIET, OVERRUN, REFUEL};
pub use profile::{COUNT, CallCounts, Profile, ProfileError};
pub use replace::ReplaceError;
pub use tier::{LIBRARIES, Library, Tier};
pub use tiers::MISSING;

/// A change of the module.
struct Pass {
    name: &'static str,
    /// Smallest tier that contains the changed code.
    from: Tier,
    /// Increased with every change of the pass's output: compiled code and images are named after
    /// it.
    version: u32,
    apply: fn(&[u8]) -> Result<Vec<u8>, PassError>,
}

/// Passes on the whole module, with its names and data, in this order.
const WHOLE: &[Pass] = &[
    Pass {
        name: "what the C library has otherwise than Linux's",
        from: Tier::Core,
        version: integers::VERSION,
        apply: |module| Ok(integers::apply_to_core(module)?),
    },
    Pass {
        name: "integers",
        from: Tier::Data,
        version: integers::VERSION,
        apply: |module| Ok(integers::apply(module)?),
    },
];

/// Passes on its code, without names and data, in this order.
const CODE: &[Pass] = &[
    Pass {
        name: "merge",
        from: Tier::Core,
        version: merge::VERSION,
        apply: merge::apply,
    },
    Pass {
        name: "meter",
        from: Tier::Core,
        version: meter::VERSION,
        apply: meter::apply,
    },
];

/// A pass cannot change the module.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PassError {
    /// The module cannot be parsed.
    #[error("the Python module cannot be parsed")]
    Parse(#[from] BinaryReaderError),
    /// The module contains code that a pass does not support.
    #[error("the pass `{pass}` cannot change the Python module: {why}")]
    Unsupported {
        /// Name of the pass.
        pass: &'static str,
        /// The unsupported code.
        why: &'static str,
    },
    /// The module after the passes cannot be proved to stop.
    #[error(transparent)]
    Check(#[from] CheckError),
    /// The integers pass does not support the module.
    #[error(transparent)]
    Integers(#[from] IntegersError),
    /// The profile of calls does not belong to the module.
    #[error(transparent)]
    Profile(#[from] ProfileError),
    /// Functions cannot be replaced.
    #[error(transparent)]
    Replace(#[from] ReplaceError),
}

impl PassError {
    /// Returns the error of `pass` for a part that cannot be written again.
    fn of(error: reencode::Error, pass: &'static str) -> Self {
        match error {
            reencode::Error::ParseError(error) => error.into(),
            _ => Self::Unsupported {
                pass,
                why: "it has what is not known how to write",
            },
        }
    }
}

/// Removes the code that is not in `tier`, and applies the passes on the whole module.
///
/// # Errors
///
/// If a pass cannot change the module.
pub fn on_module(module: Vec<u8>, tier: Tier) -> Result<Vec<u8>, PassError> {
    let module = before_profile(module, tier)?;
    let started = Instant::now();
    let module = profile::apply(&module, tier)?;
    tracing::debug!(elapsed = ?started.elapsed(), "rewrote calls");
    Ok(module)
}

/// Does the same without the profile pass. Only tests use it, and the command that writes the
/// profile.
///
/// # Errors
///
/// If a pass cannot change the module.
pub fn before_profile(mut module: Vec<u8>, tier: Tier) -> Result<Vec<u8>, PassError> {
    if tier != Tier::All {
        let started = Instant::now();
        module = tiers::apply(&module, tier, LIBRARIES)?;
        tracing::debug!(%tier, elapsed = ?started.elapsed(), "took what the tier does not hold");
    }
    module = apply(WHOLE, module, tier)?;
    let started = Instant::now();
    module = replace::apply(&module, tier)?;
    tracing::debug!(elapsed = ?started.elapsed(), "replaced functions");
    Ok(module)
}

/// Changes the interpreter's first memory, as [`on_module`] changes its code and its memory's size.
///
/// # Errors
///
/// If it is not as expected.
pub fn on_memory(memory: &mut Vec<u8>) -> Result<(), PassError> {
    const PAGE: usize = 65_536;
    integers::write_texts(memory)?;
    memory.resize(memory.len() + replace::PAGES as usize * PAGE, 0);
    Ok(())
}

/// Applies the passes on the code, and proves that the resulting code stops.
///
/// # Errors
///
/// If a pass cannot change the code, or the proof fails.
pub fn on_code(code: Vec<u8>) -> Result<Vec<u8>, PassError> {
    let code = apply(CODE, code, Tier::All)?;
    let started = Instant::now();
    check(&code)?;
    tracing::debug!(elapsed = ?started.elapsed(), "checked the module");
    Ok(code)
}

/// Returns the whole module with exports and room for extensions. Its code does not change.
///
/// # Errors
///
/// If the module is not as expected.
pub fn open_for_extensions(module: &[u8]) -> Result<Vec<u8>, PassError> {
    link::open(module)
}

/// Meters a linked extension, and proves that it and the main module stop.
///
/// # Errors
///
/// If it cannot be metered, or the proof fails.
pub fn on_extension(module: &[u8]) -> Result<Vec<u8>, PassError> {
    let module = meter::apply_to_extension(module)?;
    check_extension(&module)?;
    Ok(module)
}

/// Returns a key of the linker: extensions and the code of modules that are open for them depend on
/// it and on the meter and the checker.
pub fn link_version() -> String {
    let meter = [meter::VERSION, meter::EXTENSION_VERSION];
    format!("link {} meter {meter:?} rules {}", link::VERSION, check::EXTENSION_VERSION)
}

fn apply(passes: &[Pass], mut module: Vec<u8>, tier: Tier) -> Result<Vec<u8>, PassError> {
    for pass in passes.iter().filter(|pass| pass.from <= tier) {
        let started = Instant::now();
        module = (pass.apply)(&module)?;
        tracing::debug!(pass = pass.name, elapsed = ?started.elapsed(), "changed the module");
    }
    Ok(module)
}

/// Returns the number of imported functions: the index of the first defined function.
fn imported_functions(section: ImportSectionReader) -> Result<u32, BinaryReaderError> {
    let mut count = 0;
    for import in section.into_imports() {
        if matches!(import?.ty, TypeRef::Func(_) | TypeRef::FuncExact(_)) {
            count += 1;
        }
    }
    Ok(count)
}

/// Makes a changed module report integer overflows. Only tests use it: no pass has its cost.
///
/// # Errors
///
/// If the module is not as expected.
pub fn tell_overflows(module: &[u8]) -> Result<Vec<u8>, PassError> {
    Ok(integers::tell_overflows(module)?)
}

/// Makes a module call [`COUNT`] before each of its calls. Only the command that writes the profile
/// uses it.
///
/// # Errors
///
/// If a call cannot be counted.
pub fn count_calls(module: &[u8]) -> Result<Vec<u8>, PassError> {
    profile::count(module)
}

/// Rewrites the calls of a module of any compiler with an invented profile, for tests: `draw`
/// returns a slot, which counts for indirect calls, and a frequency, or `None` to go on to the next
/// call.
///
/// # Errors
///
/// If the profile pass does not support the module.
pub fn rewrite_calls(
    module: &[u8],
    draw: impl FnMut() -> Option<(u32, f64)>,
) -> Result<Vec<u8>, PassError> {
    profile::apply_at_random(module, draw)
}

/// Replaces functions of a module of any compiler, for tests: `text` is like the files in
/// `replace/`, and the functions may have any code.
///
/// # Errors
///
/// If the text is refused, or the module does not have its functions.
pub fn replace_functions(module: &[u8], text: &str) -> Result<Vec<u8>, PassError> {
    replace::apply_file(module, text)
}

/// Returns two modules of functions of the Python module, for tests: as they were, and replaced.
/// Each has the named functions, those that they call directly, and a memory of `pages`, of which
/// the first is the stack.
///
/// # Errors
///
/// If the module does not have the functions.
pub fn replaced_functions(
    module: &[u8],
    names: &[&str],
    pages: u32,
) -> Result<[Vec<u8>; 2], PassError> {
    let old = replace::extract(module, names, pages)?;
    let new = replace::apply(&old, Tier::Core)?;
    Ok([old, new])
}

/// Returns a key of all passes and their versions. Code and images depend on it.
pub fn versions() -> String {
    let passes = WHOLE.iter().chain(CODE);
    let mut lines: Vec<_> = passes.map(|pass| format!("{} {}", pass.name, pass.version)).collect();
    lines.push(format!("replace {} {:016x}", replace::VERSION, replace::FILES_VERSION));
    lines.push(format!("profile {} {:016x}", profile::VERSION, profile::RECORDED_VERSION));
    lines.join("\n")
}

/// Returns a key of the removal of code, in addition to [`versions`]: the code of `tier` depends on
/// it.
pub fn tier_version(tier: Tier) -> Option<String> {
    (tier != Tier::All).then(|| format!("tiers {} {tier}", tiers::VERSION))
}

/// Merges the equal functions of a module of any compiler, for tests.
///
/// # Errors
///
/// If the merge pass does not support the module.
pub fn merge_functions(module: &[u8]) -> Result<Vec<u8>, PassError> {
    merge::apply(module)
}

/// Meters a module of any compiler, without its data and without the check.
///
/// # Errors
///
/// If the meter does not support the module.
pub fn meter(module: &[u8]) -> Result<Vec<u8>, PassError> {
    meter::apply(module)
}

//! The compiler, if this build has one.

use wasmtime::{Engine, Result};

/// Whether this build has a compiler. It is tested before code that is only used to compile and
/// bake, so that a program without a compiler also omits the passes and the runner's sources.
pub(crate) const IS_HERE: bool = cfg!(feature = "compile");

/// Compiles a module for this machine.
#[cfg(feature = "compile")]
pub(super) fn compile(engine: &Engine, module: &[u8]) -> Result<Vec<u8>> {
    engine.precompile_module(module)
}

/// Returns a key that differs between engines whose code is incompatible.
#[cfg(feature = "compile")]
pub(super) fn compatibility(engine: &Engine) -> impl std::hash::Hash {
    engine.precompile_compatibility_hash()
}

#[cfg(not(feature = "compile"))]
pub(super) fn compile(_: &Engine, _: &[u8]) -> Result<Vec<u8>> {
    Err(wasmtime::Error::msg("this build has no compiler"))
}

#[cfg(not(feature = "compile"))]
pub(super) fn compatibility(_: &Engine) -> impl std::hash::Hash {
    "none"
}

//! The compiler, where this build has one.

use wasmtime::{Engine, Result};

/// Whether there is one. Asked for before what only serves to compile and to bake, so that a program
/// without a compiler has none of that either: neither the passes nor the runner's sources.
pub(crate) const IS_HERE: bool = cfg!(feature = "compile");

/// Compiles a module for this machine.
#[cfg(feature = "compile")]
pub(super) fn compile(engine: &Engine, module: &[u8]) -> Result<Vec<u8>> {
    engine.precompile_module(module)
}

/// What tells apart engines that need code of their own.
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

//! The Python module: downloaded, changed by passes, split into code and memory, and compiled once
//! per machine.
//!
//! This is the only place that configures wasmtime.

pub(crate) mod bundle;
pub(crate) mod cache;
mod code;
mod compiler;
mod config;
#[cfg(feature = "testing")]
mod foreign;
pub(crate) mod image;
mod modules;
mod split;
#[cfg(feature = "compile")]
mod target;
pub(crate) mod wheel;

pub use code::CodeError;
pub(crate) use code::{Code, Codes, Form, Need, code_file, first_memory, remove_extensions};
pub(crate) use compiler::IS_HERE as HAS_COMPILER;
#[cfg(feature = "testing")]
pub(crate) use foreign::compile_foreign;
#[cfg(feature = "compile")]
pub(crate) use modules::left_out;
pub(crate) use modules::{modules_of, tier_of};
#[cfg(test)]
pub(crate) use split::split;
pub(crate) use split::{PAGE, STACK_POINTER};
#[cfg(feature = "compile")]
pub(crate) use target::TargetCompiler;
pub use wheel::ArtifactError;
pub(crate) use wheel::{Artifact, PINS, read_archive};

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
mod passes;
mod split;
#[cfg(feature = "compile")]
mod target;
mod tier;
pub(crate) mod wheel;

pub use code::CodeError;
pub(crate) use code::{Code, Codes, Form, Need, code_file, first_memory};
pub(crate) use compiler::IS_HERE as HAS_COMPILER;
#[cfg(feature = "testing")]
pub(crate) use foreign::compile_foreign;
pub(crate) use passes::{FUEL, MAX_QUIET, MISSING, OVERRUN, REFUEL, versions as pass_versions};
#[cfg(feature = "fuzzing")]
pub(crate) use passes::{check_module, meter_module};
pub(crate) use split::{PAGE, STACK_POINTER};
#[cfg(feature = "compile")]
pub(crate) use target::compile_for;
pub(crate) use tier::LIBRARIES;
pub use tier::Tier;
#[cfg(feature = "compile")]
pub(crate) use tier::left_out;
pub use wheel::ArtifactError;
pub(crate) use wheel::{Artifact, PINS, read_archive};

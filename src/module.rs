//! The Python module: fetched, split into code and memory, compiled once per machine.
//!
//! This is the only place that configures wasmtime.

pub(crate) mod artifact;
mod code;
mod engine;
mod split;

pub use artifact::ArtifactError;
pub(crate) use artifact::{Artifact, PINS};
pub use code::CodeError;
pub(crate) use code::{Code, code_file, split_artifact};
pub use split::SplitError;
pub(crate) use split::{PAGE, STACK_POINTER};

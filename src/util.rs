//! Small modules that all others use, and that import none of them.

pub(crate) mod cause;
pub(crate) mod error_code;
pub(crate) mod hint;
pub(crate) mod host_names;
pub(crate) mod parallel;
pub mod progress;

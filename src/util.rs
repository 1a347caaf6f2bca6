//! Small things that every room uses and that know nothing of any other.

pub(crate) mod cause;
pub(crate) mod error_code;
pub(crate) mod hint;
pub(crate) mod parallel;
pub mod progress;

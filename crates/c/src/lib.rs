//! belljar for programs in C, and in all that can call C.
//!
//! The rules that hold for every function:
//!
//! * Text is UTF-8 that ends with a zero byte. Requests, outcomes, events and values are the JSON
//!   documents that `docs/reference/errors.md`, `docs/reference/outcome.md`,
//!   `docs/reference/events.md` and `docs/reference/values.md` describe.
//! * A function that can fail returns null when it did not, and otherwise the error: a JSON object
//!   with `code`, `blame`, `message`, and, where there are any, `hint` and `reasons`. It is the
//!   caller's, for [`belljar_string_free`](strings::belljar_string_free). What code does wrong is no
//!   error: it is in the outcome.
//! * What a function gives through a pointer it gives only when it did not fail.
//! * Handles may be used by any number of threads at once, and freed by one when no other uses
//!   them. Freeing null does nothing.
//! * A handle belongs to the process that made it: after a fork the child gets an error from it.
#![deny(unsafe_code, missing_docs)]
#![warn(
    clippy::exit,
    clippy::print_stderr,
    clippy::print_stdout,
    clippy::unwrap_used
)]

pub mod callbacks;
mod failure;
pub mod outcome;
pub mod runtime;
pub mod session;
pub mod strings;

/// The version of this interface: raised when a program that was compiled for an older one would go
/// wrong. Functions and keys of JSON are added without that.
pub const BELLJAR_ABI_VERSION: u32 = 1;

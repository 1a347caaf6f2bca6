//! belljar for C, and for languages that can call C.
//!
//! Rules for all functions:
//!
//! * Text is UTF-8 and ends with a zero byte. Requests, outcomes, events and values are JSON as
//!   described in `docs/reference/errors.md`, `docs/reference/outcome.md`,
//!   `docs/reference/events.md` and `docs/reference/values.md`.
//! * A function that can fail returns null on success, and otherwise an error: a JSON object with
//!   `code`, `blame`, `message`, and, if available, `hint` and `reasons`. The caller frees it with
//!   [`belljar_string_free`](strings::belljar_string_free). Errors of the code are not errors of
//!   the function: they are in the outcome.
//! * Results are written through pointers only on success.
//! * Handles may be used by several threads at the same time, and freed when no other thread uses
//!   them. Freeing null does nothing.
//! * A handle belongs to the process that created it: in a forked child, it gives an error.
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

/// Version of this interface, raised on incompatible changes. New functions and JSON keys do not
/// raise it.
pub const BELLJAR_ABI_VERSION: u32 = 1;

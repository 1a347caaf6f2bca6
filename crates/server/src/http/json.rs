//! JSON of clients, which may take far more memory than the bytes that it was sent in.

use axum::http::StatusCode;
use belljar_kernel::json::{MAX_MEMORY, memory_of};

use super::problem::Problem;

/// Refuses a text whose values would take too much memory.
pub(crate) fn check(text: &[u8]) -> Result<(), String> {
    if memory_of(text) > MAX_MEMORY {
        return Err("the body has more JSON values than one request may have".into());
    }
    Ok(())
}

/// The same, told as a problem.
pub(crate) fn checked(text: &[u8]) -> Result<(), Problem> {
    check(text).map_err(|why| Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "bad_body", why))
}

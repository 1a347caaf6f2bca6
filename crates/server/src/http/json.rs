//! Limits on clients' JSON, whose values may take far more memory than its text.

use axum::http::StatusCode;
use belljar_kernel::json::{MAX_MEMORY, memory_of};

use super::problem::Problem;

/// Rejects a text whose values would take too much memory.
pub(crate) fn check(text: &[u8]) -> Result<(), String> {
    if memory_of(text) > MAX_MEMORY {
        return Err("the body has too many JSON values for one request".into());
    }
    Ok(())
}

/// The same with a problem as error.
pub(crate) fn checked(text: &[u8]) -> Result<(), Problem> {
    check(text).map_err(|why| Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "bad_body", why))
}

//! Errors as text for the caller.

use std::ffi::c_char;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;

use belljar::Error;
use belljar::request::Refusal;
use serde_json::{Value, json};

use crate::strings::give_text;

/// Why a call failed.
pub(crate) struct Failure(Value);

impl Failure {
    /// The caller's argument is invalid.
    pub fn argument(name: &str, problem: impl std::fmt::Display) -> Self {
        Self::of("argument", "caller", &format!("the argument `{name}` {problem}"))
    }

    fn of(code: &str, blame: &str, message: &str) -> Self {
        Self(json!({ "code": code, "blame": blame, "message": message }))
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let mut failure = json!({
            "code": error.code(),
            "blame": error.blame().as_str(),
            "message": error.with_causes(),
        });
        if let Some(hint) = error.hint() {
            failure["hint"] = hint.into();
        }
        if let Error::Refused(refusal) = &error {
            failure["reasons"] = serde_json::to_value(&refusal.reasons).unwrap_or_default();
        }
        Self(failure)
    }
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        Error::from(refusal).into()
    }
}

/// Runs the body of an exported function. A panic becomes an error, because it must not unwind into
/// C.
pub(crate) fn guarded(work: impl FnOnce() -> Result<(), Failure>) -> *mut c_char {
    let done = catch_unwind(AssertUnwindSafe(work))
        .unwrap_or_else(|_| Err(Failure::of("internal", "engine", "internal error")));
    match done {
        Ok(()) => ptr::null_mut(),
        Err(Failure(error)) => give_text(error.to_string()),
    }
}

//! Errors for JavaScript: JSON text, from which `index.js` makes a `BelljarError`.

use belljar::Error;
use napi::Status;
use serde_json::{Value, json};

/// Why a call failed.
pub(crate) fn failure(error: &Error) -> napi::Error {
    let mut told = json!({
        "code": error.code(),
        "blame": error.blame().as_str(),
        "message": error.with_causes(),
    });
    if let Some(hint) = error.hint() {
        told["hint"] = hint.into();
    }
    if let Error::Refused(refusal) = error {
        told["reasons"] = serde_json::to_value(&refusal.reasons).unwrap_or_default();
    }
    told_as(&told)
}

/// The caller's argument is invalid.
pub(crate) fn argument(name: &str, problem: impl std::fmt::Display) -> napi::Error {
    told_as(&json!({
        "code": "argument",
        "blame": "caller",
        "message": format!("the argument `{name}` {problem}"),
    }))
}

/// An internal error of the engine.
pub(crate) fn internal(problem: impl std::fmt::Display) -> napi::Error {
    told_as(&json!({
        "code": "internal",
        "blame": "engine",
        "message": format!("internal error: {problem}"),
    }))
}

fn told_as(told: &Value) -> napi::Error {
    napi::Error::new(Status::GenericFailure, told.to_string())
}

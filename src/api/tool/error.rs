//! Errors of tools.

use crate::api::outcome::ToolErrorKind;

/// The error of a tool call.
///
/// Code sees only the messages of [`message`](Self::message) and [`denied`](Self::denied). Any
/// other error, converted with `?`, is an `internal error` in the code; its text goes to the log
/// (`tracing`) only.
#[derive(Debug)]
pub struct ToolError {
    kind: ToolErrorKind,
    message: String,
}

impl ToolError {
    /// Creates an error whose message the code sees.
    pub fn message(message: impl Into<String>) -> Self {
        Self::of(ToolErrorKind::ToolError, message)
    }

    /// Creates an error for a forbidden call. The code sees the reason.
    pub fn denied(message: impl Into<String>) -> Self {
        Self::of(ToolErrorKind::Denied, message)
    }

    pub(crate) fn of(kind: ToolErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
        }
    }

    pub(crate) fn internal() -> Self {
        Self::message("internal error")
    }

    pub(crate) fn parts(&self) -> (ToolErrorKind, &str) {
        (self.kind, &self.message)
    }

    pub(crate) fn into_parts(self) -> (ToolErrorKind, String) {
        (self.kind, self.message)
    }
}

impl<E: std::error::Error> From<E> for ToolError {
    fn from(error: E) -> Self {
        tracing::warn!(%error, "a tool failed");
        Self::internal()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_that_was_not_meant_for_the_code_is_internal() {
        fn fails() -> Result<u8, ToolError> {
            Ok("x".parse::<u8>()?)
        }
        let (kind, message) = fails().unwrap_err().into_parts();
        assert_eq!((kind, message.as_str()), (ToolErrorKind::ToolError, "internal error"));
    }
}

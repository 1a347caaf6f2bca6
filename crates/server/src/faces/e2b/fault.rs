//! Errors in the two formats that E2B's clients read: `{"code", "message"}`, and Connect's.

use std::time::Duration;

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use belljar::Error;
use belljar::error::SessionError;
use serde_json::json;

use crate::http::body_error::{BodyError, UploadError};
use crate::http::face::Face;
use crate::http::problem::Problem;
use crate::http::status::{retry, status};
use crate::service::error::{Class, ServiceError};

/// An error response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fault {
    pub status: StatusCode,
    pub message: String,
    pub retry_after: Option<Duration>,
    /// Another server holds the sandbox, and did not release it in time.
    pub is_elsewhere: bool,
}

impl Fault {
    pub(super) fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self {
            status,
            message: message.into(),
            retry_after: None,
            is_elsewhere: false,
        }
    }

    pub(super) fn invalid(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, message)
    }

    pub(super) fn not_found(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, message)
    }

    pub(super) fn no_sandbox(id: &str) -> Self {
        Self::not_found(format!("sandbox \"{id}\" was not found"))
    }

    pub(super) fn no_key() -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "no valid API key: set the header X-API-Key")
    }

    pub(super) fn no_token() -> Self {
        Self::new(
            StatusCode::UNAUTHORIZED,
            "unauthorized access: the sandbox's access token or a valid signature is needed",
        )
    }

    /// The error's code in Connect.
    pub(super) fn connect_code(&self) -> &'static str {
        match self.status.as_u16() {
            400 | 413 | 415 => "invalid_argument",
            401 => "unauthenticated",
            403 => "permission_denied",
            404 => "not_found",
            409 => "already_exists",
            429 | 507 => "resource_exhausted",
            501 => "unimplemented",
            502 | 503 => "unavailable",
            _ => "internal",
        }
    }

    /// Encodes the error in Connect's format, for calls that do not stream.
    pub(super) fn into_connect(self) -> Response {
        let body = json!({"code": self.connect_code(), "message": self.message});
        retry(self.retry_after, (self.status, Json(body)))
    }
}

impl IntoResponse for Fault {
    fn into_response(self) -> Response {
        let body = json!({"code": self.status.as_u16(), "message": self.message});
        retry(self.retry_after, (self.status, Json(body)))
    }
}

impl From<ServiceError> for Fault {
    fn from(error: ServiceError) -> Self {
        let status = status(error.class(), Face::E2b);
        let is_elsewhere =
            matches!(&error, ServiceError::Engine(Error::Session(SessionError::Elsewhere { .. })));
        if matches!(error.class(), Class::Unavailable | Class::Failed) {
            // The message may name paths of the host, which belong in its log only.
            tracing::error!(%error, "a request of an E2B client failed");
        }
        Self {
            status,
            message: error.public_message(),
            retry_after: error.retry_after(),
            is_elsewhere,
        }
    }
}

impl From<BodyError> for Fault {
    fn from(error: BodyError) -> Self {
        Self::new(error.status(), error.to_string())
    }
}

impl From<UploadError> for Fault {
    fn from(error: UploadError) -> Self {
        if let UploadError::Body(BodyError::TooLong(max)) = error {
            let message = format!("the file exceeds the {max} bytes that a sandbox may hold");
            return Self::new(StatusCode::INSUFFICIENT_STORAGE, message);
        }
        Problem::from(error).into()
    }
}

impl From<Problem> for Fault {
    fn from(problem: Problem) -> Self {
        Self {
            retry_after: problem.retry_after,
            ..Self::new(problem.status, problem.detail)
        }
    }
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        ServiceError::from(error).into()
    }
}

/// The data plane's error for an unusable sandbox; clients match these words.
pub(super) fn gone() -> Fault {
    Fault::new(StatusCode::BAD_GATEWAY, "The sandbox was not found")
}

//! Errors in the two shapes that E2B's clients read: `{"code", "message"}`, and Connect's.

use std::time::Duration;

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use belljar::{Blame, Error, PathProblem, SessionError};
use serde_json::json;

use crate::service::error::ServiceError;

/// What could not be done, and for how long not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fault {
    pub status: StatusCode,
    pub message: String,
    pub retry_after: Option<Duration>,
    /// Another server has it for longer than this one waits.
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

    /// By which name Connect calls it.
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

    /// In Connect's shape, for calls that are answered once.
    pub(super) fn into_connect(self) -> Response {
        let body = json!({"code": self.connect_code(), "message": self.message});
        (self.status, Json(body)).into_response()
    }
}

impl IntoResponse for Fault {
    fn into_response(self) -> Response {
        let body = json!({"code": self.status.as_u16(), "message": self.message});
        let mut response = (self.status, Json(body)).into_response();
        if let Some(wait) = self.retry_after {
            let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}

impl From<ServiceError> for Fault {
    fn from(error: ServiceError) -> Self {
        let status = match &error {
            ServiceError::Limit { .. } | ServiceError::Engine(Error::Busy { .. }) => {
                StatusCode::TOO_MANY_REQUESTS
            }
            ServiceError::NoSession { .. }
            | ServiceError::Engine(Error::Session(SessionError::NotFound { .. })) => {
                StatusCode::NOT_FOUND
            }
            ServiceError::Engine(Error::Session(SessionError::Path { problem, .. })) => {
                path_status(*problem)
            }
            ServiceError::Engine(Error::Session(SessionError::Taken { .. })) => {
                StatusCode::CONFLICT
            }
            ServiceError::Stopping
            | ServiceError::Engine(
                Error::Store(_) | Error::Session(SessionError::Elsewhere { .. }),
            ) => StatusCode::SERVICE_UNAVAILABLE,
            _ if matches!(error.blame(), Blame::Caller | Blame::Guest) => StatusCode::BAD_REQUEST,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        };
        let is_elsewhere =
            matches!(&error, ServiceError::Engine(Error::Session(SessionError::Elsewhere { .. })));
        let retry_after = match &error {
            ServiceError::Limit { retry_after, .. } => *retry_after,
            ServiceError::Engine(Error::Busy { .. }) => Some(Duration::from_secs(1)),
            _ if is_elsewhere => Some(Duration::from_secs(1)),
            _ => None,
        };
        if matches!(&error, ServiceError::Engine(Error::Store(_))) {
            tracing::error!(%error, "a request of an E2B client failed");
            return Self::new(status, "the store of the servers does not answer as it should");
        }
        if status == StatusCode::INTERNAL_SERVER_ERROR {
            // Paths and the like of the host are for its log.
            tracing::error!(%error, "a request of an E2B client failed");
            return Self::new(status, "the server could not do this; its log says why");
        }
        Self {
            status,
            message: error.to_string(),
            retry_after,
            is_elsewhere,
        }
    }
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        ServiceError::from(error).into()
    }
}

fn path_status(problem: PathProblem) -> StatusCode {
    match problem {
        PathProblem::NotFound => StatusCode::NOT_FOUND,
        PathProblem::Exists => StatusCode::CONFLICT,
        PathProblem::TooManyBytes | PathProblem::TooManyFiles => StatusCode::INSUFFICIENT_STORAGE,
        _ => StatusCode::BAD_REQUEST,
    }
}

/// What the data plane says of a sandbox that cannot be used; clients look for these words.
pub(super) fn gone() -> Fault {
    Fault::new(StatusCode::BAD_GATEWAY, "The sandbox was not found")
}

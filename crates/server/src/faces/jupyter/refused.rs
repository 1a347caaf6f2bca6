//! How a refusal is told: as Jupyter's server does.

use std::time::Duration;

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::json;

use crate::http::problem::Problem;
use crate::http::status::retry;
use crate::service::error::ServiceError;

/// What is told instead of an answer.
#[derive(Debug)]
pub(super) struct Refused {
    status: StatusCode,
    message: String,
    retry_after: Option<Duration>,
}

impl Refused {
    pub(super) fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self {
            status,
            message: message.into(),
            retry_after: None,
        }
    }

    pub(super) fn no_key() -> Self {
        let message = "Forbidden: a token is needed, which is the server's key";
        Self::new(StatusCode::FORBIDDEN, message)
    }

    pub(super) fn no_kernel(id: &str) -> Self {
        Self::new(StatusCode::NOT_FOUND, format!("Kernel does not exist: {id}"))
    }
}

impl From<ServiceError> for Refused {
    fn from(error: ServiceError) -> Self {
        let problem = Problem::from(error);
        Self {
            retry_after: problem.retry_after,
            ..Self::new(problem.status, problem.detail)
        }
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let body = json!({"message": self.message, "reason": null});
        retry(self.retry_after, (self.status, Json(body)))
    }
}

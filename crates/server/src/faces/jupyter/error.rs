//! Errors in the format of Jupyter's server.

use std::time::Duration;

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::json;

use crate::http::problem::Problem;
use crate::http::status::retry;
use crate::service::error::ServiceError;

/// An error response.
#[derive(Debug)]
pub(super) struct ApiError {
    status: StatusCode,
    message: String,
    retry_after: Option<Duration>,
}

impl ApiError {
    pub(super) fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self {
            status,
            message: message.into(),
            retry_after: None,
        }
    }

    pub(super) fn no_key() -> Self {
        let message = "Forbidden: use the server's key as the token";
        Self::new(StatusCode::FORBIDDEN, message)
    }

    pub(super) fn no_kernel(id: &str) -> Self {
        Self::new(StatusCode::NOT_FOUND, format!("Kernel does not exist: {id}"))
    }
}

impl From<ServiceError> for ApiError {
    fn from(error: ServiceError) -> Self {
        Problem::from(error).into()
    }
}

impl From<Problem> for ApiError {
    fn from(problem: Problem) -> Self {
        Self {
            retry_after: problem.retry_after,
            ..Self::new(problem.status, problem.detail)
        }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let body = json!({"message": self.message, "reason": null});
        retry(self.retry_after, (self.status, Json(body)))
    }
}

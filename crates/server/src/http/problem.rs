//! Errors as `application/problem+json`, RFC 9457.

use std::time::Duration;

use axum::extract::multipart::MultipartError;
use axum::http::header::{CONTENT_TYPE, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use belljar::Error;
use belljar::request::Reason;
use schemars::JsonSchema;
use serde::Serialize;

use super::body_error::{BodyError, UploadError};
use super::status::{retry, status};
use crate::http::face::Face;
use crate::service::error::ServiceError;

/// An error response.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct Problem {
    /// The HTTP status.
    #[serde(with = "status_number")]
    #[schemars(with = "u16")]
    pub status: StatusCode,
    /// General description.
    pub title: &'static str,
    /// Description of this occurrence.
    pub detail: String,
    /// Stable code for programs.
    pub code: &'static str,
    /// Who is responsible: `caller`, `guest`, `engine` or `machine`.
    pub blame: &'static str,
    /// How to fix it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// All violations in a rejected request: `{"field", "kind", "message"}`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<serde_json::Value>")]
    pub reasons: Vec<Reason>,
    /// When to retry, also sent as the header `Retry-After`.
    #[serde(skip)]
    pub retry_after: Option<Duration>,
}

impl Problem {
    /// An error of the server itself.
    pub fn new(status: StatusCode, code: &'static str, detail: impl Into<String>) -> Self {
        Self {
            status,
            title: status.canonical_reason().unwrap_or("Error"),
            detail: detail.into(),
            code,
            blame: if status.is_server_error() {
                "machine"
            } else {
                "caller"
            },
            hint: None,
            reasons: Vec::new(),
            retry_after: None,
        }
    }

    /// A missing or unknown key.
    pub(crate) fn no_key() -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "no_key", "a key is required").hint(
            "send Authorization: Bearer KEY; belljar serve printed a key when it started, or was \
             given a file of them",
        )
    }

    /// An internal error.
    pub(crate) fn internal(detail: impl Into<String>) -> Self {
        Self {
            blame: "engine",
            ..Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", detail)
        }
    }

    /// Adds a hint.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl From<ServiceError> for Problem {
    fn from(error: ServiceError) -> Self {
        let status = status(error.class(), Face::V1);
        let reasons = match &error {
            ServiceError::Engine(Error::Refused(refusal)) => refusal.reasons.clone(),
            _ => Vec::new(),
        };
        if status.is_server_error() {
            tracing::warn!(code = error.code(), %error, "a request failed");
        }
        Self {
            blame: error.blame().as_str(),
            hint: error.hint(),
            reasons,
            retry_after: error.retry_after(),
            ..Self::new(status, error.code(), error.public_message())
        }
    }
}

impl From<BodyError> for Problem {
    fn from(error: BodyError) -> Self {
        let code = if error == BodyError::NoRoom {
            "busy"
        } else {
            "bad_body"
        };
        Self {
            retry_after: (error == BodyError::NoRoom).then_some(Duration::from_secs(1)),
            ..Self::new(error.status(), code, error.to_string())
        }
    }
}

impl From<&MultipartError> for Problem {
    fn from(error: &MultipartError) -> Self {
        match BodyError::of(error) {
            why @ (BodyError::TooSlow | BodyError::NoRoom) => why.into(),
            _ => Self::new(error.status(), "bad_form", error.body_text()),
        }
    }
}

impl From<UploadError> for Problem {
    fn from(error: UploadError) -> Self {
        match error {
            UploadError::Body(error) => error.into(),
            UploadError::Service(error) => error.into(),
            UploadError::TooMany => Self {
                retry_after: Some(Duration::from_secs(1)),
                ..Self::new(StatusCode::TOO_MANY_REQUESTS, "limit", error.to_string())
            },
            UploadError::Disk(why) => {
                tracing::warn!(error = %why, "cannot store an upload");
                Self::new(StatusCode::INSUFFICIENT_STORAGE, "internal", "cannot store the upload")
            }
        }
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        ServiceError::from(error).into()
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        // The current span is the request's span, which its log line includes.
        tracing::Span::current().record("error.type", self.code);
        let body = serde_json::to_vec(&self).unwrap_or_default();
        let mut response = (self.status, body).into_response();
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if self.status == StatusCode::UNAUTHORIZED {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        retry(self.retry_after, response)
    }
}

mod status_number {
    use axum::http::StatusCode;
    use serde::Serializer;

    #[expect(
        clippy::trivially_copy_pass_by_ref,
        reason = "serde passes a reference"
    )]
    pub(super) fn serialize<S: Serializer>(
        status: &StatusCode,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.serialize_u16(status.as_u16())
    }
}

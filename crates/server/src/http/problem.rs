//! How an error is told: `application/problem+json`, RFC 9457.

use std::time::Duration;

use axum::http::header::{CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use belljar::{Blame, Error, Reason};
use schemars::JsonSchema;
use serde::Serialize;

use crate::service::error::ServiceError;

/// An error as a client gets it.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct Problem {
    /// The HTTP status.
    #[serde(with = "status_number")]
    #[schemars(with = "u16")]
    pub status: StatusCode,
    /// What went wrong, in general.
    pub title: &'static str,
    /// What went wrong this time.
    pub detail: String,
    /// The same for programs: stable from version to version.
    pub code: &'static str,
    /// Whose fault it is: `caller`, `guest`, `engine` or `machine`.
    pub blame: &'static str,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// Every reason for which a request is refused: `{"field", "kind", "message"}`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<serde_json::Value>")]
    pub reasons: Vec<Reason>,
    /// When it is worth trying again; told as the header `Retry-After`.
    #[serde(skip)]
    pub retry_after: Option<Duration>,
}

impl Problem {
    /// One of the server's own.
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

    /// The request carries no key, or one that nobody has.
    pub(crate) fn no_key() -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "no_key", "a key is needed").hint(
            "send Authorization: Bearer KEY; belljar serve printed a key when it started, or was \
             given a file of them",
        )
    }

    /// The server itself failed.
    pub(crate) fn internal(detail: impl Into<String>) -> Self {
        Self {
            blame: "engine",
            ..Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", detail)
        }
    }

    /// Says what to do about it.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl From<ServiceError> for Problem {
    fn from(error: ServiceError) -> Self {
        let (status, retry_after) = match &error {
            ServiceError::Engine(Error::Busy { .. }) => {
                (StatusCode::SERVICE_UNAVAILABLE, Some(Duration::from_secs(1)))
            }
            ServiceError::Engine(error) if error.code() == "session.elsewhere" => {
                (StatusCode::SERVICE_UNAVAILABLE, Some(Duration::from_secs(1)))
            }
            ServiceError::Engine(error) => (engine_status(error), None),
            ServiceError::NoSession { .. } | ServiceError::NoRun { .. } => {
                (StatusCode::NOT_FOUND, None)
            }
            ServiceError::NameTaken { .. } => (StatusCode::CONFLICT, None),
            ServiceError::Name { .. } => (StatusCode::UNPROCESSABLE_ENTITY, None),
            ServiceError::Limit { retry_after, .. } => {
                (StatusCode::TOO_MANY_REQUESTS, *retry_after)
            }
            ServiceError::Stopping => {
                (StatusCode::SERVICE_UNAVAILABLE, Some(Duration::from_secs(5)))
            }
        };
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
            retry_after,
            ..Self::new(status, error.code(), told(&error))
        }
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        ServiceError::from(error).into()
    }
}

/// Codes of failures that are told in words.
const OPEN: [&str; 4] = ["busy", "session.too_many", "session.elsewhere", "session.taken"];

/// What the client is told. Failures of the engine and the machine name paths of the host, which are
/// none of a client's business: the log has them.
fn told(error: &ServiceError) -> String {
    match error {
        ServiceError::Engine(engine)
            if matches!(engine.blame(), Blame::Engine | Blame::Machine)
                && !OPEN.contains(&engine.code()) =>
        {
            format!("the server could not do it: {}", engine.code())
        }
        other => other.to_string(),
    }
}

fn engine_status(error: &Error) -> StatusCode {
    match error.code() {
        "refused" => StatusCode::UNPROCESSABLE_ENTITY,
        "session.not_found" | "session.no_snapshot" | "no_such_file" | "image.unknown" => {
            StatusCode::NOT_FOUND
        }
        "session.id_taken"
        | "session.waiting"
        | "session.not_waiting"
        | "session.no_call"
        | "session.taken"
        | "session.not_held"
        | "session.no_state" => StatusCode::CONFLICT,
        "session.full" | "workspace.full" => StatusCode::INSUFFICIENT_STORAGE,
        "session.too_many" => StatusCode::SERVICE_UNAVAILABLE,
        _ => match error.blame() {
            Blame::Caller | Blame::Guest => StatusCode::UNPROCESSABLE_ENTITY,
            Blame::Machine => StatusCode::SERVICE_UNAVAILABLE,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        },
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        // The span is the request's, and so is the line about it in the log.
        tracing::Span::current().record("error.type", self.code);
        let body = serde_json::to_vec(&self).unwrap_or_default();
        let mut response = (self.status, body).into_response();
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if let Some(wait) = self.retry_after {
            headers.insert(RETRY_AFTER, wait.as_secs().max(1).into());
        }
        if self.status == StatusCode::UNAUTHORIZED {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

mod status_number {
    use axum::http::StatusCode;
    use serde::Serializer;

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
    pub(super) fn serialize<S: Serializer>(
        status: &StatusCode,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.serialize_u16(status.as_u16())
    }
}

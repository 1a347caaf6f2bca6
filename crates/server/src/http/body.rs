//! Bodies in JSON, of which a mistake is told as a problem.

use axum::Json;
use axum::body::HttpBody;
use axum::extract::rejection::JsonRejection;
use axum::extract::{FromRequest, OptionalFromRequest, Request};
use axum::http::StatusCode;
use axum::http::header::CONTENT_LENGTH;
use serde::de::DeserializeOwned;

use super::problem::Problem;

/// A body that says that it is longer is refused before it is read.
const MAX_LENGTH: u64 = 32 << 20;

/// A body in JSON.
pub(crate) struct Body<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Body<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        if length(&request).is_some_and(|length| length > MAX_LENGTH) {
            let detail = "the body is longer than 32 MiB";
            return Err(Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "bad_body", detail));
        }
        match <Json<T> as FromRequest<S>>::from_request(request, state).await {
            Ok(Json(body)) => Ok(Self(body)),
            Err(rejection) => Err(Problem::of_json(&rejection)),
        }
    }
}

impl<T: DeserializeOwned, S: Send + Sync> OptionalFromRequest<S> for Body<T> {
    type Rejection = Problem;

    /// Nothing, where the request does not say that its body is JSON, or has none.
    async fn from_request(request: Request, state: &S) -> Result<Option<Self>, Problem> {
        if request.body().is_end_stream() || length(&request) == Some(0) {
            return Ok(None);
        }
        match <Json<T> as OptionalFromRequest<S>>::from_request(request, state).await {
            Ok(body) => Ok(body.map(|Json(body)| Self(body))),
            Err(rejection) => Err(Problem::of_json(&rejection)),
        }
    }
}

/// How long a request says that its body is.
fn length(request: &Request) -> Option<u64> {
    request.headers().get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

impl Problem {
    fn of_json(rejection: &JsonRejection) -> Self {
        let code = match rejection {
            JsonRejection::JsonDataError(_) => "bad_field",
            JsonRejection::JsonSyntaxError(_) => "not_json",
            JsonRejection::MissingJsonContentType(_) => "not_json_type",
            _ => "bad_body",
        };
        Self::new(rejection.status(), code, rejection.body_text())
    }
}

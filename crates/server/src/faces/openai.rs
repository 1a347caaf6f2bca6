//! OpenAI's containers, and code interpreter calls without a model.
//!
//! A container is a session, under the same id, whose labels hold its name and expiry.

mod calls;
mod container;
mod containers;
mod files;
mod page;

use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json, Router};
use serde_json::json;

use crate::http::app::App;
use crate::http::problem::Problem;
use crate::http::status::retry;
use crate::lock::Turns;
use crate::service::owner::Owner;

/// Routes below `/v1/containers`: `base_url="http://HOST/v1"`.
pub(crate) fn routes() -> Router<App> {
    let routes = Router::new()
        .merge(containers::routes())
        .merge(files::routes())
        .merge(calls::routes())
        .layer(Extension(Arc::new(Turns::default())));
    Router::new().nest("/v1/containers", routes)
}

/// The directory of files as code sees it.
const DATA: &str = "/mnt/data";

/// An error in OpenAI's format.
struct Fault(Problem);

impl<E: Into<Problem>> From<E> for Fault {
    fn from(error: E) -> Self {
        Self(error.into())
    }
}

/// A problem in OpenAI's format.
pub(crate) fn problem(problem: Problem) -> Response {
    Fault(problem).into_response()
}

impl Fault {
    fn invalid(code: &'static str, message: impl Into<String>) -> Self {
        Self(Problem::new(StatusCode::BAD_REQUEST, code, message))
    }

    fn missing(code: &'static str, message: impl Into<String>) -> Self {
        Self(Problem::new(StatusCode::NOT_FOUND, code, message))
    }
}

impl IntoResponse for Fault {
    fn into_response(self) -> Response {
        let problem = self.0;
        tracing::Span::current().record("error.type", problem.code);
        let status = match problem.status {
            StatusCode::UNPROCESSABLE_ENTITY => StatusCode::BAD_REQUEST,
            status => status,
        };
        let kind = match status {
            StatusCode::UNAUTHORIZED => "authentication_error",
            StatusCode::TOO_MANY_REQUESTS => "rate_limit_error",
            status if status.is_server_error() => "server_error",
            _ => "invalid_request_error",
        };
        let message = match problem.hint {
            Some(hint) => format!("{}: {hint}", problem.detail),
            None => problem.detail,
        };
        let error = json!({"message": message, "type": kind, "param": null, "code": problem.code});
        let mut response = (status, Json(json!({"error": error}))).into_response();
        if status == StatusCode::UNAUTHORIZED {
            let bearer = HeaderValue::from_static("Bearer");
            response.headers_mut().insert(header::WWW_AUTHENTICATE, bearer);
        }
        retry(problem.retry_after, response)
    }
}

/// The owner of the request's key.
struct Caller(Owner);

impl FromRequestParts<App> for Caller {
    type Rejection = Fault;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Fault> {
        Ok(Self(Owner::from_request_parts(parts, app).await?))
    }
}

//! Who asks, and how a refusal is told: as Jupyter's server does both.

use axum::Json;
use axum::extract::FromRequestParts;
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use serde_json::json;

use super::kernels::Kernels;
use crate::http::app::App;
use crate::http::auth::{Keys, key_in};
use crate::http::authed::{Admission, BadBody};
use crate::http::problem::Problem;
use crate::service::error::ServiceError;
use crate::service::owner::Owner;

/// Whoever asks. A key is taken from `?token=` as well.
pub(super) struct Asker(pub Owner);

impl FromRequestParts<App> for Asker {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Refused> {
        let owner = owner(app.keys(), parts).ok_or_else(Refused::no_key)?;
        if let Some(kernels) = parts.extensions.get::<Kernels>() {
            kernels.take_up(app.service(), &owner);
        }
        Ok(Self(owner))
    }
}

/// The value of `token` in a query. Keys consist of letters, digits and `_`, so nothing of them is encoded.
fn token(query: &str) -> Option<&str> {
    query.split('&').find_map(|pair| pair.strip_prefix("token="))
}

/// What is told instead of an answer.
#[derive(Debug)]
pub(super) struct Refused {
    status: StatusCode,
    message: String,
}

impl Refused {
    pub(super) fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self {
            status,
            message: message.into(),
        }
    }

    fn no_key() -> Self {
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
        Self::new(problem.status, problem.detail)
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        (self.status, Json(json!({"message": self.message, "reason": null}))).into_response()
    }
}

/// How the face authenticates a request with a body, which may be missing.
pub(super) struct Jupyter;

impl Admission for Jupyter {
    const EMPTY: &'static [u8] = b"{}";

    fn owner(keys: &Keys, parts: &Parts) -> Option<Owner> {
        owner(keys, parts)
    }

    fn no_key() -> Response {
        Refused::no_key().into_response()
    }

    fn bad_body(why: BadBody) -> Response {
        let (status, message) = match why.status {
            StatusCode::UNPROCESSABLE_ENTITY => {
                let message = format!("Invalid JSON in body of request: {}", why.message);
                (StatusCode::BAD_REQUEST, message)
            }
            other => (other, why.message),
        };
        Refused::new(status, message).into_response()
    }
}

fn owner(keys: &Keys, parts: &Parts) -> Option<Owner> {
    keys.owner(key_in(&parts.headers).or_else(|| token(parts.uri.query()?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_found_in_a_query() {
        assert_eq!(token("session_id=a&token=k"), Some("k"));
        assert_eq!(token("token="), Some(""));
        assert_eq!(token("mytoken=k&x"), None);
    }
}

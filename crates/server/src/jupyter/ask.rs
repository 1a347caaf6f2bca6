//! Who asks, and how a refusal is told: as Jupyter's server does both.

use axum::Json;
use axum::extract::FromRequestParts;
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use serde::de::DeserializeOwned;
use serde_json::json;

use crate::http::app::App;
use crate::http::auth::key_in;
use crate::http::problem::Problem;
use crate::service::error::ServiceError;
use crate::service::owner::Owner;

/// Whoever asks. A key is taken from `?token=` as well.
pub(super) struct Asker(pub Owner);

impl FromRequestParts<App> for Asker {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Refused> {
        let key = key_in(&parts.headers).or_else(|| token(parts.uri.query()?));
        app.keys().owner(key).map(Self).ok_or(Refused {
            status: StatusCode::FORBIDDEN,
            message: "Forbidden: a token is needed, which is the server's key".to_owned(),
        })
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

/// A body that may be missing, and whose type nobody has to name.
pub(super) fn body<T: DeserializeOwned + Default>(bytes: &[u8]) -> Result<T, Refused> {
    if bytes.trim_ascii().is_empty() {
        return Ok(T::default());
    }
    serde_json::from_slice(bytes).map_err(|error| {
        Refused::new(StatusCode::BAD_REQUEST, format!("Invalid JSON in body of request: {error}"))
    })
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

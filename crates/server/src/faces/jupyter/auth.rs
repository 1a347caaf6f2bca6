//! Authentication, as in Jupyter's server.

use axum::extract::FromRequestParts;
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};

use super::error::ApiError;
use super::kernels::Kernels;
use crate::http::app::App;
use crate::http::auth::{Keys, key_in};
use crate::http::authenticated::{BadBody, FaceAuth};
use crate::service::owner::Owner;

/// The authenticated owner. The key may also be in `?token=`.
pub(super) struct Authenticated(pub Owner);

impl FromRequestParts<App> for Authenticated {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, ApiError> {
        let owner = owner(app.keys(), parts).ok_or_else(ApiError::no_key)?;
        if let Some(kernels) = parts.extensions.get::<Kernels>() {
            kernels.restore(app.service(), &owner);
        }
        Ok(Self(owner))
    }
}

/// The value of `token` in a query. Keys consist of letters, digits and `_`, so they need no
/// decoding.
fn token(query: &str) -> Option<&str> {
    query.split('&').find_map(|pair| pair.strip_prefix("token="))
}

/// Authentication of a request whose body is optional.
pub(super) struct Jupyter;

impl FaceAuth for Jupyter {
    const EMPTY: &'static [u8] = b"{}";

    fn owner(keys: &Keys, parts: &Parts) -> Option<Owner> {
        owner(keys, parts)
    }

    fn no_key() -> Response {
        ApiError::no_key().into_response()
    }

    fn bad_body(why: BadBody) -> Response {
        let (status, message) = match why.status {
            StatusCode::UNPROCESSABLE_ENTITY => {
                let message = format!("Invalid JSON in body of request: {}", why.message);
                (StatusCode::BAD_REQUEST, message)
            }
            other => (other, why.message),
        };
        ApiError::new(status, message).into_response()
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

//! Authenticated JSON requests, for faces with their own error format.

use std::marker::PhantomData;

use axum::extract::{FromRequest, Request};
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::response::Response;
use serde::de::DeserializeOwned;

use super::app::App;
use super::auth::Keys;
use super::body_error::BodyError;
use super::extract::check_json;
use super::request_body;
use crate::service::owner::Owner;

/// Authentication and error responses of a face.
pub(crate) trait FaceAuth {
    /// Substitute for an empty body.
    const EMPTY: &'static [u8] = b"";

    /// The owner of the request's key.
    fn owner(keys: &Keys, parts: &Parts) -> Option<Owner> {
        keys.owner_of(&parts.headers)
    }

    /// The response to a request without a valid key.
    fn no_key() -> Response;

    /// The response to an invalid body.
    fn bad_body(why: BadBody) -> Response;
}

/// An invalid body.
#[derive(Debug)]
pub(crate) struct BadBody {
    /// Status of the response.
    pub status: StatusCode,
    /// Error message.
    pub message: String,
}

/// A request authenticated before its JSON body is read. Its content type is not checked.
pub(crate) struct AuthenticatedJson<F, T> {
    pub owner: Owner,
    pub body: T,
    pub face: PhantomData<fn(F)>,
}

impl<F: FaceAuth, T: DeserializeOwned> FromRequest<App> for AuthenticatedJson<F, T> {
    type Rejection = Response;

    async fn from_request(request: Request, app: &App) -> Result<Self, Response> {
        let (parts, body) = request.into_parts();
        let owner = F::owner(app.keys(), &parts).ok_or_else(F::no_key)?;
        let read = request_body::read(Request::from_parts(parts, body), &owner).await;
        let bytes = read.map_err(|why| F::bad_body(why.into()))?;
        let is_empty = bytes.trim_ascii().is_empty() && !F::EMPTY.is_empty();
        let text = if is_empty { F::EMPTY } else { &bytes };
        check_json(text).map_err(|message| {
            F::bad_body(BadBody {
                status: StatusCode::PAYLOAD_TOO_LARGE,
                message,
            })
        })?;
        let body = serde_json::from_slice(text).map_err(|error| {
            F::bad_body(BadBody {
                status: StatusCode::UNPROCESSABLE_ENTITY,
                message: error.to_string(),
            })
        })?;
        Ok(Self {
            owner,
            body,
            face: PhantomData,
        })
    }
}

impl From<BodyError> for BadBody {
    fn from(why: BodyError) -> Self {
        Self {
            status: why.status(),
            message: why.to_string(),
        }
    }
}

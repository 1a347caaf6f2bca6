//! Who asks, and then what: a body of JSON for a face that has errors of its own shape.

use std::marker::PhantomData;

use axum::extract::{FromRequest, Request};
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::response::Response;
use serde::de::DeserializeOwned;

use super::app::App;
use super::auth::Keys;
use super::json;
use super::sealed;
use super::unread::BodyError;
use crate::service::owner::Owner;

/// How a face authenticates its clients, and words a refusal.
pub(crate) trait Admission {
    /// What an empty body stands for.
    const EMPTY: &'static [u8] = b"";

    /// Who asks.
    fn owner(keys: &Keys, parts: &Parts) -> Option<Owner> {
        keys.owner_of(&parts.headers)
    }

    /// The answer to a request without a valid key.
    fn no_key() -> Response;

    /// The answer to a body that cannot be used.
    fn bad_body(why: BadBody) -> Response;
}

/// A body that cannot be used.
#[derive(Debug)]
pub(crate) struct BadBody {
    /// The status with which it is refused.
    pub status: StatusCode,
    /// Why.
    pub message: String,
}

/// A request that was authenticated before its body, JSON of whatever content type, was read.
pub(crate) struct Authed<F, T> {
    pub owner: Owner,
    pub body: T,
    pub face: PhantomData<fn(F)>,
}

impl<F: Admission, T: DeserializeOwned> FromRequest<App> for Authed<F, T> {
    type Rejection = Response;

    async fn from_request(request: Request, app: &App) -> Result<Self, Response> {
        let (parts, body) = request.into_parts();
        let owner = F::owner(app.keys(), &parts).ok_or_else(F::no_key)?;
        let read = sealed::whole(Request::from_parts(parts, body), &owner).await;
        let bytes = read.map_err(|why| F::bad_body(why.into()))?;
        let is_empty = bytes.trim_ascii().is_empty() && !F::EMPTY.is_empty();
        let text = if is_empty { F::EMPTY } else { &bytes };
        json::check(text).map_err(|message| {
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

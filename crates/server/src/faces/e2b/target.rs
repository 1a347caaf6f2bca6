//! Extractors: the API key's owner, the sandbox that a request is for, and JSON bodies.

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::{Extension, FromRequestParts, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode};
use serde::de::DeserializeOwned;

use super::address::Address;
use super::fault::Fault;
use super::registry::Sandboxes;
use super::sandbox::Sandbox;
use crate::http::app::App;
use crate::http::body_error::BodyError;
use crate::http::extract::check_json;
use crate::http::identity;
use crate::http::request_body::{self, ReadMode};
use crate::service::owner::Owner;

/// Maximum size of a JSON body, in bytes.
pub(super) const MAX_JSON: usize = 8 << 20;

/// The owner of the API key, for the control plane.
pub(super) struct Caller(pub Owner);

/// Checks that the request's sandbox is running, without authorisation.
pub(super) struct Reached;

/// The request's sandbox, authorised by its access token or its traffic token.
pub(super) struct Served(pub Arc<Sandbox>);

/// The request's sandbox, authorised by its access token.
pub(super) struct Open(pub Arc<Sandbox>);

impl FromRequestParts<App> for Caller {
    type Rejection = Fault;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Fault> {
        app.keys().owner_of(&parts.headers).map(Self).ok_or_else(Fault::no_key)
    }
}

impl FromRequestParts<App> for Reached {
    type Rejection = Fault;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Fault> {
        let sandboxes = sandboxes(parts, app).await?;
        let found = if let Some(address) = Address::of(&parts.headers, &parts.uri) {
            sandboxes.reach_refreshed(&address.sandbox).await?
        } else {
            let id = sandboxes.id_of(token(&parts.headers).unwrap_or("")).await?;
            sandboxes.reach_refreshed(&id).await.map_err(unknown)?
        };
        // The response reveals no limits of the owner: the client is not authenticated.
        admitted(app, found)?;
        Ok(Self)
    }
}

impl FromRequestParts<App> for Served {
    type Rejection = Fault;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Fault> {
        let sandboxes = sandboxes(parts, app).await?;
        let shown = token(&parts.headers).unwrap_or("");
        let traffic = header(&parts.headers, "e2b-traffic-access-token").unwrap_or("");
        let found = match Address::of(&parts.headers, &parts.uri) {
            Some(address) => sandboxes.reach_with_either(&address.sandbox, shown, traffic).await?,
            None => reach_by_token(&sandboxes, shown).await?,
        };
        identity::set_owner(&found.owner);
        admitted(app, found).map(Self)
    }
}

impl FromRequestParts<App> for Open {
    type Rejection = Fault;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Fault> {
        let sandboxes = sandboxes(parts, app).await?;
        let shown = token(&parts.headers).unwrap_or("");
        let found = match Address::of(&parts.headers, &parts.uri) {
            Some(address) => sandboxes.reach_with_token(&address.sandbox, shown).await?,
            None => reach_by_token(&sandboxes, shown).await?,
        };
        admitted(app, found).map(Self)
    }
}

/// Checks that the sandbox's owner still has a key.
pub(super) fn admitted(app: &App, sandbox: Arc<Sandbox>) -> Result<Arc<Sandbox>, Fault> {
    if app.keys().admits(sandbox.owner.name()) {
        Ok(sandbox)
    } else {
        Err(Fault::no_token())
    }
}

/// A running sandbox, by its access token.
pub(super) async fn reach_by_token(
    sandboxes: &Arc<Sandboxes>,
    token: &str,
) -> Result<Arc<Sandbox>, Fault> {
    let id = sandboxes.id_of(token).await?;
    sandboxes.reach(&id).await.map_err(unknown)
}

/// If only the token names a sandbox, a sandbox that is gone means an invalid token.
fn unknown(fault: Fault) -> Fault {
    if fault.status == StatusCode::BAD_GATEWAY {
        return Fault::no_token();
    }
    fault
}

/// The registry of this server.
pub(super) async fn sandboxes(parts: &mut Parts, app: &App) -> Result<Arc<Sandboxes>, Fault> {
    let found = Extension::<Arc<Sandboxes>>::from_request_parts(parts, app).await;
    found
        .map(|Extension(found)| found)
        .map_err(|error| Fault::new(error.status(), error.body_text()))
}

/// The access token in a request's headers.
pub(super) fn token(headers: &HeaderMap) -> Option<&str> {
    header(headers, "x-access-token")
}

fn header<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

/// Reads a body of at most `max` bytes.
pub(super) async fn body(owner: &Owner, request: Request, max: usize) -> Result<Bytes, Fault> {
    let body = request_body::open(request, owner, ReadMode::Memory).into_body();
    axum::body::to_bytes(body, max).await.map_err(|error| match BodyError::of(&error) {
        BodyError::TooLong(_) => BodyError::TooLong(max as u64).into(),
        other => other.into(),
    })
}

/// Reads a JSON body, whatever its content type. An empty body is an empty object.
pub(super) async fn json_body<T: DeserializeOwned>(
    owner: &Owner,
    request: Request,
) -> Result<T, Fault> {
    let body = body(owner, request, MAX_JSON).await?;
    let text: &[u8] = if body.is_empty() { b"{}" } else { &body };
    check_json(text).map_err(|why| Fault::new(StatusCode::PAYLOAD_TOO_LARGE, why))?;
    serde_json::from_slice(text).map_err(|error| Fault::invalid(format!("invalid body: {error}")))
}

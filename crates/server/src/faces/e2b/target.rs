//! What a request carries: the key of an owner, the sandbox that it is for, and a body of JSON.

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
use crate::http::sealed::{self, Reading};
use crate::http::unread::BodyError;
use crate::http::{asker, json};
use crate::service::owner::Owner;

/// The most bytes of a body of JSON.
pub(super) const MAX_JSON: usize = 8 << 20;

/// Whoever asks the control plane.
pub(super) struct Caller(pub Owner);

/// That the sandbox which a request names can be used, whoever asks.
pub(super) struct Reached;

/// The sandbox that a request is for, which shows a token of it: that for what it serves will do.
pub(super) struct Served(pub Arc<Sandbox>);

/// The sandbox that a request is for, which shows that it may use it.
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
            sandboxes.reach_as_it_is(&address.sandbox).await?
        } else {
            let id = sandboxes.id_of(token(&parts.headers).unwrap_or("")).await?;
            sandboxes.reach_as_it_is(&id).await.map_err(unknown)?
        };
        // The answer says nothing of the owner's limits: whoever asks has shown nothing.
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
        asker::note(&found.owner);
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

/// A sandbox whose owner has a key still.
pub(super) fn admitted(app: &App, sandbox: Arc<Sandbox>) -> Result<Arc<Sandbox>, Fault> {
    if app.keys().admits(sandbox.owner.name()) {
        Ok(sandbox)
    } else {
        Err(Fault::no_token())
    }
}

/// A sandbox that can be used at once, by its token.
pub(super) async fn reach_by_token(
    sandboxes: &Arc<Sandboxes>,
    token: &str,
) -> Result<Arc<Sandbox>, Fault> {
    let id = sandboxes.id_of(token).await?;
    sandboxes.reach(&id).await.map_err(unknown)
}

/// Where nothing but the token names a sandbox, one that is gone is none that it opens.
fn unknown(fault: Fault) -> Fault {
    if fault.status == StatusCode::BAD_GATEWAY {
        return Fault::no_token();
    }
    fault
}

/// The sandboxes of the server.
pub(super) async fn sandboxes(parts: &mut Parts, app: &App) -> Result<Arc<Sandboxes>, Fault> {
    let found = Extension::<Arc<Sandboxes>>::from_request_parts(parts, app).await;
    found
        .map(|Extension(found)| found)
        .map_err(|error| Fault::new(error.status(), error.body_text()))
}

/// The token that a request shows.
pub(super) fn token(headers: &HeaderMap) -> Option<&str> {
    header(headers, "x-access-token")
}

fn header<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

/// A body of so many bytes at most.
pub(super) async fn body(owner: &Owner, request: Request, max: usize) -> Result<Bytes, Fault> {
    let body = sealed::open(request, owner, Reading::Whole).into_body();
    axum::body::to_bytes(body, max).await.map_err(|error| match BodyError::of(&error) {
        BodyError::TooLong(_) => BodyError::TooLong(max as u64).into(),
        other => other.into(),
    })
}

/// A body of JSON; nothing at all is an empty object. Clients do not always say what it is.
pub(super) async fn json_body<T: DeserializeOwned>(
    owner: &Owner,
    request: Request,
) -> Result<T, Fault> {
    let body = body(owner, request, MAX_JSON).await?;
    let text: &[u8] = if body.is_empty() { b"{}" } else { &body };
    json::check(text).map_err(|why| Fault::new(StatusCode::PAYLOAD_TOO_LARGE, why))?;
    serde_json::from_slice(text)
        .map_err(|error| Fault::invalid(format!("the body is not as it has to be: {error}")))
}

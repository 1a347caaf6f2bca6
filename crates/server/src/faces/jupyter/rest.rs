//! REST API of kernels and kernelspecs.

use std::collections::HashMap;

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::http::header::{CONTENT_TYPE, LOCATION};
use axum::response::IntoResponse;
use axum::{Extension, Json};
use belljar_kernel::spec;
use chrono::Utc;
use serde::Deserialize;
use serde_json::{Value, json};

use super::auth::{Authenticated, Jupyter};
use super::error::ApiError;
use super::kernels::{DEFAULT, Kernels, Running, date};
use crate::http::authenticated::AuthenticatedJson;
use crate::http::stored_responses::ValidWhile;
use crate::service::Service;

/// The version of Jupyter's server that this emulates.
const VERSION: &str = "2.21.1";
/// Accepted kernel names: belljar's own, and the common default.
const NAMES: [&str; 2] = ["belljar", "python3"];

pub(super) async fn version() -> Json<Value> {
    Json(json!({"version": VERSION}))
}

pub(super) async fn status(
    Authenticated(owner): Authenticated,
    Extension(kernels): Extension<Kernels>,
) -> Json<Value> {
    let running = kernels.list(&owner);
    let last = running.iter().map(|running| running.kernel().activity().last).max();
    Json(json!({
        "connections": running.iter().map(|running| running.hub().count()).sum::<usize>(),
        "kernels": running.len(),
        "last_activity": date(last.map_or(kernels.started(), |last| Utc::now() - last.elapsed())),
        "started": date(kernels.started()),
    }))
}

pub(super) async fn me(Authenticated(owner): Authenticated) -> Json<Value> {
    let name = owner.name();
    Json(json!({
        "identity": {
            "username": name,
            "name": name,
            "display_name": name,
            "initials": null,
            "avatar_url": null,
            "color": null,
        },
        "permissions": {},
    }))
}

pub(super) async fn kernelspecs(_: Authenticated) -> Json<Value> {
    let specs = NAMES.map(|name| (name.to_owned(), described(name)));
    Json(json!({"default": DEFAULT, "kernelspecs": HashMap::from(specs)}))
}

pub(super) async fn kernelspec(
    _: Authenticated,
    Path(name): Path<String>,
) -> Result<Json<Value>, ApiError> {
    check_name(&name)?;
    Ok(Json(described(&name)))
}

pub(super) async fn logo(Path(name): Path<String>) -> Result<impl IntoResponse, ApiError> {
    check_name(&name)?;
    Ok(([(CONTENT_TYPE, "image/svg+xml")], spec::LOGO))
}

fn described(name: &str) -> Value {
    let arguments = ["belljar".to_owned(), "kernel".to_owned()];
    json!({
        "name": name,
        "spec": spec::kernelspec(&arguments, spec::DISPLAY_NAME),
        "resources": {"logo-svg": format!("/kernelspecs/{name}/logo-svg.svg")},
    })
}

/// Rejects an unknown kernel name.
pub(super) fn check_name(name: &str) -> Result<(), ApiError> {
    if NAMES.contains(&name) {
        return Ok(());
    }
    let names = NAMES.join(" and ");
    let message = format!("No such kernel: {name}; use one of {names}");
    Err(ApiError::new(StatusCode::NOT_FOUND, message))
}

/// A request to start a kernel.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Wanted {
    pub id: Option<String>,
    pub name: Option<String>,
    pub env: HashMap<String, String>,
}

pub(super) async fn start(
    State(service): State<Service>,
    Extension(kernels): Extension<Kernels>,
    AuthenticatedJson {
        owner,
        body: wanted,
        ..
    }: AuthenticatedJson<Jupyter, Wanted>,
) -> Result<impl IntoResponse, ApiError> {
    let name = wanted.name.as_deref().unwrap_or(DEFAULT);
    check_name(name)?;
    let running = kernels.start(&service, &owner, name, wanted.env).await?;
    let location = format!("/api/kernels/{}", running.id());
    // The session is named after the kernel.
    let made = Extension(ValidWhile::Session(running.id().to_owned()));
    Ok((StatusCode::CREATED, made, [(LOCATION, location)], Json(running.model())))
}

pub(super) async fn list(
    Authenticated(owner): Authenticated,
    Extension(kernels): Extension<Kernels>,
) -> Json<Value> {
    Json(kernels.list(&owner).iter().map(Running::model).collect())
}

pub(super) async fn show(
    Authenticated(owner): Authenticated,
    Extension(kernels): Extension<Kernels>,
    Path(id): Path<String>,
) -> Result<Json<Value>, ApiError> {
    Ok(Json(kernels.find(&owner, &id)?.model()))
}

pub(super) async fn end(
    Authenticated(owner): Authenticated,
    Extension(kernels): Extension<Kernels>,
    Path(id): Path<String>,
) -> Result<StatusCode, ApiError> {
    kernels.end(&owner, &id).await?;
    Ok(StatusCode::NO_CONTENT)
}

pub(super) async fn interrupt(
    Authenticated(owner): Authenticated,
    Extension(kernels): Extension<Kernels>,
    Path(id): Path<String>,
) -> Result<StatusCode, ApiError> {
    let _ = kernels.find(&owner, &id)?.kernel().interrupt();
    Ok(StatusCode::NO_CONTENT)
}

pub(super) async fn restart(
    Authenticated(owner): Authenticated,
    Extension(kernels): Extension<Kernels>,
    Path(id): Path<String>,
) -> Result<Json<Value>, ApiError> {
    let running = kernels.find(&owner, &id)?;
    running.kernel().restart().await;
    Ok(Json(running.model()))
}

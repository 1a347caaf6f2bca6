//! REST API of Jupyter's sessions: a notebook's path and its kernel.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::http::header::LOCATION;
use axum::response::IntoResponse;
use axum::{Extension, Json};
use belljar_kernel::unique;
use serde::Deserialize;
use serde_json::{Value, json};

use super::auth::{Authenticated, Jupyter};
use super::error::ApiError;
use super::kernels::{DEFAULT, Kernels, Running};
use super::rest::{Wanted, check_name};
use crate::http::authenticated::AuthenticatedJson;
use crate::http::stored_responses::ValidWhile;
use crate::lock::lock;
use crate::service::Service;
use crate::service::owner::Owner;

/// Maximum length of a path or a name, in bytes.
const MAX_TEXT: usize = 4 << 10;

/// Maximum number per owner.
const MAX_NOTEBOOKS: usize = 256;

/// All Jupyter sessions by id. Clones share the same state.
#[derive(Clone, Default)]
pub(super) struct Notebooks(Arc<Mutex<HashMap<String, Notebook>>>);

#[derive(Clone, Debug)]
struct Notebook {
    id: String,
    owner: String,
    path: String,
    name: String,
    kind: String,
    kernel: String,
}

/// A request to create or change a Jupyter session.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Asked {
    path: Option<String>,
    name: Option<String>,
    #[serde(rename = "type")]
    kind: Option<String>,
    kernel: Option<Wanted>,
}

impl Notebooks {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, Notebook>> {
        lock(&self.0)
    }

    /// Adds a Jupyter session unless its owner has reached the limit.
    fn add(&self, owner: &Owner, notebook: &Notebook) -> Result<(), ApiError> {
        let mut notebooks = self.lock();
        has_room(&notebooks, owner)?;
        notebooks.insert(notebook.id.clone(), notebook.clone());
        Ok(())
    }

    fn check_room(&self, owner: &Owner) -> Result<(), ApiError> {
        has_room(&self.lock(), owner)
    }

    fn find(&self, owner: &Owner, id: &str) -> Result<Notebook, ApiError> {
        let found = self.lock().get(id).filter(|notebook| notebook.owner == owner.name()).cloned();
        found.ok_or_else(|| {
            ApiError::new(StatusCode::NOT_FOUND, format!("Session not found: session_id='{id}'"))
        })
    }
}

fn has_room(notebooks: &HashMap<String, Notebook>, owner: &Owner) -> Result<(), ApiError> {
    let theirs = notebooks.values().filter(|notebook| notebook.owner == owner.name()).count();
    if theirs >= MAX_NOTEBOOKS {
        let message =
            format!("This key has {MAX_NOTEBOOKS} sessions already, the maximum: delete one first");
        return Err(ApiError::new(StatusCode::TOO_MANY_REQUESTS, message));
    }
    Ok(())
}

impl Notebook {
    fn model(&self, running: &Running) -> Value {
        let Self {
            id,
            path,
            name,
            kind,
            ..
        } = self;
        let mut model = json!({
            "id": id, "path": path, "name": name, "type": kind, "kernel": running.model(),
        });
        if kind == "notebook" {
            // Fields for older clients.
            model["notebook"] = json!({"path": path, "name": name});
        }
        model
    }
}

/// An owner's Jupyter sessions whose kernels exist. Removes the others.
fn present(notebooks: &Notebooks, kernels: &Kernels, owner: &Owner) -> Vec<(Notebook, Running)> {
    let mut notebooks = notebooks.lock();
    let mut present = Vec::new();
    notebooks.retain(|_, notebook| {
        if notebook.owner != owner.name() {
            return true;
        }
        let running = kernels.find(owner, &notebook.kernel);
        let has_session = running.is_ok();
        present.extend(running.ok().map(|running| (notebook.clone(), running)));
        has_session
    });
    present
}

pub(super) async fn list(
    Authenticated(owner): Authenticated,
    Extension(kernels): Extension<Kernels>,
    Extension(notebooks): Extension<Notebooks>,
) -> Json<Value> {
    let present = present(&notebooks, &kernels, &owner);
    Json(present.iter().map(|(notebook, running)| notebook.model(running)).collect())
}

pub(super) async fn create(
    State(service): State<Service>,
    Extension(kernels): Extension<Kernels>,
    Extension(notebooks): Extension<Notebooks>,
    AuthenticatedJson {
        owner, body: asked, ..
    }: AuthenticatedJson<Jupyter, Asked>,
) -> Result<impl IntoResponse, ApiError> {
    kernels.restore(&service, &owner);
    let field = |value: Option<String>, name: &str| {
        let missing = format!("Missing field in JSON data: {name}");
        let text = value.ok_or_else(|| ApiError::new(StatusCode::BAD_REQUEST, missing))?;
        check_text(text)
    };
    let path = field(asked.path, "path")?;
    let kind = field(asked.kind, "type")?;
    let name = check_text(asked.name.unwrap_or_default())?;
    let there = present(&notebooks, &kernels, &owner)
        .into_iter()
        .find(|(notebook, _)| notebook.path == path);
    let (notebook, running) = if let Some(there) = there {
        there
    } else {
        let wanted = asked.kernel.unwrap_or_default();
        notebooks.check_room(&owner)?;
        let running = kernel(&kernels, &service, &owner, wanted).await?;
        let notebook = Notebook {
            id: unique(),
            owner: owner.name().to_owned(),
            path,
            name,
            kind,
            kernel: running.id().to_owned(),
        };
        notebooks.add(&owner, &notebook)?;
        (notebook, running)
    };
    let location = format!("/api/sessions/{}", notebook.id);
    let made = Extension(ValidWhile::Session(running.id().to_owned()));
    Ok((StatusCode::CREATED, made, [(LOCATION, location)], Json(notebook.model(&running))))
}

fn check_text(text: String) -> Result<String, ApiError> {
    if text.len() > MAX_TEXT {
        return Err(ApiError::new(StatusCode::BAD_REQUEST, "A path or a name is too long"));
    }
    Ok(text)
}

/// Finds the requested kernel, or starts one.
async fn kernel(
    kernels: &Kernels,
    service: &Service,
    owner: &Owner,
    wanted: Wanted,
) -> Result<Running, ApiError> {
    if let Some(id) = &wanted.id {
        return kernels.find(owner, id);
    }
    let name = wanted.name.as_deref().unwrap_or(DEFAULT);
    check_name(name)?;
    kernels.start(service, owner, name, wanted.env).await
}

pub(super) async fn show(
    Authenticated(owner): Authenticated,
    Extension(kernels): Extension<Kernels>,
    Extension(notebooks): Extension<Notebooks>,
    Path(id): Path<String>,
) -> Result<Json<Value>, ApiError> {
    let notebook = notebooks.find(&owner, &id)?;
    let running = kernels.find(&owner, &notebook.kernel)?;
    Ok(Json(notebook.model(&running)))
}

pub(super) async fn change(
    State(service): State<Service>,
    Extension(kernels): Extension<Kernels>,
    Extension(notebooks): Extension<Notebooks>,
    Path(id): Path<String>,
    AuthenticatedJson {
        owner, body: asked, ..
    }: AuthenticatedJson<Jupyter, Asked>,
) -> Result<Json<Value>, ApiError> {
    kernels.restore(&service, &owner);
    let mut notebook = notebooks.find(&owner, &id)?;
    for (field, new) in [
        (&mut notebook.path, asked.path),
        (&mut notebook.name, asked.name),
        (&mut notebook.kind, asked.kind),
    ] {
        if let Some(new) = new {
            *field = check_text(new)?;
        }
    }
    let before = notebook.kernel.clone();
    let running = match asked.kernel {
        Some(wanted) if wanted.id.is_some() || wanted.name.is_some() => {
            kernel(&kernels, &service, &owner, wanted).await?
        }
        _ => kernels.find(&owner, &before)?,
    };
    running.id().clone_into(&mut notebook.kernel);
    notebooks.lock().insert(id, notebook.clone());
    if before != notebook.kernel {
        // It may have ended by itself.
        let _ = kernels.end(&owner, &before).await;
    }
    Ok(Json(notebook.model(&running)))
}

pub(super) async fn end(
    Authenticated(owner): Authenticated,
    Extension(kernels): Extension<Kernels>,
    Extension(notebooks): Extension<Notebooks>,
    Path(id): Path<String>,
) -> Result<StatusCode, ApiError> {
    let notebook = notebooks.find(&owner, &id)?;
    notebooks.lock().remove(&id);
    let _ = kernels.end(&owner, &notebook.kernel).await;
    Ok(StatusCode::NO_CONTENT)
}

//! REST of what Jupyter calls sessions: a notebook's path, and the kernel that goes with it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::http::header::LOCATION;
use axum::response::IntoResponse;
use axum::{Extension, Json};
use belljar_kernel::unique;
use serde::Deserialize;
use serde_json::{Value, json};

use super::ask::{Asker, Jupyter};
use super::kernels::{DEFAULT, Kernels, Running};
use super::refused::Refused;
use super::rest::{Wanted, check_name};
use crate::http::authed::Authed;
use crate::http::remembered::WhileThere;
use crate::service::Service;
use crate::service::owner::Owner;

/// The most bytes of a path or a name.
const MAX_TEXT: usize = 4 << 10;

/// The most of one owner.
const MAX_NOTEBOOKS: usize = 256;

/// All of them, by id. Cheap to clone; clones are the same.
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

/// What one is to be, or what is to be changed of it.
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
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Enters one, unless its owner has as many as they may.
    fn add(&self, owner: &Owner, notebook: &Notebook) -> Result<(), Refused> {
        let mut notebooks = self.lock();
        has_room(&notebooks, owner)?;
        notebooks.insert(notebook.id.clone(), notebook.clone());
        Ok(())
    }

    fn check_room(&self, owner: &Owner) -> Result<(), Refused> {
        has_room(&self.lock(), owner)
    }

    fn find(&self, owner: &Owner, id: &str) -> Result<Notebook, Refused> {
        let found = self.lock().get(id).filter(|notebook| notebook.owner == owner.name()).cloned();
        found.ok_or_else(|| {
            Refused::new(StatusCode::NOT_FOUND, format!("Session not found: session_id='{id}'"))
        })
    }
}

fn has_room(notebooks: &HashMap<String, Notebook>, owner: &Owner) -> Result<(), Refused> {
    let theirs = notebooks.values().filter(|notebook| notebook.owner == owner.name()).count();
    if theirs >= MAX_NOTEBOOKS {
        let message = format!("There are {MAX_NOTEBOOKS} sessions already, the most of one key");
        return Err(Refused::new(StatusCode::TOO_MANY_REQUESTS, message));
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
            // As older clients know it.
            model["notebook"] = json!({"path": path, "name": name});
        }
        model
    }
}

/// Those of somebody whose kernels are there; the others are forgotten.
fn present(notebooks: &Notebooks, kernels: &Kernels, owner: &Owner) -> Vec<(Notebook, Running)> {
    let mut notebooks = notebooks.lock();
    let mut present = Vec::new();
    notebooks.retain(|_, notebook| {
        if notebook.owner != owner.name() {
            return true;
        }
        let running = kernels.find(owner, &notebook.kernel);
        let is_there = running.is_ok();
        present.extend(running.ok().map(|running| (notebook.clone(), running)));
        is_there
    });
    present
}

pub(super) async fn list(
    Asker(owner): Asker,
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
    Authed {
        owner, body: asked, ..
    }: Authed<Jupyter, Asked>,
) -> Result<impl IntoResponse, Refused> {
    kernels.take_up(&service, &owner);
    let field = |value: Option<String>, name: &str| {
        let missing = format!("Missing field in JSON data: {name}");
        let text = value.ok_or_else(|| Refused::new(StatusCode::BAD_REQUEST, missing))?;
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
    let made = Extension(WhileThere::Session(running.id().to_owned()));
    Ok((StatusCode::CREATED, made, [(LOCATION, location)], Json(notebook.model(&running))))
}

fn check_text(text: String) -> Result<String, Refused> {
    if text.len() > MAX_TEXT {
        return Err(Refused::new(StatusCode::BAD_REQUEST, "A path or a name is too long"));
    }
    Ok(text)
}

/// The kernel that is asked for: one that runs, or a new one.
async fn kernel(
    kernels: &Kernels,
    service: &Service,
    owner: &Owner,
    wanted: Wanted,
) -> Result<Running, Refused> {
    if let Some(id) = &wanted.id {
        return kernels.find(owner, id);
    }
    let name = wanted.name.as_deref().unwrap_or(DEFAULT);
    check_name(name)?;
    kernels.start(service, owner, name, wanted.env).await
}

pub(super) async fn show(
    Asker(owner): Asker,
    Extension(kernels): Extension<Kernels>,
    Extension(notebooks): Extension<Notebooks>,
    Path(id): Path<String>,
) -> Result<Json<Value>, Refused> {
    let notebook = notebooks.find(&owner, &id)?;
    let running = kernels.find(&owner, &notebook.kernel)?;
    Ok(Json(notebook.model(&running)))
}

pub(super) async fn change(
    State(service): State<Service>,
    Extension(kernels): Extension<Kernels>,
    Extension(notebooks): Extension<Notebooks>,
    Path(id): Path<String>,
    Authed {
        owner, body: asked, ..
    }: Authed<Jupyter, Asked>,
) -> Result<Json<Value>, Refused> {
    kernels.take_up(&service, &owner);
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
    Asker(owner): Asker,
    Extension(kernels): Extension<Kernels>,
    Extension(notebooks): Extension<Notebooks>,
    Path(id): Path<String>,
) -> Result<StatusCode, Refused> {
    let notebook = notebooks.find(&owner, &id)?;
    notebooks.lock().remove(&id);
    let _ = kernels.end(&owner, &notebook.kernel).await;
    Ok(StatusCode::NO_CONTENT)
}

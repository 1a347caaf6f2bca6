//! Transfer of files: `/upload`, `/upload/batch`, `/download`, and file information.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::multipart::{Field, MultipartError};
use axum::extract::{FromRequest, Multipart, Path, Request, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Extension, Json, Router};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;

use super::store::{Place, Stored, Written, new_id};
use super::{DATA, Shared, broken, error_response, failed, no_key};
use crate::faces::process;
use crate::http::app::App;
use crate::http::body_error::BodyError;
use crate::http::files::FileHead;
use crate::http::request_body::{self, ReadMode};

/// Maximum size of an upload, in bytes: the maximum that LibreChat sends.
const MAX_UPLOAD: u64 = 150 << 20;

/// How long an upload waits for other uploads of its owner.
const PATIENCE: Duration = Duration::from_secs(10);

/// Maximum number of files in an upload.
const MAX_FILES: usize = 1_000;

pub(super) fn routes() -> Router<App> {
    Router::new()
        .route("/upload", post(upload))
        .route("/upload/batch", post(upload_batch))
        .route("/download/{session}/{file}", get(download))
        .route("/files/{session}", get(list))
        .route("/files/{session}/{file}", get(object).delete(remove))
        .route("/sessions/{session}/objects/{file}", get(object))
}

async fn upload(
    State(app): State<App>,
    Extension(kept): Extension<Arc<Shared>>,
    request: Request,
) -> Result<Response, Response> {
    let Uploaded { session, files } = receive(&app, &kept, request).await?;
    let mut names = Vec::new();
    for file in files {
        let stored = file.map_err(|(name, why)| {
            error_response(StatusCode::BAD_REQUEST, format!("{name:?} {why}"))
        })?;
        names.push(json!({"fileId": stored.place.id, "filename": stored.name}));
    }
    if names.is_empty() {
        return Err(error_response(StatusCode::BAD_REQUEST, "the form has no file"));
    }
    // Old clients read `fileId`, new clients `file_id`.
    let answer = json!({
        "message": "success", "session_id": session, "storage_session_id": session, "files": names,
    });
    Ok(Json(answer).into_response())
}

async fn upload_batch(
    State(app): State<App>,
    Extension(kept): Extension<Arc<Shared>>,
    request: Request,
) -> Result<Response, Response> {
    let Uploaded { session, files } = receive(&app, &kept, request).await?;
    let succeeded = files.iter().filter(|file| file.is_ok()).count();
    let failed = files.len() - succeeded;
    let list: Vec<Value> = files
        .into_iter()
        .map(|file| match file {
            Ok(stored) => {
                json!({"status": "success", "fileId": stored.place.id, "filename": stored.name})
            }
            Err((name, why)) => json!({"status": "error", "filename": name, "error": why}),
        })
        .collect();
    let message = match (succeeded, failed) {
        (0, _) => "error",
        (_, 0) => "success",
        _ => "partial_success",
    };
    let answer = json!({
        "message": message, "session_id": session, "storage_session_id": session, "files": list,
        "succeeded": succeeded, "failed": failed,
    });
    Ok(Json(answer).into_response())
}

/// Results of an upload: files, and names with errors.
struct Uploaded {
    session: String,
    files: Vec<Result<Arc<Stored>, (String, &'static str)>>,
}

async fn receive(app: &App, kept: &Shared, request: Request) -> Result<Uploaded, Response> {
    let owner = app.keys().owner_of(request.headers()).ok_or_else(no_key)?;
    app.service().has_memory().map_err(failed)?;
    let place = app.uploads().acquire(owner.name(), 1, PATIENCE).await;
    let _place =
        place.ok_or_else(|| error_response(StatusCode::TOO_MANY_REQUESTS, "too many uploads"))?;
    let request = request_body::open(request, &owner, ReadMode::File(MAX_UPLOAD));
    let form = Multipart::from_request(request, app).await;
    let mut form = form.map_err(|error| error_response(error.status(), error.body_text()))?;
    let session = new_id().map_err(broken)?;
    let store = kept.store(app);
    let mut files = Vec::new();
    let mut is_read_only = false;
    while let Some(field) = form.next_field().await.map_err(|error| bad_form(&error))? {
        let Some(name) = field.file_name().map(str::to_owned) else {
            if field.name() == Some("read_only") {
                is_read_only = field.text().await.map_err(|error| bad_form(&error))? == "true";
            }
            continue;
        };
        if files.len() == MAX_FILES {
            return Err(error_response(StatusCode::PAYLOAD_TOO_LARGE, "too many files at once"));
        }
        let Some(path) = process::workspace_path(&name, &[DATA]) else {
            files.push(Err((name, "invalid path: it must be below /mnt/data")));
            continue;
        };
        let written = write(store.room().map_err(broken)?, field).await?;
        let place = Place {
            session: session.clone(),
            id: new_id().map_err(broken)?,
        };
        let stored = store.keep(&owner, place, path, written, is_read_only);
        files.push(stored.ok_or((name, "the file is larger than the storage limit")));
    }
    Ok(Uploaded { session, files })
}

/// Receives a file.
async fn write(mut written: Written, mut field: Field<'_>) -> Result<Written, Response> {
    let mut file = tokio::fs::File::create_new(written.path()).await.map_err(broken)?;
    while let Some(chunk) = field.chunk().await.map_err(|error| bad_form(&error))? {
        file.write_all(&chunk).await.map_err(broken)?;
        written.size += chunk.len() as u64;
    }
    file.flush().await.map_err(broken)?;
    Ok(written)
}

fn bad_form(error: &MultipartError) -> Response {
    match BodyError::of(error) {
        why @ (BodyError::TooSlow | BodyError::NoRoom) => {
            error_response(why.status(), why.to_string())
        }
        _ => error_response(error.status(), error.body_text()),
    }
}

async fn download(
    State(app): State<App>,
    Extension(kept): Extension<Arc<Shared>>,
    headers: HeaderMap,
    Path((session, id)): Path<(String, String)>,
) -> Result<Response, Response> {
    let owner = app.keys().owner_of(&headers).ok_or_else(no_key)?;
    let found = kept.store(&app).find(&owner, &Place { session, id });
    let stored = found.ok_or_else(no_file)?;
    let head = FileHead {
        path: stored.name.clone(),
        size: stored.size,
        modified: Some(stored.modified),
    };
    let asked =
        head.asked(&headers).map_err(|problem| error_response(problem.status, problem.detail))?;
    let file = tokio::fs::File::open(stored.path()).await.map_err(broken)?;
    head.send(&asked, file.into_std().await).await.map_err(broken)
}

async fn list(
    State(app): State<App>,
    Extension(kept): Extension<Arc<Shared>>,
    headers: HeaderMap,
    Path(session): Path<String>,
) -> Result<Response, Response> {
    let owner = app.keys().owner_of(&headers).ok_or_else(no_key)?;
    let files: Vec<Value> =
        kept.store(&app).list(&owner, &session).iter().map(|file| about(file)).collect();
    Ok(Json(files).into_response())
}

async fn object(
    State(app): State<App>,
    Extension(kept): Extension<Arc<Shared>>,
    headers: HeaderMap,
    Path((session, id)): Path<(String, String)>,
) -> Result<Response, Response> {
    let owner = app.keys().owner_of(&headers).ok_or_else(no_key)?;
    let found = kept.store(&app).find(&owner, &Place { session, id });
    let stored = found.ok_or_else(no_file)?;
    Ok(Json(about(&stored)).into_response())
}

async fn remove(
    State(app): State<App>,
    Extension(kept): Extension<Arc<Shared>>,
    headers: HeaderMap,
    Path((session, id)): Path<(String, String)>,
) -> Result<Response, Response> {
    let owner = app.keys().owner_of(&headers).ok_or_else(no_key)?;
    if !kept.store(&app).remove(&owner, &Place { session, id }) {
        return Err(no_file());
    }
    Ok(Json(json!({"message": "success"})).into_response())
}

fn about(stored: &Stored) -> Value {
    let Stored {
        place: Place { session, id },
        name,
        size,
        modified,
        ..
    } = stored;
    let modified = chrono::DateTime::<chrono::Utc>::from(*modified);
    let extension = name.rsplit_once('.').map_or(String::new(), |(_, end)| format!(".{end}"));
    json!({
        "id": id,
        "name": format!("{session}/{id}{extension}"),
        "metadata": {"original-filename": name},
        "session_id": session,
        "storage_session_id": session,
        "size": size,
        "lastModified": modified.to_rfc3339_opts(chrono::SecondsFormat::Millis, true),
    })
}

fn no_file() -> Response {
    error_response(StatusCode::NOT_FOUND, "no such file, or the file has expired")
}

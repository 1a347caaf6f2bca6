//! `/v1/sessions/{id}/files`: access to a session's files without a run.

use axum::Json;
use axum::extract::{Path, Request, State};
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get, post, put};
use belljar::error::{PathProblem, SessionError};
use belljar::session::{PathEntry, PathKind};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::operation::{BYTES, Operation};
use crate::http::app::App;
use crate::http::body_error::{BodyError, UploadError};
use crate::http::extract::{Body as JsonBody, Query};
use crate::http::files::{FileHead, may_write, timestamp};
use crate::http::problem::Problem;
use crate::http::session_files;
use crate::http::upload::Receiver;
use crate::service::owner::Owner;
use crate::service::session_store::Access;

/// Maximum depth of a listing.
const MAX_DEPTH: usize = 64;

pub(super) fn operations() -> Vec<Operation> {
    const PATH: &str = "/v1/sessions/{id}/files/{*path}";
    vec![
        Operation::new(
            "GET",
            "/v1/sessions/{id}/files",
            get(list),
            "Lists a directory of a session's workspace, sorted by path.",
        )
        .query::<String>("path", "The directory; the workspace if omitted")
        .query::<usize>(
            "depth",
            "1, the default, lists the directory itself; 2 also lists its subdirectories",
        )
        .answers::<Listing>(200, "The entries"),
        Operation::new("GET", PATH, get(read), "Downloads a file of a session's workspace.")
            .answers_as(200, "The file", BYTES, None)
            .answers_as(206, "The requested range", BYTES, None)
            .ends(304, "The client's copy is current"),
        Operation::new(
            "PUT",
            PATH,
            put(write),
            "Writes the body to a file. Replaces an existing file and creates parent directories. \
             `If-Match` and `If-None-Match: *` are obeyed.",
        )
        .takes_as(BYTES, None)
        .or_nothing()
        .answers::<Entry>(200, "The file was replaced")
        .answers::<Entry>(201, "The file was created"),
        Operation::new(
            "DELETE",
            PATH,
            delete(remove),
            "Removes a file, a link, or a directory and its contents.",
        )
        .ends(204, "Removed"),
        Operation::new(
            "POST",
            "/v1/sessions/{id}/directories",
            post(make_directory),
            "Creates a directory and its parents.",
        )
        .takes::<Directory>()
        .ends(204, "The directory exists"),
        Operation::new(
            "POST",
            "/v1/sessions/{id}/rename",
            post(rename),
            "Renames a file, directory or link. Replaces a file or link at the new path.",
        )
        .takes::<Rename>()
        .ends(204, "Renamed"),
    ]
}

/// An entry of a workspace.
#[derive(Serialize, JsonSchema)]
struct Entry {
    /// Path relative to the workspace.
    path: String,
    /// `file`, `directory` or `link`.
    kind: &'static str,
    /// Size of a file in bytes, or length of a link's target.
    size: u64,
    /// Time of the last write to a file.
    #[serde(skip_serializing_if = "Option::is_none")]
    modified: Option<String>,
    /// Target of a link.
    #[serde(skip_serializing_if = "Option::is_none")]
    target: Option<String>,
    /// Identifies the content of a file.
    #[serde(skip_serializing_if = "Option::is_none")]
    etag: Option<String>,
}

impl From<PathEntry> for Entry {
    fn from(entry: PathEntry) -> Self {
        let is_file = entry.kind == PathKind::File;
        Self {
            etag: is_file.then(|| FileHead::from(&entry).tag()),
            kind: match entry.kind {
                PathKind::File => "file",
                PathKind::Directory => "directory",
                _ => "link",
            },
            size: entry.size,
            modified: entry.modified.map(timestamp),
            target: entry.target,
            path: entry.path,
        }
    }
}

#[derive(Serialize, JsonSchema)]
struct Listing {
    entries: Vec<Entry>,
}

#[derive(Deserialize)]
struct Where {
    #[serde(default)]
    path: String,
    depth: Option<usize>,
}

async fn list(
    State(app): State<App>,
    owner: Owner,
    Path(id): Path<String>,
    Query(asked): Query<Where>,
) -> Result<Json<Listing>, Problem> {
    let session = app.service().claim(&owner, &id, Access::Read).await?;
    let files = session.view().workspace();
    let depth = asked.depth.unwrap_or(1).clamp(1, MAX_DEPTH);
    let entries = files.list(&asked.path, depth).await?;
    Ok(Json(Listing {
        entries: entries.into_iter().map(Entry::from).collect(),
    }))
}

async fn read(
    State(app): State<App>,
    owner: Owner,
    Path((id, path)): Path<(String, String)>,
    method: Method,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let claim = app.service().claim(&owner, &id, Access::Read).await?;
    session_files::send(claim.view().workspace(), &path, &method, &headers).await
}

async fn write(
    State(app): State<App>,
    owner: Owner,
    Path((id, path)): Path<(String, String)>,
    request: Request,
) -> Result<Response, Problem> {
    let headers = request.headers().clone();
    let mut receiver = Receiver::of(&app, &owner).await?;
    let max = session_files::max_upload(app.service(), &owner, &id).await?;
    let upload = receiver.body(request, max).await.map_err(|error| match error {
        UploadError::Body(BodyError::TooLong(_)) => {
            Problem::from(belljar::Error::from(SessionError::Path {
                id: id.clone(),
                action: "write",
                path: path.clone(),
                problem: PathProblem::TooManyBytes,
            }))
        }
        other => other.into(),
    })?;
    let session = app.service().claim(&owner, &id, Access::Write).await?;
    let files = session.view().workspace();
    let mut status = StatusCode::CREATED;
    let written = files.write_unless(&path, upload, |there| {
        let there = there.filter(|entry| entry.kind == PathKind::File).map(FileHead::from);
        if there.is_some() {
            status = StatusCode::OK;
        }
        may_write(&headers, there.as_ref())
    });
    let entry = written.await??;
    session.commit().await?;
    Ok((status, Json(Entry::from(entry))).into_response())
}

async fn remove(
    State(app): State<App>,
    owner: Owner,
    Path((id, path)): Path<(String, String)>,
) -> Result<StatusCode, Problem> {
    let session = app.service().claim(&owner, &id, Access::Change).await?;
    session.view().workspace().remove(&path).await?;
    session.commit().await?;
    Ok(StatusCode::NO_CONTENT)
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Directory {
    /// Its path.
    #[schemars(length(min = 1))]
    path: String,
}

async fn make_directory(
    State(app): State<App>,
    owner: Owner,
    Path(id): Path<String>,
    JsonBody(asked): JsonBody<Directory>,
) -> Result<StatusCode, Problem> {
    let session = app.service().claim(&owner, &id, Access::Change).await?;
    session.view().workspace().make_dir(&asked.path).await?;
    session.commit().await?;
    Ok(StatusCode::NO_CONTENT)
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Rename {
    /// Current path.
    #[schemars(length(min = 1))]
    from: String,
    /// New path.
    #[schemars(length(min = 1))]
    to: String,
}

async fn rename(
    State(app): State<App>,
    owner: Owner,
    Path(id): Path<String>,
    JsonBody(asked): JsonBody<Rename>,
) -> Result<StatusCode, Problem> {
    let session = app.service().claim(&owner, &id, Access::Change).await?;
    session.view().workspace().rename(&asked.from, &asked.to).await?;
    session.commit().await?;
    Ok(StatusCode::NO_CONTENT)
}

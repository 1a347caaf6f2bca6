//! `/v1/containers/{container}/files`: files of containers.
//!
//! The id of a file consists of the container's id and the path.

use std::io::Read;
use std::sync::Arc;

use axum::extract::{FromRequest, Multipart, Path, Request, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::Response;
use axum::routing::get;
use axum::{Extension, Json, Router};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use belljar::session::{PathEntry, PathKind};
use serde::Deserialize;
use serde_json::{Value, json};

use super::container::{Uploads, claim, seconds, set_uploaded};
use super::page::Page;
use super::{Caller, DATA, Fault};
use crate::faces::process;
use crate::http::app::App;
use crate::http::extract::Body;
use crate::http::files::FileHead;
use crate::http::problem::Problem;
use crate::http::request_body::{self, ReadMode};
use crate::http::session_files;
use crate::http::upload::Receiver;
use crate::lock::Turns;
use crate::service::owner::Owner;
use crate::service::session_store::Access;

/// Maximum depth of a listing.
const MAX_DEPTH: usize = 64;
/// Bytes of a form besides its file.
const FORM: u64 = 64 << 10;
/// Maximum length of the id of a file, in bytes.
const MAX_ID: u64 = 16 << 10;

pub(super) fn routes() -> Router<App> {
    Router::new()
        .route("/{container}/files", get(list).post(create))
        .route("/{container}/files/{file}", get(retrieve).delete(delete))
        .route("/{container}/files/{file}/content", get(content))
}

fn file_id(container: &str, path: &str) -> String {
    format!("cfile_{}", URL_SAFE_NO_PAD.encode(format!("{container}/{path}")))
}

/// The container and path in the id of a file, which a client may have made up.
fn parse(id: &str) -> Option<(String, String)> {
    let bytes = URL_SAFE_NO_PAD.decode(id.strip_prefix("cfile_")?).ok()?;
    let text = String::from_utf8(bytes).ok()?;
    let (container, path) = text.split_once('/')?;
    Some((container.to_owned(), path.to_owned()))
}

/// The path of a file in this container.
fn path_in(container: &str, id: &str) -> Result<String, Fault> {
    let found = parse(id).filter(|(named, _)| named == container);
    found.map(|(_, path)| path).ok_or_else(|| no_file(id))
}

fn no_file(id: &str) -> Fault {
    Fault::missing("no_such_file", format!("no file with id {id:?}"))
}

fn answer(container: &str, entry: &PathEntry, uploads: &Uploads) -> Value {
    json!({
        "id": file_id(container, &entry.path),
        "object": "container.file",
        "created_at": entry.modified.map_or(0, seconds),
        "bytes": entry.size,
        "container_id": container,
        "path": format!("{DATA}/{}", entry.path),
        "source": if uploads.has(&entry.path) { "user" } else { "assistant" },
    })
}

async fn list(
    State(app): State<App>,
    Caller(owner): Caller,
    Path(id): Path<String>,
    page: Page,
) -> Result<Json<Value>, Fault> {
    let session = claim(&app, &owner, &id, Access::Read).await?;
    let mut all = session.view().workspace().list("", MAX_DEPTH).await?;
    all.retain(|entry| entry.kind == PathKind::File);
    // Not by time, which a run between two pages changes.
    all.sort_by(|one, other| one.path.cmp(&other.path));
    let uploads = Uploads::of(&session);
    let id = session.id();
    let place = |all: &[PathEntry], after: &str| {
        let path = path_in(id, after).ok()?;
        Some(all.binary_search_by(|entry| entry.path.cmp(&path)))
    };
    Ok(page.of(&all, place, |entry| file_id(id, &entry.path), |one| answer(id, one, &uploads)))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Create {
    file_id: String,
}

async fn create(
    State(app): State<App>,
    Caller(owner): Caller,
    Extension(turns): Extension<Arc<Turns>>,
    Path(id): Path<String>,
    request: Request,
) -> Result<Json<Value>, Fault> {
    let media = request.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let media = media.unwrap_or_default().to_ascii_lowercase();
    if !media.starts_with("multipart/form-data") {
        let Body(asked) = Body::<Create>::from_request(request, &app).await?;
        return copy(&app, &owner, &turns, &id, &asked.file_id).await.map(Json);
    }
    let mut receiver = Receiver::of(&app, &owner).await?;
    let max = session_files::max_upload(app.service(), &owner, &id).await?;
    let mode = ReadMode::File(max.saturating_add(FORM));
    let form = Multipart::from_request(request_body::open(request, &owner, mode), &app).await;
    let mut form =
        form.map_err(|error| Problem::new(error.status(), "bad_form", error.body_text()))?;
    while let Some(part) = form.next_field().await.map_err(|error| Problem::from(&error))? {
        let Some(name) = part.file_name().map(str::to_owned) else {
            if part.name() == Some("file_id") {
                let mut file = String::new();
                let read = receiver.pieces(part, MAX_ID).await?.read_to_string(&mut file);
                read.map_err(|_| no_file("of this form"))?;
                return copy(&app, &owner, &turns, &id, &file).await.map(Json);
            }
            continue;
        };
        let path = process::workspace_path(&name, &[DATA]).ok_or_else(|| {
            Fault::invalid("bad_path", format!("{name:?} is not a path below {DATA}"))
        })?;
        let content = receiver.pieces(part, max).await?;
        return write(&app, &owner, &turns, &id, &path, content).await.map(Json);
    }
    Err(Fault::invalid("bad_form", "the form has no file"))
}

/// Copies a file of the same account's containers to a container.
pub(super) async fn copy(
    app: &App,
    owner: &Owner,
    turns: &Turns,
    to: &str,
    id: &str,
) -> Result<Value, Fault> {
    let Some((from, path)) = parse(id) else {
        let hint = "use the id of a file in a container; there is no /v1/files here";
        return Err(Problem::new(StatusCode::NOT_FOUND, "no_such_file", format!("no file {id:?}"))
            .hint(hint)
            .into());
    };
    let content = {
        let session = claim(app, owner, &from, Access::Read).await?;
        let files = session.view().workspace();
        let head = FileHead::from(&session_files::regular(&files, &path).await?);
        let size = head.size;
        let mut receiver = Receiver::of(app, owner).await?;
        receiver.pieces(session_files::chunks(files, head, 0, size), size).await?
    };
    write(app, owner, turns, to, &path, content).await
}

async fn write(
    app: &App,
    owner: &Owner,
    turns: &Turns,
    id: &str,
    path: &str,
    content: impl Read + Send + 'static,
) -> Result<Value, Fault> {
    let session = claim(app, owner, id, Access::Write).await?;
    let _turn = turns.of(session.id()).await;
    // First, because the labels may have no room.
    let is_new = set_uploaded(&session, path, true)?;
    let entry = match session.view().workspace().write(path, content).await {
        Ok(entry) => entry,
        Err(error) => {
            if is_new {
                set_uploaded(&session, path, false)?;
            }
            return Err(error.into());
        }
    };
    let answer = answer(session.id(), &entry, &Uploads::of(&session));
    session.commit().await?;
    Ok(answer)
}

async fn retrieve(
    State(app): State<App>,
    Caller(owner): Caller,
    Path((id, file)): Path<(String, String)>,
) -> Result<Json<Value>, Fault> {
    let session = claim(&app, &owner, &id, Access::Read).await?;
    let path = path_in(session.id(), &file)?;
    let entry = session_files::regular(&session.view().workspace(), &path).await?;
    Ok(Json(answer(session.id(), &entry, &Uploads::of(&session))))
}

async fn content(
    State(app): State<App>,
    Caller(owner): Caller,
    Path((id, file)): Path<(String, String)>,
    method: Method,
    headers: HeaderMap,
) -> Result<Response, Fault> {
    let session = claim(&app, &owner, &id, Access::Read).await?;
    let path = path_in(session.id(), &file)?;
    Ok(session_files::send(session.view().workspace(), &path, &method, &headers).await?)
}

async fn delete(
    State(app): State<App>,
    Caller(owner): Caller,
    Extension(turns): Extension<Arc<Turns>>,
    Path((id, file)): Path<(String, String)>,
) -> Result<Json<Value>, Fault> {
    let session = claim(&app, &owner, &id, Access::Change).await?;
    let path = path_in(session.id(), &file)?;
    let _turn = turns.of(session.id()).await;
    let files = session.view().workspace();
    session_files::regular(&files, &path).await?;
    files.remove(&path).await?;
    set_uploaded(&session, &path, false)?;
    session.commit().await?;
    Ok(Json(json!({"id": file, "object": "container.file.deleted", "deleted": true})))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_names_a_container_and_a_path() {
        for path in ["a.txt", "a/b c/\u{e9}.txt", "../x", ""] {
            let id = file_id("s1", path);
            assert_eq!(parse(&id), Some(("s1".to_owned(), path.to_owned())));
            assert_eq!(path_in("s1", &id).ok().as_deref(), Some(path));
            assert!(path_in("s2", &id).is_err());
        }
        for id in ["", "cfile_", "cfile_!", "file-abc", "cfile_YQ", "cfile__w"] {
            assert_eq!(parse(id), None, "{id}");
        }
    }
}

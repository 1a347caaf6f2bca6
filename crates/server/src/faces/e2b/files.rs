//! Files of a sandbox: uploads, downloads, file system calls and watched directories.

use std::io::Read;
use std::sync::Arc;
use std::time::SystemTime;

use axum::Json;
use axum::body::Body;
use axum::extract::multipart::Field;
use axum::extract::{
    FromRequest, FromRequestParts, Multipart, Path, Query, Request, State as FromState,
};
use axum::http::request::Parts;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use belljar::session::{PathEntry, PathKind, SessionFiles};
use bytes::Bytes;
use flate2::read::MultiGzDecoder;
use futures_util::StreamExt;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::access::{Operation, Signed};
use super::address::Address;
use super::commands::{first, stream};
use super::envelope;
use super::fault::Fault;
use super::paths::{self, Inside, missing};
use super::processes::Message;
use super::registry::timestamp;
use super::sandbox::Sandbox;
use super::target::{Open, Reached, admitted, json_body, reach_by_token, sandboxes, token};
use super::watchers::{Watch, Watcher};
use super::wire::Written;
use crate::http::app::App;
use crate::http::body_error::BodyError;
use crate::http::request_body::{self, ReadMode};
use crate::http::upload::Receiver;
use crate::service::session_store::Access;

/// Maximum size of an upload form, in bytes.
const MAX_FORM: u64 = 4 << 30;
/// Maximum length of a signed path, in bytes.
const MAX_SIGNED: usize = 4 << 10;
/// Maximum number of files in a form.
const MAX_PARTS: usize = 1000;
/// Bytes read at a time for a download.
const PIECE: u64 = 1 << 20;

#[derive(Debug, Default, Deserialize)]
pub(super) struct Asked {
    #[serde(default)]
    path: Option<String>,
    #[serde(default)]
    username: Option<String>,
    #[serde(default)]
    signature: Option<String>,
    #[serde(default)]
    signature_expiration: Option<u64>,
}

/// `GET /health`: whether the sandbox is running.
pub(super) async fn health(FromState(app): FromState<App>, request: Request) -> Response {
    let (mut parts, _) = request.into_parts();
    let id = Address::of(&parts.headers, &parts.uri).map(|address| address.sandbox);
    if Reached::from_request_parts(&mut parts, &app).await.is_ok() {
        return StatusCode::NO_CONTENT.into_response();
    }
    let message = "The sandbox was not found";
    let body = json!({"sandboxId": id, "message": message, "code": 502});
    (StatusCode::BAD_GATEWAY, Json(body)).into_response()
}

/// `GET /files`: downloads a file.
pub(super) async fn download(
    FromState(app): FromState<App>,
    Query(asked): Query<Asked>,
    request: Request,
) -> Result<Response, Fault> {
    let (mut parts, _) = request.into_parts();
    let sandbox = allowed(&mut parts, &app, &asked, Operation::Read).await?;
    let path = paths::existing(asked.path.as_deref().unwrap_or(""))?;
    let turn = sandbox.turn(Access::Read).await?;
    let files = turn.files()?;
    drop(turn);
    let found = files.stat(path.as_str()).await.map_err(|error| missing(error, &path))?;
    if found.kind == PathKind::Directory {
        return Err(Fault::invalid(format!("path '{}' is a directory", path.absolute())));
    }
    let first = files.read(path.as_str(), ..PIECE).await.map_err(|error| missing(error, &path))?;
    let size = found.size;
    let at_path = path.as_str().to_owned();
    let rest = futures_util::stream::try_unfold(first.len() as u64, move |at| {
        let (files, at_path) = (files.clone(), at_path.clone());
        async move {
            if at >= size {
                return Ok(None);
            }
            let piece = files.read(&at_path, at..size.min(at + PIECE)).await?;
            if piece.is_empty() {
                // The file was truncated during the download, and Content-Length is already sent.
                return Err(std::io::Error::from(std::io::ErrorKind::UnexpectedEof).into());
            }
            let end = at + piece.len() as u64;
            Ok::<_, Box<dyn std::error::Error + Send + Sync>>(Some((Bytes::from(piece), end)))
        }
    });
    let first = futures_util::stream::once(async move { Ok(Bytes::from(first)) });
    let mut response = Response::new(Body::from_stream(first.chain(rest)));
    let headers = response.headers_mut();
    // The content is untrusted: a browser must not render it in the server's origin.
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    headers.insert(header::CONTENT_DISPOSITION, HeaderValue::from_static("attachment"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::CONTENT_LENGTH, HeaderValue::from(size));
    Ok(response)
}

/// `POST /files`: one raw file, or files in a form.
pub(super) async fn upload(
    FromState(app): FromState<App>,
    Query(asked): Query<Asked>,
    request: Request,
) -> Result<Json<Vec<Written>>, Fault> {
    let (mut parts, body) = request.into_parts();
    let sandbox = allowed(&mut parts, &app, &asked, Operation::Write).await?;
    let kind = parts.headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let is_form = kind.is_some_and(|kind| kind.starts_with("multipart/form-data"));
    let encoding = parts.headers.get(header::CONTENT_ENCODING).cloned();
    let max = sandbox.max_disk();
    let mut receiver = Receiver::of(&app, &sandbox.owner).await?;
    let mut pieces = Vec::new();
    if is_form {
        if encoding.is_some() {
            return Err(Fault::invalid("forms cannot be compressed; send the file itself"));
        }
        let request = Request::from_parts(parts, body);
        let request = request_body::open(request, &sandbox.owner, ReadMode::File(MAX_FORM));
        let mut form = Multipart::from_request(request, &app)
            .await
            .map_err(|error| Fault::invalid(error.body_text()))?;
        while let Some(field) = next_field(&mut form).await? {
            if pieces.len() >= MAX_PARTS {
                return Err(Fault::invalid(format!("a form has at most {MAX_PARTS} files")));
            }
            let path = path_of(&asked, &field)?;
            pieces.push((path, receiver.pieces(field, max).await?));
        }
        if pieces.is_empty() {
            return Err(Fault::invalid("the form has no part named \"file\""));
        }
    } else {
        let path = paths::writable(asked.path.as_deref().unwrap_or(""))?;
        let spooled = receiver.body(Request::from_parts(parts, body), max).await?;
        pieces.push((path, spooled));
    }
    let is_gzip = match encoding.as_ref().map(HeaderValue::as_bytes) {
        None | Some(b"identity") => false,
        Some(b"gzip") => true,
        Some(_) => {
            return Err(Fault::new(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "unsupported Content-Encoding: use gzip",
            ));
        }
    };
    let turn = sandbox.turn(Access::Write).await?;
    let files = turn.files()?;
    let mut written = Vec::new();
    for (path, spooled) in pieces {
        let from: Box<dyn Read + Send> = if is_gzip {
            Box::new(MultiGzDecoder::new(spooled))
        } else {
            Box::new(spooled)
        };
        files.write(path.as_str(), from).await?;
        written.push(Written {
            name: path.name(),
            kind: "file",
            path: path.absolute(),
        });
    }
    sandbox.commit(turn).await?;
    Ok(Json(written))
}

/// Finds the request's sandbox and checks its token or signature.
async fn allowed(
    parts: &mut Parts,
    app: &App,
    asked: &Asked,
    operation: Operation,
) -> Result<Arc<Sandbox>, Fault> {
    let sandboxes = sandboxes(parts, app).await?;
    let named = Address::of(&parts.headers, &parts.uri);
    if let Some(shown) = token(&parts.headers) {
        let found = match named {
            Some(named) => sandboxes.reach_with_token(&named.sandbox, shown).await?,
            None => reach_by_token(&sandboxes, shown).await?,
        };
        return admitted(app, found);
    }
    let signature = asked.signature.as_deref().ok_or_else(Fault::no_token)?;
    // The client is not authenticated yet, so little work is done for it.
    if asked.path.as_ref().is_some_and(|path| path.len() > MAX_SIGNED)
        || asked.username.as_ref().is_some_and(|name| name.len() > MAX_SIGNED)
    {
        return Err(Fault::invalid("the path is too long"));
    }
    let signed = Signed {
        path: asked.path.as_deref().unwrap_or(""),
        operation,
        user: asked.username.as_deref().unwrap_or(""),
        expiration: asked.signature_expiration,
    };
    let found = match named {
        Some(named) => sandboxes.reach_with_signature(&named.sandbox, signed, signature).await?,
        None => sandboxes.reach_by_signature(signed, signature).await?,
    };
    if signed.is_expired() {
        return Err(Fault::new(StatusCode::UNAUTHORIZED, "the signature has expired"));
    }
    admitted(app, found)
}

async fn next_field(form: &mut Multipart) -> Result<Option<Field<'_>>, Fault> {
    let field = form.next_field().await.map_err(|error| match BodyError::of(&error) {
        BodyError::Broken => Fault::invalid(error.body_text()),
        why => why.into(),
    })?;
    match field {
        Some(field) if field.name() != Some("file") => {
            Err(Fault::invalid("every part of the form must be named \"file\""))
        }
        field => Ok(field),
    }
}

/// The destination of a form's part: the path in the query if given, else the part's file name.
fn path_of(asked: &Asked, field: &Field<'_>) -> Result<Inside, Fault> {
    let named = match &asked.path {
        Some(path) => path.clone(),
        // Undoes the escapes of characters that would end the name.
        None => field
            .file_name()
            .unwrap_or("")
            .replace("%22", "\"")
            .replace("%0D", "\r")
            .replace("%0A", "\n"),
    };
    let path = paths::writable(&named)?;
    if path.is_top() {
        return Err(Fault::invalid(
            "a file needs a path: set it in the query, or as the part's file name",
        ));
    }
    Ok(path)
}

/// Maximum number of entries in a listing.
const MAX_ENTRIES: usize = 20_000;

#[derive(Debug, Default, Deserialize)]
struct Call {
    #[serde(default)]
    path: String,
    #[serde(default)]
    depth: usize,
    #[serde(default)]
    source: String,
    #[serde(default)]
    destination: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Watched {
    watcher_id: String,
}

/// A file system entry in E2B's format.
#[derive(Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    name: String,
    #[serde(rename = "type")]
    kind: &'static str,
    path: String,
    /// Protobuf's JSON encodes 64-bit numbers as strings.
    size: String,
    mode: u32,
    permissions: &'static str,
    owner: &'static str,
    group: &'static str,
    modified_time: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    symlink_target: Option<String>,
}

impl Entry {
    fn of(found: PathEntry) -> Self {
        let (kind, mode, permissions) = match found.kind {
            PathKind::Directory => ("FILE_TYPE_DIRECTORY", 0o755, "drwxr-xr-x"),
            PathKind::Link => ("FILE_TYPE_SYMLINK", 0o777, "Lrwxrwxrwx"),
            _ => ("FILE_TYPE_FILE", 0o644, "-rw-r--r--"),
        };
        let path = paths::absolute(&found.path);
        Self {
            name: paths::name(&path).to_owned(),
            kind,
            path,
            size: found.size.to_string(),
            mode,
            permissions,
            owner: "user",
            group: "user",
            modified_time: timestamp(found.modified.unwrap_or_else(SystemTime::now)),
            symlink_target: found.target,
        }
    }
}

/// `POST /filesystem.Filesystem/{method}`.
pub(super) async fn call(
    sandbox: Result<Open, Fault>,
    Path(method): Path<String>,
    request: Request,
) -> Response {
    let answered = async {
        let Open(sandbox) = sandbox?;
        match method.as_str() {
            "CreateWatcher" => {
                let asked = json_body(&sandbox.owner, request).await?;
                let turn = sandbox.turn(Access::Read).await?;
                let added = sandbox.watchers.add(&turn.files()?, asked).await;
                turn.release().await?;
                added
            }
            "GetWatcherEvents" => {
                let Watched { watcher_id } = json_body(&sandbox.owner, request).await?;
                let turn = sandbox.turn(Access::Read).await?;
                let events = sandbox.watchers.events(&turn.files()?, &watcher_id).await;
                turn.release().await?;
                events
            }
            "RemoveWatcher" => {
                let Watched { watcher_id } = json_body(&sandbox.owner, request).await?;
                sandbox.watchers.remove(&watcher_id)
            }
            _ => {
                let asked = json_body(&sandbox.owner, request).await?;
                answer(&sandbox, &method, asked).await
            }
        }
    };
    match answered.await {
        Ok(answer) => Json(answer).into_response(),
        Err(fault) => fault.into_connect(),
    }
}

async fn answer(sandbox: &Arc<Sandbox>, method: &str, asked: Call) -> Result<Value, Fault> {
    let changes = matches!(method, "MakeDir" | "Move" | "Remove");
    let turn = sandbox
        .turn(if changes {
            Access::Change
        } else {
            Access::Read
        })
        .await?;
    let answered = call_on(&turn.files()?, method, asked).await;
    if changes {
        sandbox.commit(turn).await?;
    }
    answered
}

async fn call_on(files: &SessionFiles, method: &str, asked: Call) -> Result<Value, Fault> {
    match method {
        "Stat" => {
            let path = paths::existing(&asked.path)?;
            Ok(json!({"entry": entry(files, &path).await?}))
        }
        "ListDir" => {
            let path = paths::existing(&asked.path)?;
            let found = files.list(path.as_str(), asked.depth.max(1)).await;
            let found = found.map_err(|error| missing(error, &path))?;
            if found.len() > MAX_ENTRIES {
                let message = format!("more than {MAX_ENTRIES} entries; reduce the depth");
                return Err(Fault::new(StatusCode::TOO_MANY_REQUESTS, message));
            }
            let entries: Vec<Entry> = found.into_iter().map(Entry::of).collect();
            Ok(json!({ "entries": entries }))
        }
        "MakeDir" => {
            let path = paths::writable(&asked.path)?;
            if files.stat(path.as_str()).await.is_ok() {
                let message = format!("path '{}' already exists", path.absolute());
                return Err(Fault::new(StatusCode::CONFLICT, message));
            }
            files.make_dir(path.as_str()).await?;
            Ok(json!({"entry": entry(files, &path).await?}))
        }
        "Move" => {
            let (from, to) =
                (paths::existing(&asked.source)?, paths::writable(&asked.destination)?);
            if let Some(dir) = to.dir() {
                files.stat(from.as_str()).await.map_err(|error| missing(error, &from))?;
                files.make_dir(dir.as_str()).await?;
            }
            files
                .rename(from.as_str(), to.as_str())
                .await
                .map_err(|error| missing(error, &from))?;
            Ok(json!({"entry": entry(files, &to).await?}))
        }
        "Remove" => {
            let path = paths::existing(&asked.path)?;
            files.remove(path.as_str()).await.map_err(|error| missing(error, &path))?;
            Ok(json!({}))
        }
        _ => {
            let message = format!("method {method} is not supported");
            Err(Fault::new(StatusCode::NOT_IMPLEMENTED, message))
        }
    }
}

async fn entry(files: &SessionFiles, path: &Inside) -> Result<Entry, Fault> {
    let found = files.stat(path.as_str()).await.map_err(|error| missing(error, path))?;
    Ok(Entry::of(found))
}

/// Maximum number of messages queued for a client.
const MAX_MESSAGES: usize = 16;

/// `POST /filesystem.Filesystem/WatchDir`.
pub(super) async fn watch(sandbox: Result<Open, Fault>, request: Request) -> Response {
    let begun = async {
        let Open(sandbox) = sandbox?;
        let asked: Watch = first(&sandbox.owner, request).await?;
        let place = sandbox.watchers.place()?;
        // Changes from here on are reported.
        let changes = sandbox.changed.subscribe();
        let turn = sandbox.turn(Access::Read).await?;
        let watcher = Watcher::of(&turn.files()?, asked, place).await?;
        turn.release().await?;
        let (messages, waiting) = mpsc::channel(MAX_MESSAGES);
        tokio::spawn(tell(sandbox, watcher, changes, messages));
        Ok(waiting)
    };
    stream(begun.await)
}

/// Reports changes in a directory to a client until it disconnects.
async fn tell(
    sandbox: Arc<Sandbox>,
    mut watcher: Watcher,
    mut changes: tokio::sync::watch::Receiver<()>,
    messages: mpsc::Sender<Message>,
) {
    let told = async {
        let _ = messages.send(Ok(envelope::message(&json!({"start": {}})))).await;
        loop {
            tokio::select! {
                () = messages.closed() => return Ok(()),
                () = sandbox.killed.cancelled() => return Ok(()),
                _ = changes.changed() => {}
            }
            let turn = sandbox.turn(Access::Read).await?;
            let events = watcher.look(&turn.files()?).await;
            turn.release().await?;
            for event in events? {
                let message = envelope::message(&json!({ "filesystem": event }));
                if messages.send(Ok(message)).await.is_err() {
                    return Ok(());
                }
            }
        }
    };
    let told: Result<(), Fault> = told.await;
    let _ = messages.send(Ok(envelope::end(told.err().as_ref()))).await;
}

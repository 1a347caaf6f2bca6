//! The file system by Connect's calls with JSON, each answered once.

use std::sync::Arc;
use std::time::SystemTime;

use axum::Json;
use axum::extract::{Path, Request};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use belljar::session::{PathEntry, PathKind, SessionFiles};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::fault::Fault;
use super::paths::{self, Inside, missing};
use super::registry::timestamp;
use super::sandbox::Sandbox;
use super::target::{Open, json_body};
use crate::service::anywhere::Use;

/// The most entries of one listing.
const MAX_ENTRIES: usize = 20_000;

#[derive(Debug, Default, Deserialize)]
struct Asked {
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

/// Something in a sandbox, as clients read it.
#[derive(Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    name: String,
    #[serde(rename = "type")]
    kind: &'static str,
    path: String,
    /// 64-bit numbers are strings here.
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
                let turn = sandbox.turn(Use::Look).await?;
                let added = sandbox.watchers.add(&turn.files()?, asked).await;
                turn.leave().await?;
                added
            }
            "GetWatcherEvents" => {
                let Watched { watcher_id } = json_body(&sandbox.owner, request).await?;
                let turn = sandbox.turn(Use::Look).await?;
                let events = sandbox.watchers.events(&turn.files()?, &watcher_id).await;
                turn.leave().await?;
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

async fn answer(sandbox: &Arc<Sandbox>, method: &str, asked: Asked) -> Result<Value, Fault> {
    let changes = matches!(method, "MakeDir" | "Move" | "Remove");
    let turn = sandbox.turn(if changes { Use::Change } else { Use::Look }).await?;
    let answered = call_on(&turn.files()?, method, asked).await;
    if changes {
        sandbox.done(turn).await?;
    }
    answered
}

async fn call_on(files: &SessionFiles, method: &str, asked: Asked) -> Result<Value, Fault> {
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
                let message =
                    format!("there are more than {MAX_ENTRIES} entries; list with less depth");
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
            let message = format!("{method} is not offered here");
            Err(Fault::new(StatusCode::NOT_IMPLEMENTED, message))
        }
    }
}

async fn entry(files: &SessionFiles, path: &Inside) -> Result<Entry, Fault> {
    let found = files.stat(path.as_str()).await.map_err(|error| missing(error, path))?;
    Ok(Entry::of(found))
}

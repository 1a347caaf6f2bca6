//! Watched directories. Both runs and client calls change files, so events are found by comparing
//! listings.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use axum::http::StatusCode;
use belljar::session::{PathEntry, PathKind, SessionFiles};
use serde::Deserialize;
use serde_json::{Value, json};

use super::fault::Fault;
use super::paths::{self, Inside, missing};
use super::record::new_id;
use crate::lock::lock;

/// Maximum number of watched directories in a sandbox.
const MAX_WATCHERS: usize = 8;
/// Maximum number of entries in a watched directory, and maximum bytes of their paths.
const MAX_ENTRIES: usize = 4096;
const MAX_BYTES: usize = 256 << 10;

/// A client's request to watch a directory.
#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct Watch {
    #[serde(default)]
    path: String,
    #[serde(default)]
    recursive: bool,
}

/// The watched directories of a sandbox, by the ids with which clients poll them.
#[derive(Default)]
pub(super) struct Watchers {
    polled: Mutex<BTreeMap<String, Arc<tokio::sync::Mutex<Watcher>>>>,
    /// Counts watched directories, polled or streamed: each holds a clone.
    places: Arc<()>,
}

/// A watched directory and its entries at the last look.
pub(super) struct Watcher {
    path: Inside,
    asked: Watch,
    seen: Listing,
    _place: Arc<()>,
}

impl Watchers {
    /// Reserves room for a watcher.
    pub(super) fn place(&self) -> Result<Arc<()>, Fault> {
        let place = Arc::clone(&self.places);
        // The list and this function hold clones, too.
        if Arc::strong_count(&place) > MAX_WATCHERS + 1 {
            let message = format!("at most {MAX_WATCHERS} directories of a sandbox can be watched");
            return Err(Fault::new(StatusCode::TOO_MANY_REQUESTS, message));
        }
        Ok(place)
    }

    /// Watches a directory for a client that polls. Returns the watcher's id.
    pub(super) async fn add(&self, files: &SessionFiles, asked: Watch) -> Result<Value, Fault> {
        let watcher = Watcher::of(files, asked, self.place()?).await?;
        let id = new_id();
        lock(&self.polled).insert(id.clone(), Arc::new(tokio::sync::Mutex::new(watcher)));
        Ok(json!({ "watcherId": id }))
    }

    /// Events since the previous poll.
    pub(super) async fn events(&self, files: &SessionFiles, id: &str) -> Result<Value, Fault> {
        let watcher = lock(&self.polled).get(id).cloned().ok_or_else(|| unknown(id))?;
        let events = watcher.lock().await.look(files).await?;
        Ok(json!({ "events": events }))
    }

    pub(super) fn remove(&self, id: &str) -> Result<Value, Fault> {
        let removed = lock(&self.polled).remove(id);
        removed.map(|_| json!({})).ok_or_else(|| unknown(id))
    }
}

impl Watcher {
    pub(super) async fn of(
        files: &SessionFiles,
        asked: Watch,
        place: Arc<()>,
    ) -> Result<Self, Fault> {
        let path = paths::existing(&asked.path)?;
        let found = files.stat(path.as_str()).await.map_err(|error| missing(error, &path))?;
        if found.kind != PathKind::Directory {
            return Err(Fault::invalid(format!("path '{}' is not a directory", path.absolute())));
        }
        let mut watcher = Self {
            path,
            asked,
            seen: Listing::new(),
            _place: place,
        };
        watcher.seen = watcher.list(files).await?;
        Ok(watcher)
    }

    async fn list(&self, files: &SessionFiles) -> Result<Listing, Fault> {
        let depth = if self.asked.recursive { usize::MAX } else { 1 };
        let found = match listing(files, self.path.as_str(), depth).await {
            Err(fault) if fault.status == StatusCode::NOT_FOUND => Listing::new(),
            found => found?,
        };
        if found.len() > MAX_ENTRIES || found.keys().map(String::len).sum::<usize>() > MAX_BYTES {
            let message = format!(
                "directory '{}' has too many entries to be watched, at most {MAX_ENTRIES} with \
                 {MAX_BYTES} bytes of names",
                self.path.absolute(),
            );
            return Err(Fault::new(StatusCode::TOO_MANY_REQUESTS, message));
        }
        Ok(found)
    }

    /// Events since the previous look.
    pub(super) async fn look(&mut self, files: &SessionFiles) -> Result<Vec<Value>, Fault> {
        let now = self.list(files).await?;
        let events = events(&self.seen, &now).into_iter().map(|(path, kind)| {
            let name = path.strip_prefix(self.path.as_str()).unwrap_or(path);
            let name = name.trim_start_matches('/');
            json!({"name": name, "type": format!("EVENT_TYPE_{kind}")})
        });
        let events = events.collect();
        self.seen = now;
        Ok(events)
    }
}

fn unknown(id: &str) -> Fault {
    Fault::not_found(format!("watcher with id {id} not found"))
}

/// The difference between two listings as inotify would name it: paths and event types.
fn events<'a>(before: &'a Listing, now: &'a Listing) -> Vec<(&'a str, &'static str)> {
    let is_same_file = |a: &PathEntry, b: &PathEntry| {
        (a.kind, a.size, a.modified) == (b.kind, b.size, b.modified) && a.kind == PathKind::File
    };
    let is_new = |entry: &&PathEntry| !before.contains_key(&entry.path);
    let mut events = Vec::new();
    for (path, entry) in before.iter().filter(|(path, _)| !now.contains_key(*path)) {
        let is_moved = now.values().filter(is_new).any(|other| is_same_file(entry, other));
        events.push((path.as_str(), if is_moved { "RENAME" } else { "REMOVE" }));
    }
    for (path, entry) in now {
        let path = path.as_str();
        match before.get(path) {
            Some(old) if old == entry => {}
            Some(old) if old.kind == entry.kind => events.push((path, "WRITE")),
            Some(_) => events.extend([(path, "REMOVE"), (path, "CREATE")]),
            None => {
                events.push((path, "CREATE"));
                let gone = before.values().filter(|old| !now.contains_key(&old.path));
                let is_moved = gone.into_iter().any(|old| is_same_file(old, entry));
                if entry.kind == PathKind::File && entry.size > 0 && !is_moved {
                    events.push((path, "WRITE"));
                }
            }
        }
    }
    events
}

/// Files, directories and links by path.
pub(super) type Listing = BTreeMap<String, PathEntry>;

/// Lists a directory.
pub(super) async fn listing(
    files: &SessionFiles,
    dir: &str,
    depth: usize,
) -> Result<Listing, Fault> {
    let found = files.list(dir, depth).await?;
    Ok(found.into_iter().map(|entry| (entry.path.clone(), entry)).collect())
}

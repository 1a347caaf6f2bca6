//! The files of a session's workspace, accessed without a run.

use std::io::Cursor;
use std::time::UNIX_EPOCH;

use belljar::session::{PathEntry, PathKind, SessionFiles};
use napi::bindgen_prelude::Buffer;
use napi_derive::napi;
use serde_json::{Value, json};

use crate::failure::failure;

/// The files of a session.
#[napi]
pub struct Files(pub(crate) SessionFiles);

#[napi]
impl Files {
    /// Reads a file.
    #[napi]
    pub async fn read(&self, path: String) -> napi::Result<Buffer> {
        let bytes = self.0.read(&path, ..).await.map_err(|e| failure(&e))?;
        Ok(bytes.into())
    }

    /// Writes a file.
    #[napi]
    pub async fn write(&self, path: String, bytes: Buffer) -> napi::Result<()> {
        // Copied, because JavaScript may change the buffer meanwhile.
        let bytes = Cursor::new(bytes.to_vec());
        self.0.write(&path, bytes).await.map(drop).map_err(|e| failure(&e))
    }

    /// Lists a directory as JSON.
    #[napi]
    pub async fn list(&self, dir: String, depth: u32) -> napi::Result<String> {
        let depth = usize::try_from(depth).unwrap_or(usize::MAX);
        let entries = self.0.list(&dir, depth).await.map_err(|e| failure(&e))?;
        let entries: Value = entries.iter().map(described).collect();
        Ok(entries.to_string())
    }

    /// Creates a directory and its parents.
    #[napi]
    pub async fn make_dir(&self, path: String) -> napi::Result<()> {
        self.0.make_dir(&path).await.map_err(|e| failure(&e))
    }

    /// Renames a file or a directory.
    #[napi]
    pub async fn rename(&self, from: String, to: String) -> napi::Result<()> {
        self.0.rename(&from, &to).await.map_err(|e| failure(&e))
    }

    /// Removes a file, or a directory with its contents.
    #[napi]
    pub async fn remove(&self, path: String) -> napi::Result<()> {
        self.0.remove(&path).await.map_err(|e| failure(&e))
    }
}

/// The properties of an entry for `index.js`, with times in milliseconds.
fn described(entry: &PathEntry) -> Value {
    let kind = match entry.kind {
        PathKind::Directory => "directory",
        PathKind::Link => "link",
        _ => "file",
    };
    let modified = entry.modified.and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    let modified = modified.map(|since| since.as_secs_f64() * 1e3);
    json!({
        "path": entry.path,
        "kind": kind,
        "size": entry.size,
        "modified": modified,
        "target": entry.target,
    })
}

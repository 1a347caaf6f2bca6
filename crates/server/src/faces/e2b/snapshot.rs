//! A snapshot: a sandbox that is kept as it was.

use std::sync::Arc;

use super::sandbox::Sandbox;
use super::wire::SnapshotInfo;

/// A sandbox that is kept as it was, for others to start from.
#[derive(Clone)]
pub(super) struct Snapshot {
    pub kept: Arc<Sandbox>,
    pub of: String,
    pub name: Option<String>,
}

impl Snapshot {
    pub(super) fn info(&self, id: &str) -> SnapshotInfo {
        let shown = self.name.as_deref().unwrap_or(id);
        SnapshotInfo {
            id: format!("{shown}:default"),
            names: self.name.iter().map(|name| format!("{name}:default")).collect(),
        }
    }

    pub(super) fn is_called(&self, id: &str, called: &str) -> bool {
        let called = called.strip_suffix(":default").unwrap_or(called);
        called == id || self.name.as_deref() == Some(called)
    }
}

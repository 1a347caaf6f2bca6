//! A session as others see it.

use std::collections::BTreeMap;

use serde::Serialize;

/// Activity of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum SessionStatus {
    /// It waits for its next run, in memory.
    Idle,
    /// It is running.
    Running,
    /// It waits for its next run, on the disk.
    Suspended,
    /// Its interpreter was lost and could not be brought back; the next run tries again.
    Failed,
}

/// A session, as it is listed.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct SessionInfo {
    /// Its id.
    pub id: String,
    /// What it is doing.
    pub status: SessionStatus,
    /// Whose default session it is.
    pub client: Option<String>,
    /// Its image.
    pub image: String,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Seconds until its lease ends, if it has one.
    pub lease_seconds: Option<f64>,
    /// Seconds since its last run ended.
    pub idle_seconds: f64,
}

//! Public properties of a session.

use std::collections::BTreeMap;

use serde::Serialize;

/// Status of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum SessionStatus {
    /// In memory, waiting for the next run.
    Idle,
    /// Running.
    Running,
    /// On disk, waiting for the next run.
    Suspended,
    /// The interpreter was lost and could not be restarted. The next run tries again.
    Failed,
}

/// A session in a list.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct SessionInfo {
    /// Id of the session.
    pub id: String,
    /// Status of the session.
    pub status: SessionStatus,
    /// Client whose default session this is.
    pub client: Option<String>,
    /// Name of the image.
    pub image: String,
    /// Labels of the session.
    pub labels: BTreeMap<String, String>,
    /// Seconds until the lease ends, if there is a lease.
    pub lease_seconds: Option<f64>,
    /// Seconds since the end of the last run.
    pub idle_seconds: f64,
}

//! A container as labels of its session.

use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::Fault;
use crate::http::app::App;
use crate::service::error::ServiceError;
use crate::service::owned_session::no_session;
use crate::service::owner::Owner;
use crate::service::session_store::{Access, ClaimedSession, LEASE_MINUTES, Listed};

/// Labels of a container, besides [`LEASE_MINUTES`].
pub(super) const NAME: &str = "container.name";
pub(super) const MEMORY: &str = "container.memory";
/// Digests of the paths of uploaded files.
const UPLOADS: &str = "container.uploads";

/// Maximum number of uploaded files in a container, which labels have room for.
const MAX_UPLOADS: usize = 1_000;
/// Length of a digest.
const DIGEST: usize = 8;

/// The latest time that clients can show.
const LAST_SECOND: u64 = 253_402_300_799;

/// Claims the session of a container.
pub(super) async fn claim(
    app: &App,
    owner: &Owner,
    id: &str,
    access: Access,
) -> Result<ClaimedSession, ServiceError> {
    let session = app.service().claim(owner, id, access).await?;
    if is_container(&session.view().info().labels) {
        Ok(session)
    } else {
        Err(no_session(id))
    }
}

pub(super) fn is_container(labels: &BTreeMap<String, String>) -> bool {
    labels.contains_key(NAME)
}

/// A container in OpenAI's format.
pub(super) fn answer(listed: &Listed) -> Value {
    let label = |name: &str| listed.labels.get(name).map(String::as_str);
    let minutes: Option<u32> = label(LEASE_MINUTES).and_then(|minutes| minutes.parse().ok());
    let now = seconds(SystemTime::now());
    // The lease starts again with each use.
    let unused = match (minutes, listed.lease_seconds) {
        (Some(minutes), Some(left)) => f64::from(minutes) * 60.0 - left,
        _ => listed.idle_seconds,
    };
    let created = seconds(listed.created);
    json!({
        "id": listed.id,
        "object": "container",
        "created_at": created,
        "name": label(NAME),
        "status": "running",
        "expires_after": minutes.map(|minutes| {
            json!({"anchor": "last_active_at", "minutes": minutes})
        }),
        "last_active_at": now.saturating_sub(unused.max(0.0) as u64).max(created),
        "memory_limit": label(MEMORY),
        "network_policy": {"type": "disabled"},
    })
}

/// Seconds since 1970, because guests can set any time of a file.
pub(super) fn seconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs().min(LAST_SECOND)
}

/// The paths that a client has uploaded.
pub(super) struct Uploads(Option<String>);

impl Uploads {
    pub(super) fn of(session: &ClaimedSession) -> Self {
        Self(session.view().info().labels.remove(UPLOADS))
    }

    pub(super) fn has(&self, path: &str) -> bool {
        let digest = digest(path);
        self.digests().any(|known| known == digest.as_bytes())
    }

    fn digests(&self) -> impl Iterator<Item = &[u8]> {
        self.0.as_deref().unwrap_or_default().as_bytes().chunks(DIGEST)
    }
}

/// Records whether a path was uploaded, and returns whether that is new. The caller has the
/// container's turn.
pub(super) fn set_uploaded(
    session: &ClaimedSession,
    path: &str,
    is_uploaded: bool,
) -> Result<bool, Fault> {
    let mut known = session.view().info().labels;
    let uploads = Uploads(known.remove(UPLOADS));
    if uploads.has(path) == is_uploaded {
        return Ok(false);
    }
    if is_uploaded && uploads.digests().count() >= MAX_UPLOADS {
        let message = format!("a container has at most {MAX_UPLOADS} uploaded files");
        return Err(Fault::invalid("too_many_files", message));
    }
    let digest = digest(path);
    let others = uploads.digests().filter(|known| *known != digest.as_bytes());
    let mut all: String = others.filter_map(|known| str::from_utf8(known).ok()).collect();
    if is_uploaded {
        all.push_str(&digest);
    }
    known.insert(UPLOADS.to_owned(), all);
    session.view().set_labels(known)?;
    Ok(true)
}

fn digest(path: &str) -> String {
    let mut text = URL_SAFE_NO_PAD.encode(Sha256::digest(path));
    text.truncate(DIGEST);
    text
}

//! The server's part of a session's record: owner, name, creation time and lease.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use belljar::Session;
use belljar::cluster::StoredInfo;
use belljar::session::LeaseEnd;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::service::owned_session::{Lineage, Origin, OwnedSession};

/// The label of a session whose lease starts again with each use, for so many minutes.
pub(crate) const LEASE_MINUTES: &str = "container.minutes";
/// How long a use may last beyond the lease in the record.
const MAX_USE: Duration = Duration::from_hours(2);

/// The server's part of a session's record.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct SessionRecord {
    pub(super) owner: String,
    pub name: Option<String>,
    /// Milliseconds since 1970.
    pub(super) created: u64,
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// End of its lease in milliseconds since 1970, and whether the session is suspended then
    /// instead of closed.
    #[serde(default)]
    pub(super) lease: Option<(u64, bool)>,
    /// Data of an interface, saved with the state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) note: Option<Value>,
    /// Size of its files in bytes, if counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) bytes: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) lineage: Option<Lineage>,
}

/// Properties of a session to create, other than its state.
pub(in crate::service) struct SessionPlan {
    pub name: Option<String>,
    pub lineage: Option<Lineage>,
    /// Its record in the store; `None` for a session in this process only.
    pub stored: Option<NewRecord>,
    /// Action when the lease expires.
    pub lease_end: Option<LeaseEnd>,
}

/// The record's part of a session to create.
#[derive(Default)]
pub(in crate::service) struct NewRecord {
    pub lease: Option<(Duration, LeaseEnd)>,
    pub note: Option<Value>,
}

impl NewRecord {
    pub(in crate::service) fn leased(lease: Option<(Duration, LeaseEnd)>) -> Self {
        Self { lease, note: None }
    }
}

impl SessionRecord {
    pub(super) fn of(info: &StoredInfo) -> Option<Self> {
        serde_json::from_value(Value::Object(info.about.clone())).ok()
    }

    pub(super) fn text(&self) -> Map<String, Value> {
        match serde_json::to_value(self) {
            Ok(Value::Object(text)) => text,
            _ => Map::new(),
        }
    }

    pub(crate) fn created(&self) -> SystemTime {
        UNIX_EPOCH + Duration::from_millis(self.created)
    }

    pub(crate) fn lease_seconds(&self) -> Option<f64> {
        let (end, _) = self.lease?;
        Some(end.saturating_sub(millis(SystemTime::now())) as f64 / 1000.0)
    }

    /// Whether its lease has expired and closes it.
    pub(super) fn is_closed(&self) -> bool {
        self.lease.is_some_and(|(end, is_kept)| !is_kept && end <= millis(SystemTime::now()))
    }

    /// The same, but a container's lease does not expire during a run: it starts again with each
    /// use, which the record shows only when the use ends.
    pub(super) fn is_over(&self, info: &StoredInfo) -> bool {
        let is_used = info.node.is_some() && self.labels.contains_key(LEASE_MINUTES);
        // A server may have died during the use.
        let is_recent = self.lease.is_some_and(|(end, _)| {
            millis(SystemTime::now()) < end.saturating_add(MAX_USE.as_millis() as u64)
        });
        self.is_closed() && !(is_used && is_recent)
    }

    fn lease_end(&self) -> Option<LeaseEnd> {
        self.lease.map(|(_, is_kept)| {
            if is_kept {
                LeaseEnd::Suspend
            } else {
                LeaseEnd::Close
            }
        })
    }

    /// The rest of its lease.
    pub(super) fn lease_left(&self) -> Option<(Duration, LeaseEnd)> {
        let left = Duration::try_from_secs_f64(self.lease_seconds()?).unwrap_or_default();
        Some((left, self.lease_end()?))
    }

    pub(super) fn owned(&self, session: Session) -> OwnedSession {
        let origin = Origin {
            created: self.created(),
            lineage: self.lineage.clone(),
            lease_end: self.lease_end(),
        };
        OwnedSession::new(session, self.owner.clone(), self.name.clone(), origin)
    }
}

pub(super) fn millis(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64
}

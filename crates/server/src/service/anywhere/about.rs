//! What the record of a session knows of it besides its state: whose it is, since when and for how long.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use belljar::Session;
use belljar::cluster::StoredInfo;
use belljar::session::LeaseEnd;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::service::held::{Held, Origin};

/// What is known of a session besides its state.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct About {
    pub(super) owner: String,
    pub name: Option<String>,
    /// Milliseconds since 1970.
    pub(super) created: u64,
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// When its lease ends, in milliseconds since 1970, and whether it is kept then.
    #[serde(default)]
    pub(super) lease: Option<(u64, bool)>,
    /// What an interface has noted with its state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) note: Option<Value>,
    /// Bytes of its files, where they are counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) bytes: Option<u64>,
}

/// A session that is to be made: everything but how.
pub(in crate::service) struct Making {
    pub name: Option<String>,
    /// What the store knows of it; `None` for a session of this process alone.
    pub stored: Option<NewAbout>,
    /// What becomes of it when its lease is over.
    pub lease_end: Option<LeaseEnd>,
}

/// What the store is told of a session that is to be made.
#[derive(Default)]
pub(in crate::service) struct NewAbout {
    pub lease: Option<(Duration, LeaseEnd)>,
    pub note: Option<Value>,
}

impl NewAbout {
    pub(in crate::service) fn leased(lease: Option<(Duration, LeaseEnd)>) -> Self {
        Self { lease, note: None }
    }
}

impl About {
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

    /// Whether its lease has ended that closes it.
    pub(super) fn is_closed(&self) -> bool {
        self.lease.is_some_and(|(end, is_kept)| !is_kept && end <= millis(SystemTime::now()))
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

    /// What is left of its lease.
    pub(super) fn lease_left(&self) -> Option<(Duration, LeaseEnd)> {
        let left = Duration::try_from_secs_f64(self.lease_seconds()?).unwrap_or_default();
        Some((left, self.lease_end()?))
    }

    pub(super) fn held(&self, session: Session) -> Held {
        let origin = Origin {
            created: self.created(),
            lease_end: self.lease_end(),
        };
        Held::new(session, self.owner.clone(), self.name.clone(), origin)
    }
}

pub(super) fn millis(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64
}

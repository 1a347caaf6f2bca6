//! Listing and expiring sessions in the store without loading them.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use belljar::cluster::{CHUNK_GRACE, StoredInfo, collect_chunks};
use belljar::session::SessionStatus;
use futures_util::{StreamExt, stream};

use super::index::owner_folder;
use super::record::SessionRecord;
use super::{ClaimedSession, SessionStore};
use crate::service::Service;
use crate::service::error::ServiceError;
use crate::service::owned_session::{Lineage, OwnedSession, no_session};
use crate::service::owner::Owner;

/// Maximum number of records read at once.
pub(super) const AT_ONCE: usize = 16;
/// Age from which an index entry without an object is stale, and not just being created.
pub(super) const STRAY: Duration = Duration::from_hours(1);
/// How long this server caches an unused session of the store.
const MAX_STORED: Duration = Duration::from_mins(10);

/// A session in a listing.
pub struct Listed {
    /// Its id, which cannot be guessed.
    pub id: String,
    /// Its name, if set.
    pub name: Option<String>,
    /// Its status as far as this server knows.
    pub status: SessionStatus,
    /// Its image.
    pub image: String,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Time at which it was created, forked or first restored.
    pub created: SystemTime,
    /// Seconds since its last run ended.
    pub idle_seconds: f64,
    /// Seconds until its lease expires, if it has a lease.
    pub lease_seconds: Option<f64>,
    pub(crate) lineage: Option<Lineage>,
    /// Whether it exists only in this process.
    pub(crate) is_local: bool,
}

/// A session's record in the store.
pub(in crate::service) struct Found {
    pub info: StoredInfo,
    pub record: SessionRecord,
}

impl Listed {
    fn local(session: &OwnedSession) -> Self {
        let info = session.view().info();
        Self {
            id: info.id,
            name: session.name().map(str::to_owned),
            status: info.status,
            image: info.image,
            labels: info.labels,
            created: session.created(),
            idle_seconds: info.idle_seconds,
            lease_seconds: info.lease_seconds,
            lineage: session.lineage().cloned(),
            is_local: true,
        }
    }

    fn stored(service: &Service, Found { info, record }: Found) -> Self {
        let idle = SystemTime::now().duration_since(info.used).unwrap_or_default();
        Self {
            status: service.status_of(&info),
            created: record.created(),
            idle_seconds: idle.as_secs_f64(),
            lease_seconds: record.lease_seconds(),
            name: record.name,
            labels: record.labels,
            lineage: record.lineage,
            id: info.id,
            image: info.image,
            is_local: false,
        }
    }
}

impl ClaimedSession {
    /// The listing of a session in use.
    pub(crate) fn listed(&self) -> Listed {
        Listed {
            lease_seconds: self.lease_seconds(),
            ..Listed::local(self)
        }
    }
}

impl Service {
    /// Lists an owner's session by id or name without loading it.
    ///
    /// # Errors
    ///
    /// Returns [`ServiceError::NoSession`] if the session does not exist or belongs to another
    /// owner. Also fails if the store fails.
    pub async fn listed(&self, owner: &Owner, id: &str) -> Result<Listed, ServiceError> {
        match (self.session_store(), self.find(owner, id)) {
            (Some(session_store), Err(ServiceError::NoSession { .. })) => {
                let asked = id;
                let id = session_store.resolve_id(owner, asked).await?;
                let found =
                    session_store.find(owner, &id).await?.ok_or_else(|| no_session(asked))?;
                Ok(Listed::stored(self, found))
            }
            (_, found) => Ok(Listed::local(&found?)),
        }
    }

    /// All sessions of an owner, oldest first.
    ///
    /// # Errors
    ///
    /// Fails if the store fails.
    pub async fn list(&self, owner: &Owner) -> Result<Vec<Listed>, ServiceError> {
        let mut all: Vec<Listed> = self.shared.of_owner(owner).iter().map(Listed::local).collect();
        if let Some(session_store) = self.session_store() {
            let found = session_store.list(owner).await?;
            all.extend(found.into_iter().map(|found| Listed::stored(self, found)));
        }
        all.sort_by(|one, other| (one.created, &one.id).cmp(&(other.created, &other.id)));
        Ok(all)
    }

    /// The status of a session in the store, as far as this server knows.
    fn status_of(&self, info: &StoredInfo) -> SessionStatus {
        match (&info.node, self.shared.runtime.sessions().get(&info.id)) {
            (Some(_), _) => SessionStatus::Running,
            (None, Ok(awake)) => awake.info().status,
            (None, Err(_)) => SessionStatus::Suspended,
        }
    }

    /// Drops cached sessions of the store that are unused.
    pub(in crate::service) fn sweep_kept_sessions(&self) {
        if let Some(session_store) = self.session_store() {
            session_store.sessions.sweep(MAX_STORED);
        }
    }

    /// Removes sessions of the store that no server has used for `idle`, or whose lease has
    /// expired. Lists all sessions, and reads the records of those candidates.
    pub async fn sweep_store(&self, idle: Duration) {
        let Some(session_store) = self.session_store() else {
            return;
        };
        let swept = session_store.sweep(idle).await;
        if let Err(error) = swept {
            tracing::warn!(%error, "cannot remove expired sessions of the store");
        }
    }
}

impl SessionStore {
    /// Reads the record of an owner's session.
    pub(super) async fn find(
        &self,
        owner: &Owner,
        id: &str,
    ) -> Result<Option<Found>, ServiceError> {
        let Some(info) = self.sessions.look(id).await? else {
            return Ok(None);
        };
        let Some(record) = SessionRecord::of(&info).filter(|record| record.owner == owner.name())
        else {
            return Ok(None);
        };
        if record.is_over(&info) {
            self.remove(owner.name(), id, record.name.as_deref()).await?;
            return Ok(None);
        }
        self.remember(id, owner.name());
        Ok(Some(Found { info, record }))
    }

    pub(in crate::service) async fn list(&self, owner: &Owner) -> Result<Vec<Found>, ServiceError> {
        let folder = owner_folder(owner.name());
        let keys = self.sessions.store().list(&folder).await.map_err(belljar::Error::from)?;
        let mut looking = Vec::new();
        for entry in &keys {
            let id = entry.key.rsplit('/').next().unwrap_or_default();
            looking.push(self.find(owner, id));
        }
        let mut looked = stream::iter(looking).buffered(AT_ONCE);
        let mut theirs = Vec::new();
        while let Some(found) = looked.next().await {
            theirs.extend(found?);
        }
        Ok(theirs)
    }

    async fn sweep(&self, idle: Duration) -> Result<(), ServiceError> {
        for id in self.sessions.ids().await? {
            let Some(info) = self.sessions.look(&id).await? else {
                continue;
            };
            let Some(record) = SessionRecord::of(&info) else {
                continue;
            };
            let unused = SystemTime::now().duration_since(info.used).unwrap_or_default();
            if record.is_over(&info) || (unused > idle && info.node.is_none()) {
                self.remove(&record.owner, &id, record.name.as_deref()).await?;
            }
        }
        self.sweep_documents().await?;
        self.sessions.remove_strays(STRAY).await?;
        let collected = collect_chunks(self.sessions.store(), "sessions", CHUNK_GRACE).await;
        tracing::debug!(?collected, "unused chunks of the store were collected");
        collected.map_err(belljar::Error::from)?;
        // Index entries without a session: a server died while creating it.
        let store = self.sessions.store();
        let entries = store.list("owners").await.map_err(belljar::Error::from)?;
        for entry in entries {
            let age = SystemTime::now().duration_since(entry.modified).unwrap_or_default();
            let id = entry.key.rsplit('/').next().unwrap_or_default();
            if age > STRAY && self.sessions.look(id).await?.is_none() {
                store.delete(&entry.key).await.map_err(belljar::Error::from)?;
            }
        }
        Ok(())
    }
}

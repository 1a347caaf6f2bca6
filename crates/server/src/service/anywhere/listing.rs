//! The sessions of the store that there are: listed without waking them, and swept.

use std::time::{Duration, SystemTime};

use belljar::{CHUNK_GRACE, SessionStatus, StoredInfo, collect_chunks};
use futures_util::{StreamExt, stream};

use super::Anywhere;
use super::about::About;
use super::names::owner_folder;
use crate::service::Service;
use crate::service::error::ServiceError;
use crate::service::owner::Owner;

/// Records that are read at the same time.
pub(super) const AT_ONCE: usize = 16;
/// What leads nowhere after so long is not about to.
pub(super) const STRAY: Duration = Duration::from_hours(1);
/// What a node has not used for so long it leaves to the store alone.
const MAX_KEPT: Duration = Duration::from_mins(10);

/// A session of the store, as it is listed.
pub(crate) struct Listed {
    pub info: StoredInfo,
    pub about: About,
}

impl Service {
    /// Somebody's session in the store, without waking it; `None` where it is one of this process, or
    /// there is none.
    pub(crate) async fn listed(
        &self,
        owner: &Owner,
        id: &str,
    ) -> Result<Option<Listed>, ServiceError> {
        let Some(anywhere) = self.anywhere().filter(|_| self.find(owner, id).is_err()) else {
            return Ok(None);
        };
        let id = anywhere.id_of(owner, id).await?;
        anywhere.listed(owner, &id).await
    }

    /// All sessions of somebody in the store.
    pub(crate) async fn list_anywhere(&self, owner: &Owner) -> Result<Vec<Listed>, ServiceError> {
        let Some(anywhere) = self.anywhere() else {
            return Ok(Vec::new());
        };
        anywhere.list(owner).await
    }

    /// What a session of the store does, as far as this node knows.
    pub(crate) fn status_of(&self, info: &StoredInfo) -> SessionStatus {
        match (&info.node, self.shared.runtime.sessions().get(&info.id)) {
            (Some(_), _) => SessionStatus::Running,
            (None, Ok(awake)) => awake.info().status,
            (None, Err(_)) => SessionStatus::Suspended,
        }
    }

    /// Gives up what this node keeps of sessions of the store that nobody uses.
    pub(in crate::service) fn sweep_kept_sessions(&self) {
        if let Some(anywhere) = self.anywhere() {
            anywhere.sessions.sweep(MAX_KEPT);
        }
    }

    /// Removes the sessions of the store that nobody has used for so long on any server, or whose lease
    /// has ended. It reads the records of those, and lists all.
    pub async fn sweep_store(&self, idle: Duration) {
        let Some(anywhere) = self.anywhere() else {
            return;
        };
        let swept = anywhere.sweep(idle).await;
        if let Err(error) = swept {
            tracing::warn!(%error, "the store is not swept");
        }
    }
}

impl Anywhere {
    /// What the store says of somebody's session.
    pub(super) async fn listed(
        &self,
        owner: &Owner,
        id: &str,
    ) -> Result<Option<Listed>, ServiceError> {
        let Some(info) = self.sessions.look(id).await? else {
            return Ok(None);
        };
        let Some(about) = About::of(&info).filter(|about| about.owner == owner.name()) else {
            return Ok(None);
        };
        if about.is_closed() {
            self.remove(owner.name(), id, about.name.as_deref()).await?;
            return Ok(None);
        }
        self.remember(id, owner.name());
        Ok(Some(Listed { info, about }))
    }

    async fn list(&self, owner: &Owner) -> Result<Vec<Listed>, ServiceError> {
        let folder = owner_folder(owner.name());
        let keys = self.sessions.store().list(&folder).await.map_err(belljar::Error::from)?;
        let mut looking = Vec::new();
        for entry in &keys {
            let id = entry.key.rsplit('/').next().unwrap_or_default();
            looking.push(self.listed(owner, id));
        }
        let mut looked = stream::iter(looking).buffered(AT_ONCE);
        let mut theirs = Vec::new();
        while let Some(found) = looked.next().await {
            theirs.extend(found?);
        }
        theirs.sort_by(|one, other| {
            (one.about.created, &one.info.id).cmp(&(other.about.created, &other.info.id))
        });
        Ok(theirs)
    }

    async fn sweep(&self, idle: Duration) -> Result<(), ServiceError> {
        for id in self.sessions.ids().await? {
            let Some(info) = self.sessions.look(&id).await? else {
                continue;
            };
            let Some(about) = About::of(&info) else {
                continue;
            };
            let unused = SystemTime::now().duration_since(info.used).unwrap_or_default();
            if about.is_closed() || (unused > idle && info.node.is_none()) {
                self.remove(&about.owner, &id, about.name.as_deref()).await?;
            }
        }
        self.sweep_documents().await?;
        self.sessions.remove_strays(STRAY).await?;
        let collected = collect_chunks(self.sessions.store(), "sessions", CHUNK_GRACE).await;
        tracing::debug!(?collected, "chunks of the store were looked through");
        collected.map_err(belljar::Error::from)?;
        // What leads to no session: a server died while it made one.
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

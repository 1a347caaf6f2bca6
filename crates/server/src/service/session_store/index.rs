//! Indexes of sessions by owner and name: the folders `owners` and `names`.

use std::collections::HashMap;
use std::sync::MutexGuard;

use belljar::store::{Condition, Put};
use bytes::Bytes;
use data_encoding::HEXLOWER;
use sha2::{Digest, Sha256};

use super::SessionStore;
use crate::lock::lock;
use crate::service::error::ServiceError;
use crate::service::owned_session::{check_name, no_session};
use crate::service::owner::Owner;

/// Maximum number of cached owners. At this number, the cache is cleared.
const MAX_OWNERS: usize = 100_000;
/// Maximum length of an id in an index entry.
const MAX_ID: u64 = 64;

impl SessionStore {
    /// Adds a session to the indexes of its owner and name.
    pub(super) async fn add_to_index(
        &self,
        owner: &Owner,
        id: &str,
        name: Option<&str>,
    ) -> Result<(), ServiceError> {
        let store = self.sessions.store();
        if let Some(name) = name {
            let (key, bytes) = (name_key(owner.name(), name), Bytes::from(id.to_owned()));
            let there = store.get(&key, MAX_ID).await.map_err(belljar::Error::from)?;
            // The entry's session is gone, as checked before. Of two concurrent creators, only one
            // succeeds.
            let condition = there.map_or(Condition::Absent, |blob| Condition::Is(blob.version));
            let put = store.put(&key, bytes, condition).await.map_err(belljar::Error::from)?;
            if put == Put::Refused {
                return Err(ServiceError::NameTaken { name: name.into() });
            }
        }
        let key = format!("{}/{id}", owner_folder(owner.name()));
        let put = store.put(&key, Bytes::new(), Condition::Always).await;
        put.map(drop).map_err(|error| belljar::Error::from(error).into())
    }

    pub(super) async fn remove_from_index(
        &self,
        owner: &str,
        id: &str,
        name: Option<&str>,
    ) -> Result<(), ServiceError> {
        let store = self.sessions.store();
        if let Some(name) = name {
            store.delete(&name_key(owner, name)).await.map_err(belljar::Error::from)?;
        }
        let key = format!("{}/{id}", owner_folder(owner));
        store.delete(&key).await.map_err(|error| belljar::Error::from(error).into())
    }

    /// Resolves an id or name of an owner's session to its id.
    pub(super) async fn resolve_id(&self, owner: &Owner, id: &str) -> Result<String, ServiceError> {
        let known = self.owners().get(id).cloned();
        if known.is_some_and(|known| known == owner.name()) {
            return Ok(id.to_owned());
        }
        if self.find(owner, id).await?.is_some() {
            return Ok(id.to_owned());
        }
        if check_name(id).is_err() {
            return Err(no_session(id));
        }
        self.named(owner, id).await?.ok_or_else(|| no_session(id))
    }

    /// The id of an owner's session with this name.
    pub(in crate::service) async fn named(
        &self,
        owner: &Owner,
        name: &str,
    ) -> Result<Option<String>, ServiceError> {
        let key = name_key(owner.name(), name);
        let found = self.sessions.store().get(&key, MAX_ID).await.map_err(belljar::Error::from)?;
        let Some(id) = found.and_then(|blob| String::from_utf8(blob.bytes.to_vec()).ok()) else {
            return Ok(None);
        };
        Ok(self.find(owner, &id).await?.map(|_| id))
    }

    pub(super) fn owners(&self) -> MutexGuard<'_, HashMap<String, String>> {
        lock(&self.owners)
    }

    pub(super) fn remember(&self, id: &str, owner: &str) {
        let mut owners = self.owners();
        if owners.len() >= MAX_OWNERS {
            owners.clear();
        }
        owners.insert(id.to_owned(), owner.to_owned());
    }
}

/// The index folder of an owner's sessions. Names are hashed, because keys have a limited alphabet.
pub(super) fn owner_folder(owner: &str) -> String {
    format!("owners/{}", hash(owner))
}

fn name_key(owner: &str, name: &str) -> String {
    format!("names/{}/{}", hash(owner), hash(name))
}

pub(super) fn hash(text: &str) -> String {
    HEXLOWER.encode(&Sha256::digest(text)[..16])
}

//! Documents: objects of interfaces in the store, such as sandboxes that consist of several
//! sessions.
//!
//! Each document has an id and is indexed by its owner. Changes are compare-and-swap: a conflicting
//! change is applied again to the newer version.

use std::time::{Duration, SystemTime};

use belljar::store::{Blob, Condition, Entry, Put, Store, StoreError, Version};
use bytes::Bytes;
use futures_util::future::join_all;
use futures_util::{StreamExt, stream};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::SessionStore;
use super::index::hash;
use super::listing::{AT_ONCE, STRAY};
use super::record::millis;
use crate::service::Service;
use crate::service::error::ServiceError;
use crate::service::owner::Owner;

/// Folders of documents and of their owners' index.
const FOLDER: &str = "documents";
const OWNED: &str = "owned";
/// Folder of signing secrets.
const SECRETS: &str = "secrets";
/// Maximum size of a document, in bytes.
const MAX_BYTES: u64 = 4 << 20;
/// Maximum length of an id.
const MAX_ID: usize = 64;
/// Maximum number of attempts to apply a change.
const MAX_TRIES: usize = 100;
/// The end time that marks a document as being removed.
const ENDED: u64 = 0;
/// How long an expired document is left to the servers that use it.
const OVERTIME: Duration = Duration::from_mins(1);

/// A document with its owner and sessions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Document<T> {
    pub owner: String,
    /// The sessions that belong to it.
    pub sessions: Vec<String>,
    /// When it expires, in milliseconds since 1970.
    pub ends: Option<u64>,
    pub content: T,
}

/// The documents of one kind.
#[derive(Clone, Copy)]
pub(crate) struct Documents<'a> {
    session_store: &'a SessionStore,
    kind: &'a str,
}

impl Service {
    /// The documents of one kind, a word of letters; `None` without a store.
    pub(crate) fn documents<'a>(&'a self, kind: &'a str) -> Option<Documents<'a>> {
        Some(Documents {
            session_store: self.session_store()?,
            kind,
        })
    }

    /// A secret shared by all servers of the store; `None` without a store.
    ///
    /// # Errors
    ///
    /// Fails if the store fails.
    pub(crate) async fn secret(&self, name: &str) -> Result<Option<[u8; 64]>, ServiceError> {
        let Some(session_store) = self.session_store() else {
            return Ok(None);
        };
        let (store, key) = (session_store.sessions.store(), format!("{SECRETS}/{name}"));
        let mut new = [0; 64];
        getrandom::fill(&mut new).map_err(|error| failed(&key, error))?;
        // The first value written is valid, whichever server wrote it.
        let put = store.put(&key, Bytes::copy_from_slice(&new), Condition::Absent).await;
        if let Put::Written(_) = put.map_err(belljar::Error::from)? {
            return Ok(Some(new));
        }
        let there = store.get(&key, 64).await.map_err(belljar::Error::from)?;
        let secret = there.and_then(|blob| blob.bytes.as_ref().try_into().ok());
        secret.map(Some).ok_or_else(|| failed(&key, "the secret does not have 64 bytes"))
    }
}

impl Documents<'_> {
    /// Adds a document under an unused id.
    pub(crate) async fn add<T: Serialize>(
        &self,
        id: &str,
        document: &Document<T>,
    ) -> Result<(), ServiceError> {
        let (key, owned) = (self.key(id), self.owned(&document.owner, id));
        let bytes = written(&key, document)?;
        let store = self.store();
        // An index entry without a document is removed later.
        let _ = put(store, &owned, Bytes::new(), Condition::Always).await?;
        match put(store, &key, bytes, Condition::Absent).await? {
            Put::Written(_) => Ok(()),
            Put::Refused => Err(failed(&key, "a document with this id exists already")),
        }
    }

    /// Reads a document by an id that may come from a client.
    pub(crate) async fn read<T: DeserializeOwned>(
        &self,
        id: &str,
    ) -> Result<Option<Document<T>>, ServiceError> {
        Ok(self.find(id).await?.map(|(document, _)| document))
    }

    /// All documents of an owner, with their ids.
    pub(crate) async fn of<T: DeserializeOwned>(
        &self,
        owner: &Owner,
    ) -> Result<Vec<(String, Document<T>)>, ServiceError> {
        let folder = format!("{OWNED}/{}/{}", self.kind, hash(owner.name()));
        let entries = self.store().list(&folder).await.map_err(belljar::Error::from)?;
        let ids: Vec<&str> = entries.iter().map(|entry| last(&entry.key)).collect();
        let looking: Vec<_> =
            ids.into_iter().map(|id| async move { (id, self.read::<T>(id).await) }).collect();
        let mut looked = stream::iter(looking).buffered(AT_ONCE);
        let mut theirs = Vec::new();
        while let Some((id, found)) = looked.next().await {
            if let Some(document) = found?.filter(|document| document.owner == owner.name()) {
                theirs.push((id.to_owned(), document));
            }
        }
        Ok(theirs)
    }

    /// Ids of all documents of this kind.
    pub(crate) async fn ids(&self) -> Result<Vec<String>, ServiceError> {
        let folder = format!("{FOLDER}/{}", self.kind);
        let entries = self.store().list(&folder).await.map_err(belljar::Error::from)?;
        Ok(entries.iter().map(|entry| last(&entry.key).to_owned()).collect())
    }

    /// Changes a document and returns the new version; `None` if the document does not exist. After
    /// a conflict, the change is applied again to the newer version.
    pub(crate) async fn change<T: Serialize + DeserializeOwned>(
        &self,
        id: &str,
        mut change: impl FnMut(&mut Document<T>),
    ) -> Result<Option<Document<T>>, ServiceError> {
        let key = self.key(id);
        for _ in 0..MAX_TRIES {
            let Some((mut document, version)) = self.find(id).await? else {
                return Ok(None);
            };
            change(&mut document);
            let bytes = written(&key, &document)?;
            if let Put::Written(_) = put(self.store(), &key, bytes, Condition::Is(version)).await? {
                return Ok(Some(document));
            }
        }
        Err(failed(&key, "too many conflicting changes"))
    }

    /// Removes a document and its sessions, and interrupts their runs. Returns whether it existed.
    pub(crate) async fn remove(&self, id: &str) -> Result<bool, ServiceError> {
        // Marking it as ended stops concurrent changes from adding sessions, and returns its final
        // sessions.
        let ended = self.change::<Value>(id, |document| document.ends = Some(ENDED)).await?;
        let Some(document) = ended else {
            return Ok(false);
        };
        let sessions = document.sessions.iter();
        let removing = sessions.map(|id| self.session_store.remove(&document.owner, id, None));
        for removed in join_all(removing).await {
            removed?;
        }
        for key in [self.owned(&document.owner, id), self.key(id)] {
            self.store().delete(&key).await.map_err(belljar::Error::from)?;
        }
        Ok(true)
    }

    async fn find<T: DeserializeOwned>(
        &self,
        id: &str,
    ) -> Result<Option<(Document<T>, Version)>, ServiceError> {
        if !is_plain(id) {
            return Ok(None);
        }
        let key = self.key(id);
        let found = self.store().get(&key, MAX_BYTES).await.map_err(belljar::Error::from)?;
        let Some(Blob { bytes, version }) = found else {
            return Ok(None);
        };
        let document: Document<T> =
            serde_json::from_slice(&bytes).map_err(|error| failed(&key, error))?;
        Ok((document.ends != Some(ENDED)).then_some((document, version)))
    }

    fn store(&self) -> &dyn Store {
        &**self.session_store.sessions.store()
    }

    fn key(&self, id: &str) -> String {
        format!("{FOLDER}/{}/{id}", self.kind)
    }

    fn owned(&self, owner: &str, id: &str) -> String {
        format!("{OWNED}/{}/{}/{id}", self.kind, hash(owner))
    }
}

impl SessionStore {
    /// Removes expired documents that no server looked after, documents whose sessions are all
    /// gone, and stale index entries.
    pub(super) async fn sweep_documents(&self) -> Result<(), ServiceError> {
        let store = self.sessions.store();
        for entry in store.list(FOLDER).await.map_err(belljar::Error::from)? {
            let Some((documents, id)) = self.kind_and_id(&entry.key, FOLDER) else {
                continue;
            };
            let Some(document) = documents.read::<Value>(id).await? else {
                if is_older(&entry, STRAY) {
                    store.delete(&entry.key).await.map_err(belljar::Error::from)?;
                }
                continue;
            };
            let end = document.ends.map(|end| end.saturating_add(OVERTIME.as_millis() as u64));
            let is_over = end.is_some_and(|end| end <= millis(SystemTime::now()));
            let may_be_left = !document.sessions.is_empty() && is_older(&entry, STRAY);
            if is_over || (may_be_left && !self.has_any(&document.sessions).await?) {
                documents.remove(id).await?;
            }
        }
        for entry in store.list(OWNED).await.map_err(belljar::Error::from)? {
            let Some((documents, id)) = self.kind_and_id(&entry.key, OWNED) else {
                continue;
            };
            if is_older(&entry, STRAY) && documents.read::<Value>(id).await?.is_none() {
                store.delete(&entry.key).await.map_err(belljar::Error::from)?;
            }
        }
        Ok(())
    }

    /// Parses a key in a folder: `FOLDER/KIND/.../ID`.
    fn kind_and_id<'a>(&'a self, key: &'a str, folder: &str) -> Option<(Documents<'a>, &'a str)> {
        let (kind, rest) = key.strip_prefix(folder)?.strip_prefix('/')?.split_once('/')?;
        let documents = Documents {
            session_store: self,
            kind,
        };
        Some((documents, last(rest)))
    }

    async fn has_any(&self, sessions: &[String]) -> Result<bool, ServiceError> {
        for id in sessions {
            if self.sessions.look(id).await?.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

fn is_older(entry: &Entry, time: Duration) -> bool {
    SystemTime::now().duration_since(entry.modified).unwrap_or_default() > time
}

/// The id at the end of a key.
fn last(key: &str) -> &str {
    key.rsplit('/').next().unwrap_or_default()
}

/// Whether a text is a valid id. A client's id must not contain separators of keys.
fn is_plain(id: &str) -> bool {
    let may_be = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    (1..=MAX_ID).contains(&id.len()) && id.chars().all(may_be)
}

fn written<T: Serialize>(key: &str, document: &Document<T>) -> Result<Bytes, ServiceError> {
    let bytes = serde_json::to_vec(document).map_err(|error| failed(key, error))?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(failed(key, format!("the document has more than {MAX_BYTES} bytes")));
    }
    Ok(bytes.into())
}

async fn put(
    store: &dyn Store,
    key: &str,
    bytes: Bytes,
    condition: Condition,
) -> Result<Put, ServiceError> {
    Ok(store.put(key, bytes, condition).await.map_err(belljar::Error::from)?)
}

fn failed(key: &str, why: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> ServiceError {
    belljar::Error::from(StoreError::failed("keep", key)(why)).into()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use belljar::Runtime;
    use belljar::cluster::{NodeOptions, StoredSessions};
    use belljar::store::MemoryStore;
    use futures_util::FutureExt;

    use super::*;
    use crate::service::owner::KeyLimits;

    /// Two servers of one store.
    fn two() -> [Service; 2] {
        let store = Arc::new(MemoryStore::default());
        let runtime = Runtime::builder().environment().build().unwrap();
        [(); 2].map(|()| {
            let (runtime, store) = (runtime.clone(), Arc::clone(&store));
            let options = NodeOptions::default();
            let sessions = StoredSessions::new(runtime.clone(), store, options).unwrap();
            Service::builder(runtime).stored(sessions).build()
        })
    }

    fn document(ends: Option<u64>) -> Document<u64> {
        Document {
            owner: "ada".into(),
            sessions: Vec::new(),
            ends,
            content: 0,
        }
    }

    #[tokio::test]
    async fn changes_are_seen_everywhere_and_found_by_their_owner() {
        let services = two();
        services[0].documents("k").unwrap().add("d", &document(None)).await.unwrap();
        for at in 0..20 {
            let documents = services[at % 2].documents("k").unwrap();
            let changed = documents.change::<u64>("d", |document| document.content += 1).await;
            assert_eq!(changed.unwrap().unwrap().content, at as u64 + 1);
        }
        let [ada, bob] = ["ada", "bob"].map(|name| Owner::new(name, KeyLimits::default()));
        let documents = services[1].documents("k").unwrap();
        let theirs = documents.of::<u64>(&ada).await.unwrap();
        assert_eq!((theirs.len(), theirs[0].0.as_str(), theirs[0].1.content), (1, "d", 20));
        assert!(documents.of::<u64>(&bob).await.unwrap().is_empty());
        assert!(documents.add("d", &document(None)).await.is_err(), "there is one");
        assert!(services[1].documents("other").unwrap().read::<u64>("d").await.unwrap().is_none());
    }

    #[tokio::test]
    async fn whoever_was_slower_changes_what_is_there_then() {
        let [one, other] = two();
        let [one, other] = [&one, &other].map(|service| service.documents("k").unwrap());
        one.add("d", &document(None)).await.unwrap();
        let mut is_first = true;
        let changed = one.change::<u64>("d", |document| {
            if std::mem::replace(&mut is_first, false) {
                // The store is in memory, so the future completes without waiting.
                let faster = other.change::<u64>("d", |document| document.content += 10);
                assert!(faster.now_or_never().unwrap().unwrap().is_some());
            }
            document.content += 1;
        });
        assert_eq!(changed.await.unwrap().unwrap().content, 11);
        assert_eq!(other.read::<u64>("d").await.unwrap().unwrap().content, 11);
    }

    #[tokio::test]
    async fn what_was_removed_is_gone_everywhere() {
        let [one, other] = two();
        one.documents("k").unwrap().add("d", &document(None)).await.unwrap();
        assert!(other.documents("k").unwrap().remove("d").await.unwrap());
        assert!(!one.documents("k").unwrap().remove("d").await.unwrap());
        let changed = one.documents("k").unwrap().change::<u64>("d", |_| {}).await.unwrap();
        assert!(changed.is_none());
        assert!(one.documents("k").unwrap().ids().await.unwrap().is_empty());
        let store = one.session_store().unwrap().sessions.store();
        assert!(store.list("").await.unwrap().is_empty());
    }

    #[tokio::test]
    async fn an_id_leads_nowhere_else() {
        let [service, _] = two();
        let documents = service.documents("k").unwrap();
        documents.add("d", &document(None)).await.unwrap();
        for id in ["", ".", "../k/d", "d/", "k/d", "ä", "a b", &"a".repeat(65)] {
            assert!(documents.read::<u64>(id).await.unwrap().is_none(), "{id}");
            assert!(!documents.remove(id).await.unwrap(), "{id}");
        }
    }

    #[tokio::test]
    async fn those_whose_time_is_over_are_swept() {
        let [service, _] = two();
        let documents = service.documents("k").unwrap();
        let later = millis(SystemTime::now()) + 60_000;
        for (id, ends) in [("over", Some(1)), ("later", Some(later)), ("never", None)] {
            documents.add(id, &document(ends)).await.unwrap();
        }
        service.session_store().unwrap().sweep_documents().await.unwrap();
        assert_eq!(documents.ids().await.unwrap(), ["later", "never"]);
    }

    #[tokio::test]
    async fn servers_of_a_store_have_one_secret() {
        let [one, other] = two();
        let secret = one.secret("s").await.unwrap();
        assert!(secret.is_some());
        assert_eq!(other.secret("s").await.unwrap(), secret);
        assert_ne!(other.secret("t").await.unwrap(), secret);
        let alone = Service::new(one.runtime().clone());
        assert_eq!(alone.secret("s").await.unwrap(), None);
    }
}

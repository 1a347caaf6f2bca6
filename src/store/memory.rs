//! A store in the memory of this process, for tests and single processes.

use std::collections::BTreeMap;
use std::future::ready;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use bytes::Bytes;

use super::{
    Answer, Blob, Condition, Entry, Put, Store, StoreError, check_folder, check_key, is_in,
    version_of,
};

/// Stores bytes under keys, in memory.
#[derive(Debug, Default)]
pub struct MemoryStore {
    all: Mutex<BTreeMap<String, (Blob, SystemTime)>>,
}

impl MemoryStore {
    /// Creates an empty store.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    fn all(&self) -> MutexGuard<'_, BTreeMap<String, (Blob, SystemTime)>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn read(&self, key: &str, max: u64) -> Result<Option<Blob>, StoreError> {
        check_key(key)?;
        let found = self.all().get(key).map(|(blob, _)| blob.clone());
        if found.as_ref().is_some_and(|blob| blob.bytes.len() as u64 > max) {
            let key = key.to_owned();
            return Err(StoreError::TooLarge { key, max });
        }
        Ok(found)
    }

    fn write(&self, key: &str, bytes: Bytes, condition: &Condition) -> Result<Put, StoreError> {
        check_key(key)?;
        let mut all = self.all();
        let there = all.get(key).map(|(blob, _)| &blob.version);
        let holds = match condition {
            Condition::Always => true,
            Condition::Absent => there.is_none(),
            Condition::Is(version) => there == Some(version),
        };
        if !holds {
            return Ok(Put::Refused);
        }
        let version = version_of(&bytes);
        let blob = Blob {
            bytes,
            version: version.clone(),
        };
        all.insert(key.to_owned(), (blob, SystemTime::now()));
        Ok(Put::Written(version))
    }

    fn entries(&self, folder: &str) -> Result<Vec<Entry>, StoreError> {
        check_folder(folder)?;
        let all = self.all();
        let found = all.iter().filter(|(key, _)| is_in(key, folder));
        Ok(found
            .map(|(key, (blob, modified))| Entry {
                key: key.clone(),
                size: blob.bytes.len() as u64,
                modified: *modified,
            })
            .collect())
    }

    fn remove(&self, key: &str) -> Result<(), StoreError> {
        check_key(key)?;
        self.all().remove(key);
        Ok(())
    }
}

impl Store for MemoryStore {
    fn get<'a>(&'a self, key: &'a str, max: u64) -> Answer<'a, Option<Blob>> {
        Box::pin(ready(self.read(key, max)))
    }

    fn put<'a>(&'a self, key: &'a str, bytes: Bytes, condition: Condition) -> Answer<'a, Put> {
        Box::pin(ready(self.write(key, bytes, &condition)))
    }

    fn list<'a>(&'a self, folder: &'a str) -> Answer<'a, Vec<Entry>> {
        Box::pin(ready(self.entries(folder)))
    }

    fn delete<'a>(&'a self, key: &'a str) -> Answer<'a, ()> {
        Box::pin(ready(self.remove(key)))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::store::check_contract;

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn it_keeps_the_contract() {
        check_contract(Arc::new(MemoryStore::new())).await.unwrap();
    }
}

//! Which chunks of a store nobody names any more, and how they go while others write.
//!
//! A chunk that no manifest names is condemned: its name is written down for all to see. It is removed by
//! a later collection, [`CHUNK_GRACE`] afterwards, if no manifest names it by then. Whoever writes a session
//! looks first at what is condemned; of what is not he knows that it stays for that long, which is
//! longer than he takes. What is condemned and there he has struck off before he counts on it: by
//! replacing what was written down, which only one of two can do who have read the same.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use serde::{Deserialize, Serialize};
use tokio::task::JoinSet;

use super::format::{MAGIC, Name};
use super::second;
use crate::hex;
use crate::limits::{MAX_CHECKPOINT_MANIFEST, MAX_CONDEMNED};
use crate::store::{Condition, Put, Store, StoreError, Version};

/// The folder of all chunks of a store.
pub(super) const CHUNKS: &str = "chunks";
/// What is condemned.
const CONDEMNED: &str = "condemned";
/// For how long a chunk that nobody names is left where it is.
pub const CHUNK_GRACE: Duration = Duration::from_hours(1);

/// The bytes of the longest list: names of 64 hexadecimal digits in quotes, and what stands before them.
const MAX_CONDEMNED_BYTES: u64 = 67 * MAX_CONDEMNED as u64 + 256;
const MAX_MANIFEST_BYTES: u64 = MAX_CHECKPOINT_MANIFEST as u64 + 64;
/// Requests to the store at the same time.
const AT_ONCE: usize = 16;
/// How often a collection begins anew because somebody struck something off.
const MAX_TRIES: usize = 8;
/// For how long a chunk is waited for that is being removed.
const MAX_WAIT: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(50);

/// What a collection found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Collected {
    /// Chunks that are there.
    pub chunks: usize,
    /// Those of them that some session names.
    pub named: usize,
    /// Those that were removed.
    pub removed: usize,
    /// Chunks that the next collection may remove, unless a state names them by then: at most 32,768.
    /// Further unnamed chunks wait for later collections.
    pub condemned: usize,
}

/// What is written down of condemned chunks.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    /// Since when they are, or are being removed.
    since: SystemTime,
    /// Whether they are being removed.
    removing: bool,
    /// What no other list has, so that no two are the same.
    mark: String,
    chunks: BTreeSet<Name>,
}

/// The key of a chunk.
pub(super) fn key(name: Name) -> String {
    let name = name.to_string();
    format!("{CHUNKS}/{}/{name}", &name[..2])
}

/// Removes chunks that no session names whose state is in `folder` or below it: those that an earlier
/// collection has condemned, `grace` before. That is [`CHUNK_GRACE`], unless it is certain that nobody writes
/// meanwhile. All sessions that share the store's chunks have to be in the folder, and the clocks of
/// whoever collects must not be apart by more than half of that.
///
/// # Errors
///
/// When the store fails. Nothing is lost then.
pub async fn collect_chunks(
    store: &Arc<dyn Store>,
    folder: &str,
    grace: Duration,
) -> Result<Collected, StoreError> {
    for _ in 0..MAX_TRIES {
        if let Some(collected) = collect(store, folder, grace, MAX_CONDEMNED).await? {
            return Ok(collected);
        }
    }
    let busy = "others strike off chunks all the time";
    Err(StoreError::failed("collect chunks of", CONDEMNED)(busy))
}

/// Condemns at most `max` chunks. `None` where somebody else has changed the list meanwhile.
async fn collect(
    store: &Arc<dyn Store>,
    folder: &str,
    grace: Duration,
    max: usize,
) -> Result<Option<Collected>, StoreError> {
    let (version, list) = read(&**store).await?.unzip();
    let age = |since: SystemTime| since.elapsed().unwrap_or_default();
    let is_due = list.as_ref().is_some_and(|list| age(list.since) >= grace);
    if list.as_ref().is_some_and(|list| list.removing) && !is_due {
        let busy = "another collection has begun to remove chunks";
        return Err(StoreError::failed("collect chunks of", CONDEMNED)(busy));
    }
    // Before the manifests: what is written later is named by one of those, or by a later one.
    let mut there = BTreeSet::new();
    for entry in store.list(CHUNKS).await? {
        let name = entry.key.rsplit('/').next().and_then(hex::decode).map(Name);
        there.extend(name);
    }
    let named = named(store, folder).await?;
    let is_needed = |name: &Name| named.contains(name);
    let mut collected = Collected {
        chunks: there.len(),
        named: there.iter().filter(|name| is_needed(name)).count(),
        ..Collected::default()
    };
    let mut version = version;
    if let Some(list) = list {
        if !is_due {
            let waiting = list.chunks.iter().filter(|name| !is_needed(name)).count();
            collected.condemned = waiting;
            return Ok(Some(collected));
        }
        let doomed: BTreeSet<Name> = list
            .chunks
            .into_iter()
            .filter(|name| there.contains(name) && !is_needed(name))
            .collect();
        if !doomed.is_empty() {
            let Some(taken) = write(&**store, version, true, doomed.clone()).await? else {
                return Ok(None);
            };
            collected.removed = remove(store, &doomed, grace.max(CHUNK_GRACE) / 4).await?;
            version = Some(taken);
            there.retain(|name| !doomed.contains(name));
        }
    }
    let condemned: BTreeSet<Name> =
        there.into_iter().filter(|name| !is_needed(name)).take(max).collect();
    collected.condemned = condemned.len();
    if write(&**store, version, false, condemned).await?.is_none() {
        return Ok(None);
    }
    Ok(Some(collected))
}

/// Removes chunks, for so long and no longer: afterwards somebody else may have taken it over.
async fn remove(
    store: &Arc<dyn Store>,
    doomed: &BTreeSet<Name>,
    time: Duration,
) -> Result<usize, StoreError> {
    let begun = Instant::now();
    let (mut under_way, mut removed) = (JoinSet::new(), 0);
    let mut next = doomed.iter();
    loop {
        while under_way.len() < AT_ONCE
            && let Some(name) = next.next()
        {
            if begun.elapsed() > time {
                let late = "it took too long, and is left to a later collection";
                return Err(StoreError::failed("remove chunks of", CHUNKS)(late));
            }
            let (store, key) = (Arc::clone(store), key(*name));
            under_way.spawn(async move { store.delete(&key).await });
        }
        let Some(done) = under_way.join_next().await else {
            return Ok(removed);
        };
        done.map_err(StoreError::failed("remove chunks of", CHUNKS))??;
        removed += 1;
    }
}

/// All chunks that states in a folder name.
async fn named(store: &Arc<dyn Store>, folder: &str) -> Result<HashSet<Name>, StoreError> {
    let (mut named, mut seen) = (HashSet::new(), HashSet::new());
    loop {
        let entries = store.list(folder).await?;
        let fresh: Vec<String> = entries
            .into_iter()
            .map(|entry| entry.key)
            .filter(|key| seen.insert(key.clone()))
            .collect();
        let mut is_whole = true;
        for batch in fresh.chunks(AT_ONCE) {
            let mut under_way = JoinSet::new();
            for key in batch {
                let (store, key) = (Arc::clone(store), key.clone());
                under_way.spawn(async move {
                    let blob = store.get(&key, MAX_MANIFEST_BYTES).await;
                    (key, blob)
                });
            }
            while let Some(read) = under_way.join_next().await {
                let (key, blob) = read.map_err(StoreError::failed("read states in", folder))?;
                let blob = match blob {
                    // A state that has its chunks in it.
                    Err(StoreError::TooLarge { .. }) => continue,
                    blob => blob?,
                };
                let Some(blob) = blob else {
                    is_whole = false;
                    continue;
                };
                if !blob.bytes.starts_with(MAGIC) {
                    continue;
                }
                // Of one that cannot be read nobody knows what it needs.
                let Ok((manifest, _)) = second::manifest(&*blob.bytes, true) else {
                    let unread = "it is no manifest that this version reads";
                    return Err(StoreError::failed("read the state", key)(unread));
                };
                named.extend(manifest.chunks.into_iter().map(|(name, _)| name));
            }
        }
        // A state that went while others were read was replaced by one that the next list has.
        if is_whole {
            return Ok(named);
        }
    }
}

/// The chunks that are condemned just now.
pub(super) async fn condemned(store: &dyn Store) -> Result<BTreeSet<Name>, StoreError> {
    Ok(read(store).await?.map(|(_, list)| list.chunks).unwrap_or_default())
}

/// Sees to it that a chunk is not condemned any more. It may have been removed by then.
pub(super) async fn rescue(store: &dyn Store, name: Name) -> Result<(), StoreError> {
    let begun = Instant::now();
    loop {
        let Some((version, mut list)) = read(store).await? else {
            return Ok(());
        };
        if !list.chunks.remove(&name) {
            return Ok(());
        }
        if !list.removing {
            if write_list(store, Some(version), list).await?.is_some() {
                return Ok(());
            }
        } else if begun.elapsed() > MAX_WAIT {
            let stuck = "a collection that removes it does not come to its end";
            return Err(StoreError::failed("keep the chunk", key(name))(stuck));
        } else {
            tokio::time::sleep(POLL).await;
        }
    }
}

async fn read(store: &dyn Store) -> Result<Option<(Version, List)>, StoreError> {
    let Some(blob) = store.get(CONDEMNED, MAX_CONDEMNED_BYTES).await? else {
        return Ok(None);
    };
    let list =
        serde_json::from_slice(&blob.bytes).map_err(StoreError::failed("read", CONDEMNED))?;
    Ok(Some((blob.version, list)))
}

async fn write(
    store: &dyn Store,
    version: Option<Version>,
    removing: bool,
    chunks: BTreeSet<Name>,
) -> Result<Option<Version>, StoreError> {
    let list = List {
        since: SystemTime::now(),
        removing,
        mark: String::new(),
        chunks,
    };
    write_list(store, version, list).await
}

/// Replaces the list that was read; `None` when it is another by now.
async fn write_list(
    store: &dyn Store,
    version: Option<Version>,
    mut list: List,
) -> Result<Option<Version>, StoreError> {
    let mut mark = [0; 8];
    let failed = |e: getrandom::Error| StoreError::failed("write", CONDEMNED)(e.to_string());
    getrandom::fill(&mut mark).map_err(failed)?;
    list.mark = hex::encode(&mark);
    let bytes = serde_json::to_vec(&list).map_err(StoreError::failed("write", CONDEMNED))?;
    let condition = version.map_or(Condition::Absent, Condition::Is);
    Ok(match store.put(CONDEMNED, bytes.into(), condition).await? {
        Put::Written(version) => Some(version),
        Put::Refused => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::MemoryStore;

    fn name(number: usize) -> Name {
        Name::of(&number.to_le_bytes())
    }

    async fn with_chunks(count: usize) -> Arc<dyn Store> {
        let store = MemoryStore::new();
        for number in 0..count {
            let put = store.put(&key(name(number)), "x".into(), Condition::Absent).await.unwrap();
            assert_ne!(put, Put::Refused);
        }
        Arc::new(store)
    }

    #[tokio::test]
    async fn the_longest_list_that_is_written_can_be_read() {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let chunks: BTreeSet<Name> = (0..MAX_CONDEMNED).map(name).collect();
        write(&*store, None, false, chunks).await.unwrap().unwrap();
        assert_eq!(condemned(&*store).await.unwrap().len(), MAX_CONDEMNED);
        rescue(&*store, name(0)).await.unwrap();
        assert_eq!(condemned(&*store).await.unwrap().len(), MAX_CONDEMNED - 1);
    }

    #[tokio::test]
    async fn more_chunks_than_a_list_has_go_in_several_collections() {
        let store = with_chunks(100).await;
        let mut left = 100;
        let mut collections = 0;
        while left > 0 {
            let collected = collect(&store, "sessions", Duration::ZERO, 30).await.unwrap().unwrap();
            assert!(collected.condemned <= 30 && collected.removed <= 30, "{collected:?}");
            left -= collected.removed;
            assert_eq!(store.list(CHUNKS).await.unwrap().len(), left);
            collections += 1;
            assert!(collections <= 5, "{collected:?}");
        }
    }
}

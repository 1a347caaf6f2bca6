//! Garbage collection of a store's chunks, concurrent with writers.
//!
//! A chunk that no manifest names is condemned: its name is added to a list in the store. A later
//! collection removes it at least [`CHUNK_GRACE`] afterwards, if still no manifest names it.
//!
//! A writer first reads the list. A chunk that is not listed stays for [`CHUNK_GRACE`], which is
//! longer than a save may take. To use a condemned chunk, the writer strikes it off the list with a
//! conditional write, which only one of two concurrent writers can win. A writer never writes at a
//! key that is being removed, or was removed in the last collection: it writes another copy
//! (`session/checkpoint/chunk_key.rs`). So a removal that the store applies late or twice cannot
//! hit a chunk written since.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::task::JoinSet;

use super::boot_clock::Since;
use super::condemned::{CHUNK_GRACE, CONDEMNED, read, write};
use super::save::{AT_ONCE, MAX_HEAD};
use crate::limits::MAX_CONDEMNED;
use crate::session::checkpoint::chunk_key::{CHUNKS, Copy};
use crate::session::checkpoint::{Name, is_manifest, named_chunks};
use crate::store::{Store, StoreError};

/// Number of times that a collection restarts because a writer has changed the list.
const MAX_TRIES: usize = 8;

/// Result of a garbage collection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Collected {
    /// Number of existing chunks.
    pub chunks: usize,
    /// Number of these that a session names.
    pub named: usize,
    /// Number of removed chunks.
    pub removed: usize,
    /// Number of chunks that the next collection may remove, unless a state names them by then: at
    /// most 32,768. Further unnamed chunks wait for later collections.
    pub condemned: usize,
}

/// Removes unused chunks: those that an earlier collection has condemned at least `grace` ago and
/// that no session state in `folder` or below names. Use [`CHUNK_GRACE`], unless no writer can be
/// active. The folder must contain all sessions that share the store's chunks. The clocks of all
/// collecting nodes must differ by at most half of `grace`.
///
/// # Errors
///
/// If the store fails. No data is lost then.
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

/// Runs one collection and condemns at most `max` chunks. Returns `None` if another process has
/// changed the list meanwhile.
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
    // Listed before the manifests are read: a chunk written later is named by one of them or by a
    // later one.
    let mut there = BTreeSet::new();
    for entry in store.list(CHUNKS).await? {
        there.extend(Copy::at(&entry.key));
    }
    let named = named(store, folder).await?;
    let is_needed = |copy: &Copy| named.contains(&copy.name);
    let mut collected = Collected {
        chunks: there.len(),
        named: there.iter().filter(|copy| is_needed(copy)).count(),
        ..Collected::default()
    };
    let (mut version, mut gone) = (version, BTreeSet::new());
    if let Some(list) = list {
        if !is_due {
            let waiting = list.chunks.iter().filter(|copy| !is_needed(copy)).count();
            collected.condemned = waiting;
            return Ok(Some(collected));
        }
        let doomed: BTreeSet<Copy> = list
            .chunks
            .into_iter()
            .filter(|copy| there.contains(copy) && !is_needed(copy))
            .collect();
        if !doomed.is_empty() {
            let taken = write(&**store, version, true, (doomed.clone(), BTreeSet::new())).await?;
            let Some(taken) = taken else {
                return Ok(None);
            };
            collected.removed = remove(store, &doomed, grace.max(CHUNK_GRACE) / 4).await?;
            version = Some(taken);
            there.retain(|copy| !doomed.contains(copy));
            gone = doomed;
        }
    }
    let condemned: BTreeSet<Copy> =
        there.into_iter().filter(|copy| !is_needed(copy)).take(max).collect();
    collected.condemned = condemned.len();
    if write(&**store, version, false, (condemned, gone)).await?.is_none() {
        return Ok(None);
    }
    Ok(Some(collected))
}

/// Removes chunks for a limited time: afterwards another collector may have taken over the list.
async fn remove(
    store: &Arc<dyn Store>,
    doomed: &BTreeSet<Copy>,
    time: Duration,
) -> Result<usize, StoreError> {
    let begun = Since::now();
    let (mut under_way, mut removed) = (JoinSet::new(), 0);
    let mut next = doomed.iter();
    loop {
        while under_way.len() < AT_ONCE
            && let Some(copy) = next.next()
        {
            if begun.elapsed() > time {
                let late = "it took too long, and is left to a later collection";
                return Err(StoreError::failed("remove chunks of", CHUNKS)(late));
            }
            let (store, key) = (Arc::clone(store), copy.key());
            under_way.spawn(async move { store.delete(&key).await });
        }
        let Some(done) = under_way.join_next().await else {
            return Ok(removed);
        };
        done.map_err(StoreError::failed("remove chunks of", CHUNKS))??;
        removed += 1;
    }
}

/// Returns all chunks that the states in a folder name.
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
                    let blob = store.get(&key, MAX_HEAD).await;
                    (key, blob)
                });
            }
            while let Some(read) = under_way.join_next().await {
                let (key, blob) = read.map_err(StoreError::failed("read states in", folder))?;
                let blob = match blob {
                    // The state contains its chunks.
                    Err(StoreError::TooLarge { .. }) => continue,
                    blob => blob?,
                };
                let Some(blob) = blob else {
                    is_whole = false;
                    continue;
                };
                if !is_manifest(&blob.bytes) {
                    continue;
                }
                // The chunks that an unreadable manifest needs are unknown.
                let Some(chunks) = named_chunks(&blob.bytes) else {
                    let unread = "it is no manifest that this version reads";
                    return Err(StoreError::failed("read the state", key)(unread));
                };
                named.extend(chunks);
            }
        }
        // A state that disappeared during the scan was replaced by a state in the next listing.
        if is_whole {
            return Ok(named);
        }
    }
}

#[cfg(test)]
mod tests;

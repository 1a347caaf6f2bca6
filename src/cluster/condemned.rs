//! The list of a store's condemned chunks: the writers' part of garbage collection, which
//! `garbage.rs` describes.

use std::collections::{BTreeSet, HashSet};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use data_encoding::HEXLOWER;
use serde::{Deserialize, Serialize};

use crate::limits::MAX_CONDEMNED;
use crate::session::checkpoint::Name;
use crate::session::checkpoint::chunk_key::Copy;
use crate::store::{Condition, Put, Store, StoreError, Version};

/// Key of the list of condemned chunks.
pub(crate) const CONDEMNED: &str = "condemned";
/// How long an unused chunk is kept before its removal.
pub const CHUNK_GRACE: Duration = Duration::from_hours(1);
/// Maximum size of the lists, in bytes: names of 64 hexadecimal digits with the number of the copy,
/// in quotes, and a prefix.
const MAX_CONDEMNED_BYTES: u64 = 2 * 69 * MAX_CONDEMNED as u64 + 256;

/// The list of condemned chunks.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct List {
    /// Time at which the chunks were condemned, or their removal began.
    pub since: SystemTime,
    /// Whether the chunks are being removed.
    pub removing: bool,
    /// Random text that makes each list unique.
    pub mark: String,
    pub chunks: BTreeSet<Copy>,
    /// Chunks that the last collection has removed. Writers must not use their keys.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub removed: BTreeSet<Copy>,
}

/// Returns the chunks on the current list: condemned, being removed, or removed.
pub(crate) async fn listed(
    store: &dyn Store,
) -> Result<(BTreeSet<Copy>, BTreeSet<Copy>), StoreError> {
    Ok(read(store).await?.map(|(_, list)| (list.chunks, list.removed)).unwrap_or_default())
}

/// Strikes off condemned chunks that a manifest relies on. Returns whether all of them stay: chunks
/// that are being removed, or that left the list since it was read, do not.
pub(crate) async fn keep(store: &dyn Store, names: &HashSet<Name>) -> Result<bool, StoreError> {
    loop {
        let Some((version, mut list)) = read(store).await? else {
            return Ok(false);
        };
        let on_it: HashSet<Name> = list.chunks.iter().map(|copy| copy.name).collect();
        if list.removing || !names.is_subset(&on_it) {
            return Ok(false);
        }
        list.chunks.retain(|copy| !names.contains(&copy.name));
        if write_list(store, Some(version), list).await?.is_some() {
            return Ok(true);
        }
    }
}

/// Writes a chunk at a key that no collection removes within [`CHUNK_GRACE`]. Returns its size if
/// it was missing. `is_listed` says whether its first copy was on the list when it was last read.
pub(crate) async fn put(
    to: &dyn Store,
    name: Name,
    bytes: Bytes,
    is_listed: bool,
) -> Result<Option<u64>, StoreError> {
    let copy = if is_listed {
        spared(to, name).await?
    } else {
        Copy::first(name)
    };
    let length = bytes.len() as u64;
    let put = to.put(&copy.key(), bytes, Condition::Absent).await?;
    Ok(matches!(put, Put::Written(_)).then_some(length))
}

/// Returns the first copy of a chunk that is not being removed and was not just removed. A
/// condemned copy is struck off the list. The copy need not exist.
async fn spared(store: &dyn Store, name: Name) -> Result<Copy, StoreError> {
    loop {
        let Some((version, mut list)) = read(store).await? else {
            return Ok(Copy::first(name));
        };
        let is_going = |copy: &Copy| list.removing && list.chunks.contains(copy);
        let free = Copy::all(name).find(|copy| !is_going(copy) && !list.removed.contains(copy));
        let Some(copy) = free else {
            let all = "every copy of it is being removed";
            return Err(StoreError::failed("keep the chunk", Copy::first(name).key())(all));
        };
        if !list.chunks.remove(&copy) || write_list(store, Some(version), list).await?.is_some() {
            return Ok(copy);
        }
    }
}

pub(crate) async fn read(store: &dyn Store) -> Result<Option<(Version, List)>, StoreError> {
    let Some(blob) = store.get(CONDEMNED, MAX_CONDEMNED_BYTES).await? else {
        return Ok(None);
    };
    let list =
        serde_json::from_slice(&blob.bytes).map_err(StoreError::failed("read", CONDEMNED))?;
    Ok(Some((blob.version, list)))
}

pub(crate) async fn write(
    store: &dyn Store,
    version: Option<Version>,
    removing: bool,
    (chunks, removed): (BTreeSet<Copy>, BTreeSet<Copy>),
) -> Result<Option<Version>, StoreError> {
    let list = List {
        since: SystemTime::now(),
        removing,
        mark: String::new(),
        chunks,
        removed,
    };
    write_list(store, version, list).await
}

/// Replaces the list that was read. Returns `None` if it has changed since.
pub(crate) async fn write_list(
    store: &dyn Store,
    version: Option<Version>,
    mut list: List,
) -> Result<Option<Version>, StoreError> {
    let mut mark = [0; 8];
    let failed = |e: getrandom::Error| StoreError::failed("write", CONDEMNED)(e.to_string());
    getrandom::fill(&mut mark).map_err(failed)?;
    list.mark = HEXLOWER.encode(&mark);
    let bytes = serde_json::to_vec(&list).map_err(StoreError::failed("write", CONDEMNED))?;
    let condition = version.map_or(Condition::Absent, Condition::Is);
    Ok(match store.put(CONDEMNED, bytes.into(), condition).await? {
        Put::Written(version) => Some(version),
        Put::Refused => None,
    })
}

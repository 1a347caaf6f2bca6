//! Saves sessions to a store: the manifest under its own key, and the chunks under their names,
//! shared by all sessions of the store.

use std::collections::{BTreeSet, HashSet};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use tokio::task::JoinSet;

use super::boot_clock::Since;
use super::condemned::{self, CHUNK_GRACE};
use crate::engine::on_blocking_thread;
use crate::error::Error;
use crate::limits::MAX_CHECKPOINT_MANIFEST;
use crate::session::checkpoint::chunk_key::{CHUNKS, Copy};
use crate::session::checkpoint::{Apart, Frozen, Last, Name, Written};
use crate::session::{FileAction, Saved, Session, SessionError};
use crate::store::{Condition, Put, Store, StoreError};

/// Number of concurrent requests to a store.
pub(super) const AT_ONCE: usize = 16;
/// Maximum size of a manifest with its head, in bytes.
pub(super) const MAX_HEAD: u64 = MAX_CHECKPOINT_MANIFEST as u64 + 64;

impl Session {
    /// Writes the session to `store`: a manifest under `key`, and the missing chunks under their
    /// own names. Chunks are deduplicated with forks and with earlier versions of the session in
    /// the store, so only changes are written.
    /// [`RestoreOptions::stored`](crate::session::RestoreOptions::stored) reads the session, and
    /// [`collect_chunks`](crate::cluster::collect_chunks) removes unused chunks.
    ///
    /// Returns `None` if `condition` does not hold for `key`.
    ///
    /// # Errors
    ///
    /// If the store fails, or the session cannot be read.
    pub async fn save(
        &self,
        store: &Arc<dyn Store>,
        key: &str,
        condition: Condition,
    ) -> Result<Option<Saved>, Error> {
        let (frozen, written) = self.freeze().await?;
        save(frozen, &written, store, key, condition).await
    }

    /// Writes the session like [`save`](Self::save), for a record that stores creation time and
    /// last use. The manifest contains only times measured by a monotonic clock.
    pub(crate) async fn save_beside_record(
        &self,
        store: &Arc<dyn Store>,
        key: &str,
    ) -> Result<(), Error> {
        let (mut frozen, written) = self.freeze().await?;
        frozen.set_times(self.counted_times());
        // The key is random. Bytes under it were written by this call, if the store was asked
        // twice.
        save(frozen, &written, store, key, Condition::Always).await.map(drop)
    }
}

/// Returns the chunks that are certain to be in `store`: those that an existing manifest names. A
/// chunk that was not listed before this call stays for [`CHUNK_GRACE`], even if the manifest is
/// removed.
async fn trusted(
    written: &Written,
    store: &Arc<dyn Store>,
) -> Result<Option<Arc<Last>>, StoreError> {
    let Some(last) = written.last().filter(|last| Arc::ptr_eq(&last.store, store)) else {
        return Ok(None);
    };
    let there = store.get(&last.key, MAX_HEAD).await?;
    Ok(there.filter(|there| there.version == last.version).map(|_| last))
}

/// Writes a session. Returns `None` if the condition does not hold for `key`.
///
/// Blocking threads compress chunks, and asynchronous code writes them. So no thread waits for the
/// store, which may need one of these threads to answer.
async fn save(
    mut frozen: Frozen,
    written: &Written,
    store: &Arc<dyn Store>,
    key: &str,
    condition: Condition,
) -> Result<Option<Saved>, Error> {
    let begun = Since::now();
    let (condemned, removed) = condemned::listed(&**store).await?;
    let listed: HashSet<Name> = condemned.iter().map(|copy| copy.name).collect();
    let mut last = trusted(written, store).await?;
    let mut apart = loop {
        let (last, path) = (last.take(), PathBuf::from(key));
        let apart =
            on_blocking_thread(move || Apart::lay(frozen, last.as_deref(), &path)).await??;
        // A collection has condemned these chunks: they are kept, or written again.
        let counted_on: HashSet<Name> =
            apart.reused().filter(|name| listed.contains(name)).collect();
        if counted_on.is_empty()
            || condemned::keep(&**store, &counted_on).await?
                && trusted(written, store).await?.is_some()
        {
            break apart;
        }
        frozen = apart.into_frozen();
    };
    let mut putting = Putting::new(store, &condemned | &removed);
    let mut done = 0;
    loop {
        let path = PathBuf::from(key);
        let (back, compressed) = on_blocking_thread(move || {
            let compressed = apart.compressed(done, &path);
            (apart, compressed)
        })
        .await?;
        let (batch, next) = compressed?;
        (apart, done) = (back, next);
        if batch.is_empty() {
            break;
        }
        putting.add(batch).await?;
    }
    let (head, known) = apart.into_manifest();
    let (chunks, bytes) = putting.finish().await?;
    // A collection may remove chunks before a manifest names them.
    if begun.elapsed() > CHUNK_GRACE / 2 {
        return Err(too_slow(key).into());
    }
    let length = head.len() as u64;
    let Put::Written(version) = store.put(key, head.into(), condition).await? else {
        return Ok(None);
    };
    if begun.elapsed() > CHUNK_GRACE {
        return Err(too_slow(key).into());
    }
    written.note(store, key, version.clone(), known.into());
    Ok(Some(Saved {
        version,
        chunks,
        bytes: bytes + length,
    }))
}

fn too_slow(key: &str) -> SessionError {
    SessionError::Io {
        action: FileAction::Write,
        path: key.into(),
        source: io::Error::new(io::ErrorKind::TimedOut, "it took too long to write it"),
    }
}

/// Chunks being written to a store.
struct Putting {
    to: Arc<dyn Store>,
    /// Chunks that are being removed or were just removed.
    listed: BTreeSet<Copy>,
    under_way: JoinSet<Result<Option<u64>, StoreError>>,
    /// Number and size of the missing chunks that were written.
    written: (usize, u64),
}

impl Putting {
    fn new(to: &Arc<dyn Store>, listed: BTreeSet<Copy>) -> Self {
        Self {
            to: Arc::clone(to),
            listed,
            under_way: JoinSet::new(),
            written: (0, 0),
        }
    }

    /// Starts to write chunks, at most [`AT_ONCE`] concurrently.
    async fn add(&mut self, chunks: Vec<(Name, Bytes)>) -> Result<(), StoreError> {
        for (name, bytes) in chunks {
            while self.under_way.len() >= AT_ONCE {
                self.one().await?;
            }
            let (to, is_listed) = (Arc::clone(&self.to), self.listed.contains(&Copy::first(name)));
            self.under_way.spawn(async move { condemned::put(&*to, name, bytes, is_listed).await });
        }
        Ok(())
    }

    /// Waits for one write.
    async fn one(&mut self) -> Result<(), StoreError> {
        if let Some(put) = self.under_way.join_next().await {
            let put = put.map_err(StoreError::failed("write chunks to", CHUNKS))??;
            self.written.0 += usize::from(put.is_some());
            self.written.1 += put.unwrap_or(0);
        }
        Ok(())
    }

    /// Waits for all writes. Returns the number and size of the chunks that were missing.
    async fn finish(mut self) -> Result<(usize, u64), StoreError> {
        while !self.under_way.is_empty() {
            self.one().await?;
        }
        Ok(self.written)
    }
}

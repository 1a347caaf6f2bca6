//! A session in a store: the manifest under its own key, and the chunks under their names, shared
//! by all sessions of the store.

use std::collections::{BTreeSet, HashSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use rayon::prelude::*;
use self_cell::self_cell;
use tokio::task::JoinSet;

use super::boot_clock::Since;
use super::chunk_key::{CHUNKS, Copy};
use super::chunker::Content;
use super::condemned::{self as list, CHUNK_GRACE};
use super::contents::Frozen;
use super::format::{MAGIC, Manifest, Name, VERSION};
use super::lazy::Named;
use super::manifest_reader::manifest;
use super::manifest_writer::{Known, LEAST_USED, Layout};
use super::read::Opened;
use super::store_reader;
use super::write::{compress, head};
use super::{Checkpoint, OVERHEAD, blocking, io as failed};
use crate::error::Error;
use crate::error::session::FileAction;
use crate::limits::MAX_CHECKPOINT_MANIFEST;
use crate::session::SessionError;
use crate::store::{Condition, Put, Store, StoreError, Version};
use crate::util::parallel::on_all_cores;

/// Number of concurrent writes of chunks.
const AT_ONCE: usize = 16;
/// Maximum size of a manifest with its head, in bytes.
const MAX_HEAD: u64 = MAX_CHECKPOINT_MANIFEST as u64 + 64;

/// Result of saving a session to a store.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Saved {
    /// Version of the manifest.
    pub version: Version,
    /// Number of chunks written because they were missing.
    pub chunks: usize,
    /// Size of these chunks and the manifest, in bytes.
    pub bytes: u64,
}

/// The parts of a session that are in a store.
#[derive(Default)]
pub(in crate::session) struct Written(Mutex<Option<Arc<Last>>>);

/// The last write or read of a session.
struct Last {
    store: Arc<dyn Store>,
    key: String,
    /// Version of its manifest.
    version: Version,
    known: Arc<Named>,
}

impl Clone for Written {
    fn clone(&self) -> Self {
        Self(self.last().into())
    }
}

impl Written {
    /// Records that the session was read from a store.
    pub(in crate::session) fn read(
        store: &Arc<dyn Store>,
        key: &str,
        version: Version,
        known: Arc<Named>,
    ) -> Self {
        let written = Self::default();
        written.note(store, key, version, known);
        written
    }

    fn last(&self) -> Option<Arc<Last>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn note(&self, store: &Arc<dyn Store>, key: &str, version: Version, known: Arc<Named>) {
        let last = Last {
            store: Arc::clone(store),
            key: key.to_owned(),
            version,
            known,
        };
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(last));
    }

    /// Returns the chunks that are certain to be in `store`: those that an existing manifest names.
    /// A chunk that was not listed before this call stays for [`CHUNK_GRACE`], even if the manifest
    /// is removed.
    async fn trusted(&self, store: &Arc<dyn Store>) -> Result<Option<Arc<Last>>, StoreError> {
        let Some(last) = self.last().filter(|last| Arc::ptr_eq(&last.store, store)) else {
            return Ok(None);
        };
        let there = store.get(&last.key, MAX_HEAD).await?;
        Ok(there.filter(|there| there.version == last.version).map(|_| last))
    }
}

self_cell! {
    /// A layout together with the data it borrows, so that both can move between threads.
    struct Laid {
        owner: Frozen,
        #[covariant]
        dependent: Layout,
    }
}

/// Writes a session. Returns `None` if the condition does not hold for `key`.
///
/// Blocking threads compress chunks, and asynchronous code writes them. So no thread waits for the
/// store, which may need one of these threads to answer.
pub(in crate::session) async fn save(
    mut frozen: Frozen,
    written: &Written,
    store: &Arc<dyn Store>,
    key: &str,
    condition: Condition,
) -> Result<Option<Saved>, Error> {
    let begun = Since::now();
    let (condemned, removed) = list::listed(&**store).await?;
    let mut trusted = written.trusted(store).await?;
    let (mut laid, head, known) = loop {
        let (last, path) = (trusted.take(), PathBuf::from(key));
        let laid = blocking(move || lay(frozen, last.as_deref(), &path)).await?;
        let counted_on = counted_on(laid.0.borrow_dependent(), &condemned);
        if counted_on.is_empty() {
            break laid;
        }
        // A collection has condemned these chunks: they are kept, or written again.
        if list::keep(&**store, &counted_on).await? && written.trusted(store).await?.is_some() {
            break laid;
        }
        frozen = laid.0.into_owner();
    };
    let mut putting = Putting::new(store, &condemned | &removed);
    let mut done = 0;
    loop {
        let path = PathBuf::from(key);
        let (back, batch, at) = blocking(move || {
            let (batch, at) = compressed(laid.borrow_dependent(), done)
                .map_err(failed(FileAction::Write, &path))?;
            Ok((laid, batch, at))
        })
        .await?;
        if batch.is_empty() {
            break;
        }
        (laid, done) = (back, at);
        putting.add(batch).await?;
    }
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
    let late = io::Error::new(io::ErrorKind::TimedOut, "it took too long to write it");
    failed(FileAction::Write, key.as_ref())(late)
}

/// Returns the condemned chunks that a layout refers to without writing them.
fn counted_on(layout: &Layout<'_>, condemned: &BTreeSet<Copy>) -> HashSet<Name> {
    let listed: HashSet<Name> = condemned.iter().map(|copy| copy.name).collect();
    let all = layout.manifest.chunks.iter().zip(&layout.chunks);
    let known = all.filter(|(_, content)| matches!(content, Content::Known(_)));
    known.map(|((name, _), _)| *name).filter(|name| listed.contains(name)).collect()
}

/// Lays out a session. Parts of the last write are named without reading them. Also returns the
/// encoded manifest, and the index after the write. Blocks.
fn lay(
    mut frozen: Frozen,
    last: Option<&Last>,
    path: &Path,
) -> Result<(Laid, Vec<u8>, Named), Error> {
    let there = last.map(|last| Arc::clone(&last.known));
    let is_outlined = |there: &Arc<Named>| {
        there.source().is_some_and(|source| frozen.past.outline(&source).is_ok())
    };
    let outlined = there.clone().filter(is_outlined);
    if outlined.is_none() {
        frozen.past.settle()?;
    }
    let known = there.map(|there| there.known()).unwrap_or_default();
    let (mut head, mut laid_known) = (Vec::new(), Known::default());
    let laid = Laid::try_new(frozen, |frozen| {
        let mut layout = Layout::of(frozen, known)?;
        layout.manifest.carried = 0;
        head = self::head(&layout.manifest)?;
        laid_known = std::mem::take(&mut layout.known);
        Ok::<_, io::Error>(layout)
    });
    let laid = laid.map_err(failed(FileAction::Write, path))?;
    Ok((laid, head, Named::laid(laid_known, outlined.as_deref())))
}

/// Returns the next few new chunks from number `from` on, compressed, and the number after them.
/// Blocks.
fn compressed(layout: &Layout<'_>, from: usize) -> io::Result<(Vec<(Name, Bytes)>, usize)> {
    let mut end = from;
    let mut batch: Vec<(Name, &Content<'_>)> = Vec::with_capacity(AT_ONCE);
    let all = layout.manifest.chunks.iter().zip(&layout.chunks);
    for ((name, _), content) in all.skip(from) {
        if batch.len() == AT_ONCE {
            break;
        }
        end += 1;
        if !matches!(content, Content::Known(_)) {
            batch.push((*name, content));
        }
    }
    let batch = on_all_cores(|| {
        let batch = batch.par_iter().map_init(Vec::new, |plain, (name, content)| {
            let mut compressed = Vec::new();
            compress(content, plain, &mut compressed)?;
            Ok((*name, compressed.into()))
        });
        batch.collect::<io::Result<_>>()
    });
    Ok((batch?, end))
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
            self.under_way.spawn(async move { list::put(&*to, name, bytes, is_listed).await });
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

/// Reads the manifest of a session in a store. Its chunks may have at most `max` bytes of memory
/// and files.
pub(in crate::session) async fn open(
    store: Arc<dyn Store>,
    key: &str,
    max: u64,
) -> Result<Checkpoint, Error> {
    let path = PathBuf::from(key);
    let Some(head) = store.get(key, max.saturating_add(OVERHEAD)).await? else {
        let source = io::ErrorKind::NotFound.into();
        return Err(failed(FileAction::Open, &path)(source).into());
    };
    let Some(manifest) = apart(&head.bytes) else {
        let file = Box::new(io::Cursor::new(head.bytes));
        return blocking(move || Checkpoint::read_manifest(file, path)).await;
    };
    let all: u64 = manifest.chunks.iter().map(|(_, length)| u64::from(*length)).sum();
    // A state may use only a part of a chunk.
    if all / 2 / u64::from(LEAST_USED) > max.saturating_add(OVERHEAD) {
        let reason = "it holds more than this runtime restores";
        return Err(SessionError::Format { path, reason }.into());
    }
    let chunks = store_reader::chunks(&store, &manifest.chunks);
    let opened = Opened::apart(manifest, chunks);
    Ok(Checkpoint {
        opened,
        path,
        identity: None,
        stored: Some((store, key.to_owned(), head.version)),
    })
}

/// Parses the manifest of a checkpoint that does not contain its chunks. Other errors are reported
/// when chunks are read.
fn apart(head: &[u8]) -> Option<Manifest> {
    if head.get(8..12)? != VERSION.to_le_bytes() || !head.starts_with(MAGIC) {
        return None;
    }
    let (manifest, _) = manifest(head, true).ok()?;
    (manifest.carried == 0).then_some(manifest)
}

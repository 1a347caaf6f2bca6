//! A session in a store: its manifest under a key of its own, and its chunks by their names, which all
//! sessions of the store share.

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use bytes::Bytes;
use rayon::prelude::*;
use self_cell::self_cell;
use tokio::runtime::Handle;
use tokio::task::JoinSet;

use super::chunks::Chunks;
use super::format::{MAGIC, Manifest, Name, VERSION};
use super::frozen::Frozen;
use super::garbage::{self, CHUNK_GRACE, CHUNKS};
use super::later::Named;
use super::layout::{Known, LEAST_USED, Layout};
use super::pieces::Content;
use super::problem::Problem;
use super::read::Opened;
use super::second::manifest;
use super::write::{compress, head};
use super::{Checkpoint, OVERHEAD, blocking, io as failed};
use crate::error::Error;
use crate::limits::MAX_CHECKPOINT_MANIFEST;
use crate::parallel::on_all_cores;
use crate::session::SessionError;
use crate::session::error::{ChunkProblem, FileAction};
use crate::store::{Condition, Put, Store, StoreError, Version};

/// Chunks that are on their way at the same time.
const AT_ONCE: usize = 16;
/// Bytes of chunks that are fetched before they are asked for.
const MAX_AHEAD: u64 = 256 << 20;
/// The most bytes of a manifest with what comes before it.
const MAX_HEAD: u64 = MAX_CHECKPOINT_MANIFEST as u64 + 64;

/// What was written of a session to a store.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Saved {
    /// The version of what is under its key.
    pub version: Version,
    /// How many chunks were written, because nobody had written them before.
    pub chunks: usize,
    /// Bytes of these and of the manifest.
    pub bytes: u64,
}

/// What of a session is in a store.
#[derive(Default)]
pub(in crate::session) struct Written(Mutex<Option<Arc<Last>>>);

/// How a session was last written or read.
struct Last {
    store: Arc<dyn Store>,
    key: String,
    /// When its manifest was surely there.
    seen: Instant,
    known: Arc<Named>,
}

impl Clone for Written {
    fn clone(&self) -> Self {
        Self(self.last().into())
    }
}

impl Written {
    /// That it was read from there.
    pub(in crate::session) fn read(
        store: &Arc<dyn Store>,
        key: &str,
        seen: Instant,
        known: Arc<Named>,
    ) -> Self {
        let written = Self::default();
        written.note(store, key, seen, known);
        written
    }

    fn last(&self) -> Option<Arc<Last>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn note(&self, store: &Arc<dyn Store>, key: &str, seen: Instant, known: Arc<Named>) {
        let last = Last {
            store: Arc::clone(store),
            key: key.to_owned(),
            seen,
            known,
        };
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(last));
    }

    /// What is in `store` for certain, and since when that is known.
    async fn trusted(
        &self,
        store: &Arc<dyn Store>,
    ) -> Result<(Option<Arc<Last>>, Instant), StoreError> {
        let now = Instant::now();
        let Some(last) = self.last().filter(|last| Arc::ptr_eq(&last.store, store)) else {
            return Ok((None, now));
        };
        if last.seen.elapsed() < CHUNK_GRACE / 4 {
            let seen = last.seen;
            return Ok((Some(last), seen));
        }
        // What a manifest names that is there is not removed.
        let there = store.get(&last.key, MAX_HEAD).await?;
        Ok((there.map(|_| last), now))
    }
}

self_cell! {
    /// A session laid out, with what the layout borrows from: both move between threads as one.
    struct Laid {
        owner: Frozen,
        #[covariant]
        dependent: Layout,
    }
}

/// Writes a session; `None` where the condition does not hold for what is under `key`.
///
/// Chunks are compressed on threads that may block, and put by asynchronous code: no thread waits for
/// the store, which may need one of the same threads to answer.
pub(in crate::session) async fn save(
    frozen: Frozen,
    written: &Written,
    store: &Arc<dyn Store>,
    key: &str,
    condition: Condition,
) -> Result<Option<Saved>, Error> {
    let (trusted, seen) = written.trusted(store).await?;
    let condemned = garbage::condemned(&**store).await?;
    let path = PathBuf::from(key);
    let laid = blocking(move || lay(frozen, trusted.as_deref(), &path)).await?;
    let (mut laid, head, known) = laid;
    let mut putting = Putting::new(store, condemned);
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
    let length = head.len() as u64;
    let Put::Written(version) = store.put(key, head.into(), condition).await? else {
        return Ok(None);
    };
    if seen.elapsed() > CHUNK_GRACE / 2 {
        // Chunks of it may have been removed before it named them.
        store.delete(key).await?;
        let late = io::Error::new(io::ErrorKind::TimedOut, "it took too long to write it");
        return Err(failed(FileAction::Write, key.as_ref())(late).into());
    }
    written.note(store, key, seen, known.into());
    Ok(Some(Saved {
        version,
        chunks,
        bytes: bytes + length,
    }))
}

/// Lays a session out, of which what was written `last` need not be read to be named again. Returns
/// also the manifest as it is written, and what is known once it is. It blocks.
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

/// The next few chunks from number `from` on that were not written before, compressed, and the number
/// of the one behind them. It blocks.
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

/// Chunks on their way to a store.
struct Putting {
    to: Arc<dyn Store>,
    /// Chunks that are about to be removed.
    condemned: BTreeSet<Name>,
    under_way: JoinSet<Result<Option<u64>, StoreError>>,
    /// How many were not there, and their bytes.
    written: (usize, u64),
}

impl Putting {
    fn new(to: &Arc<dyn Store>, condemned: BTreeSet<Name>) -> Self {
        Self {
            to: Arc::clone(to),
            condemned,
            under_way: JoinSet::new(),
            written: (0, 0),
        }
    }

    /// Sends chunks on their way, no more than [`AT_ONCE`] at the same time.
    async fn add(&mut self, chunks: Vec<(Name, Bytes)>) -> Result<(), StoreError> {
        for (name, bytes) in chunks {
            while self.under_way.len() >= AT_ONCE {
                self.one().await?;
            }
            let (to, is_condemned) = (Arc::clone(&self.to), self.condemned.contains(&name));
            self.under_way.spawn(put(to, name, bytes, is_condemned));
        }
        Ok(())
    }

    /// Waits for one of them.
    async fn one(&mut self) -> Result<(), StoreError> {
        if let Some(put) = self.under_way.join_next().await {
            let put = put.map_err(StoreError::failed("write chunks to", CHUNKS))??;
            self.written.0 += usize::from(put.is_some());
            self.written.1 += put.unwrap_or(0);
        }
        Ok(())
    }

    /// Waits for all of them. Returns how many were not there, and their bytes.
    async fn finish(mut self) -> Result<(usize, u64), StoreError> {
        while !self.under_way.is_empty() {
            self.one().await?;
        }
        Ok(self.written)
    }
}

/// Puts a chunk, and returns its bytes if it was not there.
async fn put(
    to: Arc<dyn Store>,
    name: Name,
    bytes: Bytes,
    mut is_condemned: bool,
) -> Result<Option<u64>, StoreError> {
    let (key, length) = (garbage::key(name), bytes.len() as u64);
    loop {
        match to.put(&key, bytes.clone(), Condition::Absent).await? {
            Put::Written(_) => return Ok(Some(length)),
            Put::Refused if !is_condemned => return Ok(None),
            Put::Refused => {
                garbage::rescue(&*to, name).await?;
                // It stays if it is there now.
                is_condemned = false;
            }
        }
    }
}

/// Reads the manifest of a session in a store, and fetches its chunks: of those in `max` bytes of
/// memory and files.
pub(in crate::session) async fn open(
    store: Arc<dyn Store>,
    key: &str,
    max: u64,
) -> Result<Checkpoint, Error> {
    let (path, seen) = (PathBuf::from(key), Instant::now());
    let Some(head) = store.get(key, max.saturating_add(OVERHEAD)).await? else {
        let source = io::ErrorKind::NotFound.into();
        return Err(failed(FileAction::Open, &path)(source).into());
    };
    let Some(manifest) = apart(&head.bytes) else {
        let file = Box::new(io::Cursor::new(head.bytes));
        return blocking(move || Checkpoint::read_manifest(file, path)).await;
    };
    let all: u64 = manifest.chunks.iter().map(|(_, length)| u64::from(*length)).sum();
    // A state may use but a part of a chunk.
    if all / 2 / u64::from(LEAST_USED) > max.saturating_add(OVERHEAD) {
        let reason = "it holds more than this runtime restores";
        return Err(SessionError::Format { path, reason }.into());
    }
    let chunks: Box<dyn Chunks> = if store.at_hand().is_some() {
        Box::new(OnSpot {
            from: Arc::clone(&store),
            lengths: manifest.chunks.iter().map(|(_, length)| *length).collect(),
        })
    } else {
        Box::new(Fetched::of(Arc::clone(&store), &manifest.chunks))
    };
    let opened = Opened::apart(manifest, chunks);
    Ok(Checkpoint {
        opened,
        path,
        identity: None,
        stored: Some((store, key.to_owned(), seen)),
    })
}

/// The manifest of a checkpoint that does not carry its chunks. What else is wrong with one is told
/// where files are read.
fn apart(head: &[u8]) -> Option<Manifest> {
    if head.get(8..12)? != VERSION.to_le_bytes() || !head.starts_with(MAGIC) {
        return None;
    }
    let (manifest, _) = manifest(head, true).ok()?;
    (manifest.carried == 0).then_some(manifest)
}

/// Chunks of a store.
pub(super) struct Fetched {
    from: Arc<dyn Store>,
    /// The asynchronous runtime in which chunks were asked for last: the one before may have ended.
    handle: Mutex<Handle>,
    /// What was fetched and not taken yet: as much as there is room for.
    ahead: Mutex<HashMap<usize, Bytes>>,
    lengths: Vec<u32>,
}

/// The most bytes that a chunk takes, compressed.
fn max_compressed(length: u32) -> u64 {
    zstd::zstd_safe::compress_bound(length as usize) as u64
}

impl Fetched {
    fn of(from: Arc<dyn Store>, listed: &[(Name, u32)]) -> Self {
        Self {
            from,
            handle: Handle::current().into(),
            ahead: Mutex::default(),
            lengths: listed.iter().map(|(_, length)| *length).collect(),
        }
    }

    fn handle(&self) -> Handle {
        self.handle.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<usize, Bytes>> {
        self.ahead.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Chunks by their numbers, as many as there is room for.
    async fn some(
        from: &Arc<dyn Store>,
        numbers: &[usize],
        listed: &[(Name, u32)],
    ) -> Result<HashMap<usize, Bytes>, StoreError> {
        let mut ahead = HashMap::new();
        let (mut under_way, mut left) = (JoinSet::new(), MAX_AHEAD);
        let mut next = numbers.iter().filter_map(|number| Some((*number, listed.get(*number)?)));
        loop {
            while under_way.len() < AT_ONCE
                && let Some((number, (name, length))) = next.next()
            {
                let max = max_compressed(*length);
                let Some(rest) = left.checked_sub(max) else {
                    continue;
                };
                left = rest;
                let (from, key) = (Arc::clone(from), garbage::key(*name));
                under_way.spawn(async move { (number, from.get(&key, max).await) });
            }
            let Some(fetched) = under_way.join_next().await else {
                break;
            };
            let (number, blob) = fetched.map_err(StoreError::failed("read chunks of", CHUNKS))?;
            if let Some(blob) = blob? {
                ahead.insert(number, blob.bytes);
            }
        }
        Ok(ahead)
    }
}

/// Chunks of a store that is at hand, read where they are taken apart.
struct OnSpot {
    from: Arc<dyn Store>,
    lengths: Vec<u32>,
}

impl Chunks for OnSpot {
    fn fetch(&self, number: usize, name: Name, buffer: &mut Vec<u8>) -> Result<(), Problem> {
        let max = max_compressed(self.lengths.get(number).copied().unwrap_or(0));
        let from = self.from.at_hand();
        let read = from.map(|from| from.read_into(&garbage::key(name), max, buffer));
        if read.transpose().map_err(Problem::Store)? != Some(true) {
            return Err(Problem::Chunk(name, ChunkProblem::Missing));
        }
        Ok(())
    }
}

impl Chunks for Fetched {
    fn fetch(&self, number: usize, name: Name, buffer: &mut Vec<u8>) -> Result<(), Problem> {
        if let Some(bytes) = self.lock().remove(&number) {
            *buffer = bytes.into();
            return Ok(());
        }
        let max = max_compressed(self.lengths.get(number).copied().unwrap_or(0));
        let key = garbage::key(name);
        let blob = self.handle().block_on(self.from.get(&key, max)).map_err(Problem::Store)?;
        let missing = Problem::Chunk(name, ChunkProblem::Missing);
        *buffer = blob.ok_or(missing)?.bytes.into();
        Ok(())
    }

    fn prepare(&self, numbers: &[usize], listed: &[(Name, u32)]) -> Result<(), Problem> {
        if let Ok(current) = Handle::try_current() {
            *self.handle.lock().unwrap_or_else(PoisonError::into_inner) = current;
        }
        let fetched = self.handle().block_on(Self::some(&self.from, numbers, listed));
        // What was fetched for one that failed is of no use.
        *self.lock() = fetched.map_err(Problem::Store)?;
        Ok(())
    }
}

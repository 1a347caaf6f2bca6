//! Reads a session from a store: the manifest under its own key, and the chunks under their names.

use std::collections::HashMap;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tokio::runtime::Handle;
use tokio::task::JoinSet;

use super::chunk_key::{self, CHUNKS};
use super::chunk_reader::Chunks;
use super::format::{MAGIC, Manifest, Name, VERSION};
use super::manifest_reader::manifest;
use super::manifest_writer::LEAST_USED;
use super::problem::Problem;
use super::read::Opened;
use super::{Checkpoint, OVERHEAD, blocking, io as failed};
use crate::error::Error;
use crate::error::session::{ChunkProblem, FileAction, SessionError};
use crate::store::{Store, StoreError};

/// Number of concurrent fetches.
const AT_ONCE: usize = 16;
/// Maximum size of chunks fetched ahead of decompression, in bytes.
const MAX_AHEAD: u64 = 256 << 20;

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
    let chunks = chunks(&store, &manifest.chunks);
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

/// Returns a source for the listed chunks of a store.
fn chunks(from: &Arc<dyn Store>, listed: &[(Name, u32)]) -> Box<dyn Chunks> {
    let from = Arc::clone(from);
    if from.at_hand().is_some() {
        let lengths = listed.iter().map(|(_, length)| *length).collect();
        return Box::new(OnSpot { from, lengths });
    }
    Box::new(Ahead::of(from, MAX_AHEAD))
}

/// Returns the maximum compressed size of a chunk, in bytes.
fn max_compressed(length: u32) -> u64 {
    zstd::zstd_safe::compress_bound(length as usize) as u64
}

/// Chunks of a local store, read by the decompressing threads.
struct OnSpot {
    from: Arc<dyn Store>,
    lengths: Vec<u32>,
}

impl Chunks for OnSpot {
    fn fetch(&self, number: usize, name: Name, buffer: &mut Vec<u8>) -> Result<(), Problem> {
        let max = max_compressed(self.lengths.get(number).copied().unwrap_or(0));
        let from = self.from.at_hand();
        let read = from.map(|from| chunk_key::read_into(from, name, max, buffer));
        if read.transpose().map_err(Problem::Store)? != Some(true) {
            return Err(Problem::Chunk(name, ChunkProblem::Missing));
        }
        Ok(())
    }
}

/// Chunks of a remote store. They are fetched before decompression, because decompression runs on
/// threads shared by all requests, which must not wait.
struct Ahead {
    from: Arc<dyn Store>,
    /// The asynchronous runtime of the last request for chunks. An earlier runtime may have ended.
    handle: Mutex<Handle>,
    /// Chunks fetched but not taken yet; `None` for missing chunks.
    fetched: Mutex<HashMap<usize, Option<Bytes>>>,
    /// Maximum size of fetched chunks, in bytes.
    max: u64,
}

impl Ahead {
    fn of(from: Arc<dyn Store>, max: u64) -> Self {
        Self {
            from,
            handle: Handle::current().into(),
            fetched: Mutex::default(),
            max,
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<usize, Option<Bytes>>> {
        self.fetched.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns how many of the first chunks fit, at least one.
    fn fitting(&self, numbers: &[usize], listed: &[(Name, u32)]) -> usize {
        let mut left = self.max;
        let fits = |number: &&usize| {
            let length = listed.get(**number).map_or(0, |(_, length)| *length);
            let rest = left.checked_sub(max_compressed(length));
            left = rest.unwrap_or(0);
            rest.is_some()
        };
        numbers.iter().take_while(fits).count().clamp(1, numbers.len().max(1))
    }

    async fn all(
        from: &Arc<dyn Store>,
        numbers: &[usize],
        listed: &[(Name, u32)],
    ) -> Result<HashMap<usize, Option<Bytes>>, StoreError> {
        let (mut fetched, mut under_way) = (HashMap::new(), JoinSet::new());
        let mut next = numbers.iter().filter_map(|number| Some((*number, listed.get(*number)?)));
        loop {
            while under_way.len() < AT_ONCE
                && let Some((number, (name, length))) = next.next()
            {
                let (from, name, max) = (Arc::clone(from), *name, max_compressed(*length));
                under_way.spawn(async move { (number, chunk_key::get(&*from, name, max).await) });
            }
            let Some(done) = under_way.join_next().await else {
                return Ok(fetched);
            };
            let (number, blob) = done.map_err(StoreError::failed("read chunks of", CHUNKS))?;
            fetched.insert(number, blob?.map(|blob| blob.bytes));
        }
    }
}

impl Chunks for Ahead {
    fn fetch(&self, number: usize, name: Name, buffer: &mut Vec<u8>) -> Result<(), Problem> {
        let fetched = self.lock().remove(&number);
        let there = fetched.ok_or_else(|| io::Error::other("a chunk was not asked for"))?;
        *buffer = there.ok_or(Problem::Chunk(name, ChunkProblem::Missing))?.into();
        Ok(())
    }

    fn prepare(&self, numbers: &[usize], listed: &[(Name, u32)]) -> Result<usize, Problem> {
        let handle = {
            let mut handle = self.handle.lock().unwrap_or_else(PoisonError::into_inner);
            if let Ok(current) = Handle::try_current() {
                *handle = current;
            }
            handle.clone()
        };
        let numbers = &numbers[..self.fitting(numbers, listed).min(numbers.len())];
        let fetched = handle.block_on(Self::all(&self.from, numbers, listed));
        // If one fetch fails, the other results are discarded.
        *self.lock() = fetched.map_err(Problem::Store)?;
        Ok(numbers.len())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::super::chunk_reader::{Opener, in_batches};
    use super::*;
    use crate::store::{Answer, Blob, Condition, Entry, MemoryStore, Put};
    use crate::util::parallel::on_all_cores;

    /// A remote store that fails when it is called on a shared thread.
    #[derive(Debug, Default)]
    struct Far {
        store: MemoryStore,
        asked: AtomicUsize,
    }

    impl Store for Far {
        fn get<'a>(&'a self, key: &'a str, max: u64) -> Answer<'a, Option<Blob>> {
            Box::pin(async move {
                let thread = std::thread::current();
                let is_shared = thread.name().is_some_and(|name| name.starts_with("belljar-work"));
                assert!(!is_shared, "a thread that all requests share waits for a store");
                self.asked.fetch_add(1, Ordering::AcqRel);
                self.store.get(key, max).await
            })
        }

        fn put<'a>(&'a self, key: &'a str, bytes: Bytes, condition: Condition) -> Answer<'a, Put> {
            self.store.put(key, bytes, condition)
        }

        fn list<'a>(&'a self, folder: &'a str) -> Answer<'a, Vec<Entry>> {
            self.store.list(folder)
        }

        fn delete<'a>(&'a self, key: &'a str) -> Answer<'a, ()> {
            self.store.delete(key)
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn chunks_are_fetched_in_batches_and_never_where_they_are_taken_apart() {
        const LENGTH: usize = 10_000;
        let far = Arc::new(Far::default());
        let plain = |number: u8| vec![number; LENGTH];
        let mut listed = Vec::new();
        for number in 0..10 {
            let name = Name::of(&plain(number));
            listed.push((name, LENGTH as u32));
            // Chunk 7 is missing, and only a second copy of chunk 3 exists.
            let compressed = Bytes::from(zstd::bulk::compress(&plain(number), 1).unwrap());
            let copy = chunk_key::Copy::all(name).nth(usize::from(number == 3)).unwrap();
            if number != 7 {
                let put = far.store.put(&copy.key(), compressed, Condition::Absent).await.unwrap();
                assert_ne!(put, Put::Refused);
            }
        }
        let store = Arc::clone(&far) as Arc<dyn Store>;
        let chunks = Ahead::of(store, 3 * max_compressed(LENGTH as u32) + 1);
        let read = move |numbers: Vec<usize>| {
            let mut batches = Vec::new();
            let read = in_batches(&chunks, &numbers, &listed, |batch| {
                batches.push(batch.len());
                on_all_cores(|| {
                    for number in batch {
                        let mut opener = Opener::new();
                        let found = opener.open(&chunks, *number, listed[*number])?;
                        assert_eq!(found, plain(*number as u8));
                    }
                    Ok(())
                })
            });
            (read, batches)
        };
        tokio::task::spawn_blocking(move || {
            let (done, batches) = read((0..7).collect());
            assert!(done.is_ok());
            assert_eq!(batches, [3, 3, 1]);
            // Includes the lookup of the first copy of chunk 3.
            assert_eq!(far.asked.load(Ordering::Acquire), 8);
            let (missing, _) = read(vec![8, 7]);
            let Err(Problem::Chunk(_, ChunkProblem::Missing)) = missing else {
                panic!("it was read without a chunk");
            };
            let (nothing, batches) = read(Vec::new());
            assert!(nothing.is_ok() && batches.is_empty());
        })
        .await
        .unwrap();
    }
}

//! Tests of garbage collections concurrent with writers, including slow and aborted collections.

use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use tokio::sync::Semaphore;

use super::*;
use crate::cluster::condemned::{keep, listed, put};
use crate::session::checkpoint::{chunk_key, manifest_of};
use crate::store::{Answer, Blob, Condition, Entry, MemoryStore, Put};

/// Maximum duration of a save, which must not wait for a collection. Allows for a busy machine.
const SOON: Duration = Duration::from_secs(5);
/// Number of chunks in the tests.
const COUNT: usize = 6;

fn name(number: usize) -> Name {
    Name::of(&number.to_le_bytes())
}

fn copy(number: usize) -> Copy {
    Copy::first(name(number))
}

fn condemned(numbers: Range<usize>) -> (BTreeSet<Copy>, BTreeSet<Copy>) {
    (numbers.map(copy).collect(), BTreeSet::new())
}

async fn with_chunks(count: usize) -> Arc<dyn Store> {
    let store = MemoryStore::new();
    for number in 0..count {
        let put = store.put(&copy(number).key(), "x".into(), Condition::Absent).await.unwrap();
        assert_ne!(put, Put::Refused);
    }
    Arc::new(store)
}

#[tokio::test]
async fn the_longest_list_that_is_written_can_be_read() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let copies = (0..MAX_CONDEMNED / 2).flat_map(|number| Copy::all(name(number)).skip(1).take(2));
    let chunks: BTreeSet<Copy> = copies.collect();
    assert_eq!(chunks.len(), MAX_CONDEMNED);
    write(&*store, None, false, (chunks.clone(), chunks)).await.unwrap().unwrap();
    let (condemned, removed) = listed(&*store).await.unwrap();
    assert_eq!((condemned.len(), removed.len()), (MAX_CONDEMNED, MAX_CONDEMNED));
}

#[tokio::test]
async fn what_is_condemned_is_struck_off_before_it_is_counted_on() {
    let store = with_chunks(2).await;
    write(&*store, None, false, condemned(0..2)).await.unwrap().unwrap();
    assert_eq!(put(&*store, name(0), "x".into(), true).await.unwrap(), None);
    assert_eq!(listed(&*store).await.unwrap(), condemned(1..2));
}

#[tokio::test]
async fn what_a_manifest_names_is_kept_unless_it_is_being_removed() {
    let store = with_chunks(3).await;
    let names = |numbers: &[usize]| numbers.iter().copied().map(name).collect();
    assert!(!keep(&*store, &names(&[0])).await.unwrap(), "there is no list");
    let list = write(&*store, None, false, condemned(0..3)).await.unwrap();
    assert!(keep(&*store, &names(&[0, 1])).await.unwrap());
    assert_eq!(listed(&*store).await.unwrap(), condemned(2..3));
    assert!(!keep(&*store, &names(&[0, 2])).await.unwrap(), "one of them is not on it");
    // A writer that has read the old list is rejected.
    assert_eq!(write(&*store, list, true, condemned(0..0)).await.unwrap(), None);
    let (version, _) = read(&*store).await.unwrap().unwrap();
    write(&*store, Some(version), true, condemned(2..3)).await.unwrap().unwrap();
    assert!(!keep(&*store, &names(&[2])).await.unwrap(), "it is being removed");
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

/// A store that answers a client a limited number of times, and then only when released.
#[derive(Debug)]
struct Stopping {
    store: Arc<dyn Store>,
    answers: Semaphore,
    asked: AtomicUsize,
}

impl Stopping {
    fn after(store: &Arc<dyn Store>, answers: usize) -> Arc<Self> {
        Arc::new(Self {
            store: Arc::clone(store),
            answers: Semaphore::new(answers),
            asked: AtomicUsize::new(0),
        })
    }

    async fn ask<T>(&self, answer: impl Future<Output = T>) -> T {
        self.asked.fetch_add(1, Ordering::AcqRel);
        self.answers.acquire().await.unwrap().forget();
        answer.await
    }
}

impl Store for Stopping {
    fn get<'a>(&'a self, key: &'a str, max: u64) -> Answer<'a, Option<Blob>> {
        Box::pin(self.ask(self.store.get(key, max)))
    }

    fn put<'a>(&'a self, key: &'a str, bytes: Bytes, condition: Condition) -> Answer<'a, Put> {
        Box::pin(self.ask(self.store.put(key, bytes, condition)))
    }

    fn list<'a>(&'a self, folder: &'a str) -> Answer<'a, Vec<Entry>> {
        Box::pin(self.ask(self.store.list(folder)))
    }

    fn delete<'a>(&'a self, key: &'a str) -> Answer<'a, ()> {
        Box::pin(self.ask(self.store.delete(key)))
    }
}

/// Writes a state that names all chunks, like a save.
async fn save(store: &Arc<dyn Store>) {
    let (condemned, removed) = listed(&**store).await.unwrap();
    for number in 0..COUNT {
        let is_listed = condemned.contains(&copy(number)) || removed.contains(&copy(number));
        put(&**store, name(number), "x".into(), is_listed).await.unwrap();
    }
    let manifest = manifest_of((0..COUNT).map(name));
    let put = store.put("states/a", manifest.into(), Condition::Absent).await.unwrap();
    assert_ne!(put, Put::Refused);
}

async fn collect_again(store: &Arc<dyn Store>) {
    for _ in 0..3 {
        collect_chunks(store, "states", Duration::ZERO).await.unwrap();
    }
}

/// Stops a collection after `after` answers, forever or until other work is done. Returns its
/// number of requests. Saves complete meanwhile, and their chunks survive.
async fn stopped(after: usize, goes_on: bool) -> usize {
    let store = with_chunks(COUNT).await;
    let condemned = collect_chunks(&store, "states", Duration::ZERO).await.unwrap();
    assert_eq!(condemned.condemned, COUNT);
    let stopping = Stopping::after(&store, after);
    let client = Arc::clone(&stopping) as Arc<dyn Store>;
    let collection =
        tokio::spawn(async move { collect_chunks(&client, "states", Duration::ZERO).await });
    // Until the collection waits or is done.
    for _ in 0..1_000 {
        tokio::task::yield_now().await;
    }
    if !goes_on {
        collection.abort();
    }
    tokio::time::timeout(SOON, save(&store)).await.expect("a save waits for a collection");
    if goes_on {
        stopping.answers.add_permits(1_000);
        // If a writer has changed the list, the collection restarts, which may also fail.
        let _ = collection.await.unwrap();
    }
    collect_again(&store).await;
    for number in 0..COUNT {
        let there = chunk_key::get(&*store, name(number), 1).await.unwrap();
        assert!(there.is_some(), "{number} of a state is gone, stopped after {after}");
    }
    store.delete("states/a").await.unwrap();
    collect_again(&store).await;
    assert_eq!(store.list(CHUNKS).await.unwrap(), [], "stopped after {after}");
    stopping.asked.load(Ordering::Acquire)
}

#[tokio::test]
async fn a_collection_that_stops_anywhere_delays_no_save_and_loses_nothing() {
    let all = stopped(1_000, true).await;
    assert!(all > COUNT + 4, "{all}");
    for after in 0..=all {
        for goes_on in [false, true] {
            stopped(after, goes_on).await;
        }
    }
}

/// A store that applies every removal twice: at once, and again when released.
#[derive(Debug)]
struct Repeating {
    store: Arc<dyn Store>,
    removed: Mutex<Vec<String>>,
}

impl Store for Repeating {
    fn get<'a>(&'a self, key: &'a str, max: u64) -> Answer<'a, Option<Blob>> {
        self.store.get(key, max)
    }

    fn put<'a>(&'a self, key: &'a str, bytes: Bytes, condition: Condition) -> Answer<'a, Put> {
        self.store.put(key, bytes, condition)
    }

    fn list<'a>(&'a self, folder: &'a str) -> Answer<'a, Vec<Entry>> {
        self.store.list(folder)
    }

    fn delete<'a>(&'a self, key: &'a str) -> Answer<'a, ()> {
        self.removed.lock().unwrap().push(key.to_owned());
        self.store.delete(key)
    }
}

#[tokio::test]
async fn a_removal_that_is_done_late_meets_nothing_that_was_written_since() {
    let store = with_chunks(COUNT).await;
    let repeating = Arc::new(Repeating {
        store: Arc::clone(&store),
        removed: Mutex::default(),
    });
    let client = Arc::clone(&repeating) as Arc<dyn Store>;
    for removed in [0, COUNT] {
        let collected = collect_chunks(&client, "states", Duration::ZERO).await.unwrap();
        assert_eq!(collected.removed, removed);
    }
    save(&store).await;
    let again = std::mem::take(&mut *repeating.removed.lock().unwrap());
    assert_eq!(again.len(), COUNT);
    for key in again {
        store.delete(&key).await.unwrap();
    }
    for number in 0..COUNT {
        let there = chunk_key::get(&*store, name(number), 1).await.unwrap();
        assert!(there.is_some(), "{number} of a state is gone");
    }
    // Later, chunks are written at their first key again.
    collect_again(&store).await;
    assert_eq!(put(&*store, name(COUNT), "x".into(), false).await.unwrap(), Some(1));
    assert_eq!(listed(&*store).await.unwrap().1, BTreeSet::new());
}

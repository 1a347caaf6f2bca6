//! The past of a restored session: loaded on demand, and complete unless damaged.

use std::io::Cursor;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use belljar::session::RestoreOptions;
use belljar::store::{Answer, Blob, Condition, Entry, MemoryStore, Put, Store};
use belljar::{Request, Session, SessionOptions};
use bytes::Bytes;

use super::{block_on, core, out, run, session_on, told};
use crate::support::{chain, runtime};

/// Five runs, before each of which the host has replaced a file that no code has read.
async fn with_past() -> Session {
    let session = core().await;
    for n in 1..=5 {
        session.workspace().write("noise", Cursor::new(noise(n))).await.unwrap();
        out(&session, &format!("import os\nn = {n}")).await;
    }
    session
}

/// Incompressible bytes.
fn noise(n: u64) -> Vec<u8> {
    let mut bytes = vec![0; 300_000];
    blake3::Hasher::new().update(&n.to_le_bytes()).finalize_xof().fill(&mut bytes);
    bytes
}

const LOOK: &str = "print(n, os.path.getsize('noise'))";

async fn is_after(session: &Session, n: u64) {
    assert_eq!(out(session, LOOK).await, format!("{n} 300000\n"));
    assert!(session.read("noise").await.unwrap() == noise(n), "it is another run's");
}

/// A checkpoint of it with a damaged chunk that only the state after run `n` needs.
async fn damaged(path: &Path, n: u64) {
    let session = with_past().await;
    session.checkpoint(path).await.unwrap();
    session.close();
    let (mut file, bytes) = (std::fs::read(path).unwrap(), noise(n));
    let at = file.windows(64).position(|window| window == &bytes[1000..1064]).unwrap();
    file[at + 7] ^= 0x11;
    std::fs::write(path, file).unwrap();
}

async fn restore(path: &Path) -> Session {
    runtime().restore(path).await.unwrap_or_else(|e| panic!("{}", chain(&e)))
}

#[test]
fn a_damaged_past_costs_what_is_damaged() {
    block_on(async {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("session.belljar");
        damaged(&path, 2).await;
        let session = restore(&path).await;
        is_after(&session, 5).await;
        assert_eq!(session.history().await.unwrap().len(), 6);
        let is_told = |error: &str| {
            let expected = format!("{} is not a usable checkpoint: its chunk ", path.display());
            error.contains(&expected) && error.ends_with("was cut short or altered")
        };
        // Operations on the whole past report the damage.
        let (error, hint) = told(session.checkpoint_to(std::io::sink()).await);
        assert!(is_told(&error), "{error}");
        assert!(hint.unwrap().starts_with("take another copy of it"));
        // So do operations on that state, and only on that one.
        for _ in 0..2 {
            let (error, hint) = told(session.rewind(2).await);
            let start = format!(
                "session {} cannot go back to the state after run 2: that state cannot be read",
                session.id()
            );
            assert!(error.starts_with(&start) && is_told(&error), "{error}");
            assert!(hint.unwrap().starts_with("go back to another one"));
        }
        is_after(&session, 5).await;
        // It can still be suspended and resumed.
        assert!(session.suspend().await);
        is_after(&session, 5).await;
        assert_eq!(session.history().await.unwrap().len(), 8);
        let fork = session.fork().await.unwrap();
        for n in [4, 3] {
            session.rewind(n).await.unwrap();
            is_after(&session, n).await;
        }
        assert_eq!(told(session.rewind(2).await).0.matches("run 2").count(), 1);
        session.rewind(1).await.unwrap();
        // Damaged states are dropped: the rest is a whole session.
        session.checkpoint(&path).await.unwrap();
        fork.rewind(0).await.unwrap();
        assert_eq!(out(&fork, "'n' in globals()").await, "False\n");
        let again = restore(&path).await;
        again.rewind(0).await.unwrap();
        assert_eq!(out(&again, "'n' in globals()").await, "False\n");
        for session in [session, fork, again] {
            session.close();
        }
    });
}

#[test]
fn the_past_outlives_the_name_of_its_file() {
    block_on(async {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("session.belljar");
        let session = with_past().await;
        session.checkpoint(&path).await.unwrap();
        session.close();
        let restored = restore(&path).await;
        out(&restored, "n = 6").await;
        let fork = restored.fork().await.unwrap();
        // It is replaced by a session without a past.
        let other = core().await;
        other.checkpoint(&path).await.unwrap();
        other.close();
        restored.rewind(3).await.unwrap();
        is_after(&restored, 3).await;
        std::fs::remove_file(&path).unwrap();
        // They share data read by one of them, but not their changes.
        assert_eq!(fork.history().await.unwrap().len(), 6);
        for n in [5, 2] {
            fork.rewind(n).await.unwrap();
            is_after(&fork, n).await;
        }
        is_after(&restored, 3).await;
        restored.rewind(1).await.unwrap();
        restored.checkpoint(&path).await.unwrap();
        restored.close();
        is_after(&fork, 2).await;
        fork.close();
        let again = restore(&path).await;
        is_after(&again, 1).await;
        again.close();
    });
}

#[test]
fn a_history_that_was_not_read_is_held_to_its_bounds() {
    block_on(async {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("session.belljar");
        let options = SessionOptions::new().image("core").history(4, 64 << 20);
        let session = session_on(runtime(), options).await;
        for n in 1..=4 {
            out(&session, &format!("n = {n}")).await;
        }
        session.checkpoint(&path).await.unwrap();
        session.close();
        let restored = restore(&path).await;
        for n in 5..=6 {
            out(&restored, &format!("n = {n}")).await;
        }
        let runs = restored.history().await.unwrap();
        let runs: Vec<u64> = runs.iter().map(|run| run.execution).collect();
        assert_eq!(runs, [3, 4, 5, 6]);
        let (error, _) = told(restored.rewind(2).await);
        assert!(
            error.ends_with("its history holds runs 3 to 6, and 0 is its beginning"),
            "{error}"
        );
        restored.rewind(3).await.unwrap();
        assert_eq!(out(&restored, "n").await, "3\n");
        restored.close();
    });
}

/// Counts reads from a store that keeps its chunks elsewhere.
#[derive(Debug, Default)]
struct Counting {
    inner: MemoryStore,
    read: AtomicUsize,
    bytes: AtomicUsize,
}

impl Store for Counting {
    fn get<'a>(&'a self, key: &'a str, max: u64) -> Answer<'a, Option<Blob>> {
        Box::pin(async move {
            let blob = self.inner.get(key, max).await?;
            self.read.fetch_add(1, Ordering::Relaxed);
            let bytes = blob.as_ref().map_or(0, |blob| blob.bytes.len());
            self.bytes.fetch_add(bytes, Ordering::Relaxed);
            Ok(blob)
        })
    }

    fn put<'a>(&'a self, key: &'a str, bytes: Bytes, condition: Condition) -> Answer<'a, Put> {
        self.inner.put(key, bytes, condition)
    }

    fn list<'a>(&'a self, folder: &'a str) -> Answer<'a, Vec<Entry>> {
        self.inner.list(folder)
    }

    fn delete<'a>(&'a self, key: &'a str) -> Answer<'a, ()> {
        self.inner.delete(key)
    }
}

#[test]
fn restoring_costs_what_the_latest_state_is() {
    block_on(async {
        let counting = Arc::new(Counting::default());
        let store: Arc<dyn Store> = Arc::clone(&counting) as _;
        let session = core().await;
        let mut reads = Vec::new();
        for n in 1..=30 {
            out(&session, &format!("import os\nn = {n}\nx = os.urandom(200_000)")).await;
            if ![10, 30].contains(&n) {
                continue;
            }
            // All of its parts are written, as for a new session.
            let key = format!("states/{n}");
            let file = tempfile::NamedTempFile::new().unwrap();
            session.checkpoint(file.path()).await.unwrap();
            let copy = restore(file.path()).await;
            copy.save(&store, &key, Condition::Absent).await.unwrap().unwrap();
            copy.close();
            counting.read.store(0, Ordering::Relaxed);
            let restored =
                runtime().restore(RestoreOptions::stored(Arc::clone(&store), &key)).await.unwrap();
            run(&restored, Request::new("x = len(x)")).await;
            reads.push(counting.read.swap(0, Ordering::Relaxed));
            restored.rewind(n - 5).await.unwrap();
            assert_eq!(out(&restored, "print(n, len(x))").await, format!("{} 200000\n", n - 5));
            let past = counting.read.load(Ordering::Relaxed);
            assert!(past > n as usize, "{past} chunks of {n} runs");
            restored.close();
        }
        assert!(reads[1] <= reads[0] + 2, "{reads:?}");
        session.close();
    });
}

async fn stored(store: &Arc<dyn Store>, key: &str) -> Session {
    let options = RestoreOptions::stored(Arc::clone(store), key);
    runtime().restore(options).await.unwrap_or_else(|e| panic!("{}", chain(&e)))
}

#[test]
fn what_is_saved_to_where_it_came_from_is_not_read_for_that() {
    block_on(async {
        let counting = Arc::new(Counting::default());
        let store: Arc<dyn Store> = Arc::clone(&counting) as _;
        let save = async |session: &Session, key: &str| {
            let saved = session.save(&store, key, Condition::Absent).await;
            saved.unwrap_or_else(|e| panic!("{}", chain(&e))).expect("nothing is under that key")
        };
        let session = core().await;
        for n in 1..=20 {
            let code =
                format!("import os\nn = {n}\nx = os.urandom(200_000)\nopen('f', 'w').write('{n}')");
            out(&session, &code).await;
        }
        assert!(save(&session, "states/a").await.bytes > 4 << 20);
        session.close();

        let look = "print(n, len(x), open('f').read())";
        let restored = stored(&store, "states/a").await;
        out(&restored, "y = 1").await;
        counting.bytes.store(0, Ordering::Relaxed);
        let saved = save(&restored, "states/b").await;
        let read = counting.bytes.load(Ordering::Relaxed);
        assert!(read < 1 << 20 && saved.bytes < 1 << 20, "{read} bytes for {saved:?}");
        let other = stored(&store, "states/b").await;
        assert_eq!(other.history().await.unwrap().len(), 21);
        other.rewind(10).await.unwrap();
        assert_eq!(out(&other, look).await, "10 200000 10\n");
        other.close();

        // Named chunks can still be read, and are named again.
        let fork = restored.fork().await.unwrap();
        for n in [7, 5] {
            restored.rewind(n).await.unwrap();
            assert_eq!(out(&restored, look).await, format!("{n} 200000 {n}\n"));
        }
        restored.rewind(5).await.unwrap();
        let saved = save(&restored, "states/c").await;
        assert_eq!(saved.chunks, 0, "{saved:?}");
        restored.close();
        fork.rewind(2).await.unwrap();
        assert_eq!(out(&fork, look).await, "2 200000 2\n");
        fork.close();
        let other = stored(&store, "states/c").await;
        assert_eq!(out(&other, look).await, "5 200000 5\n");
        // All of it is written to another store.
        let elsewhere: Arc<dyn Store> = Arc::new(MemoryStore::default());
        other.save(&elsewhere, "states/d", Condition::Absent).await.unwrap().unwrap();
        other.close();
        let moved = stored(&elsewhere, "states/d").await;
        moved.rewind(1).await.unwrap();
        assert_eq!(out(&moved, look).await, "1 200000 1\n");
        moved.close();
    });
}

/// A session that moves between nodes without its past being read has the same limits as any other.
/// that stays.
#[test]
fn a_history_that_nobody_reads_does_not_grow() {
    block_on(async {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
        let options = || SessionOptions::new().image("core").history(100, 4 << 20);
        let code = "import os\nx = os.urandom(500_000)";
        let stays = session_on(runtime(), options()).await;
        let mut session = session_on(runtime(), options()).await;
        let mut runs = 0;
        for n in 0..12 {
            out(&stays, code).await;
            out(&session, code).await;
            let key = format!("states/{n}");
            session.save(&store, &key, Condition::Absent).await.unwrap().unwrap();
            session.close();
            session = stored(&store, &key).await;
            runs = session.history().await.unwrap().len();
        }
        let expected = stays.history().await.unwrap().len();
        assert!(expected < 12 && runs.abs_diff(expected) <= 1, "{runs} runs, and not {expected}");
        stays.close();
        session.rewind(11).await.unwrap();
        assert_eq!(out(&session, "len(x)").await, "500000\n");
        session.close();
    });
}

#[test]
fn the_past_is_read_wherever_it_is_asked_for() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    let begin = crate::support::tokio(1);
    let restored = begin.block_on(async {
        let session = with_past().await;
        session.save(&store, "states/a", Condition::Absent).await.unwrap().unwrap();
        session.close();
        stored(&store, "states/a").await
    });
    drop(begin);
    block_on(async {
        restored.rewind(2).await.unwrap();
        is_after(&restored, 2).await;
        restored.close();
    });
}

#[test]
fn a_store_that_fails_for_a_while_loses_nothing() {
    block_on(async {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
        let session = with_past().await;
        session.save(&store, "states/a", Condition::Absent).await.unwrap().unwrap();
        session.close();
        let options = RestoreOptions::stored(Arc::clone(&store), "states/a");
        let restored = runtime().restore(options).await.unwrap();
        let mut gone = Vec::new();
        for entry in store.list("chunks").await.unwrap() {
            let blob = store.get(&entry.key, u64::MAX).await.unwrap().unwrap();
            store.delete(&entry.key).await.unwrap();
            gone.push((entry.key, blob.bytes));
        }
        is_after(&restored, 5).await;
        let (error, _) = told(restored.rewind(1).await);
        assert!(error.ends_with(" is missing"), "{error}");
        for (key, bytes) in gone {
            let _ = store.put(&key, bytes, Condition::Absent).await.unwrap();
        }
        restored.rewind(1).await.unwrap();
        is_after(&restored, 1).await;
        restored.close();
    });
}

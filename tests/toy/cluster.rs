//! Sessions of a store: on any node, on one at a time, and never lost.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use belljar::cluster::{NodeOptions, StoredSessions};
use belljar::error::SessionError;
use belljar::store::{
    Answer, Blob, Condition, DirectoryStore, Entry, MemoryStore, Put, Store, StoreError,
};
use belljar::{Error, Request, Runtime, SessionOptions};
use bytes::Bytes;
use serde_json::Map;

use super::{report, runtime_in, succeeded};

const LEASE: Duration = Duration::from_millis(600);

/// A node with its own runtime, as in another process.
fn node(dir: &Path, store: &Arc<impl Store + 'static>) -> (StoredSessions, Runtime) {
    let runtime = runtime_in(dir);
    let options = NodeOptions::default().lease(LEASE).patience(2 * LEASE);
    let store = Arc::clone(store) as Arc<dyn Store>;
    (StoredSessions::new(runtime.clone(), store, options).unwrap(), runtime)
}

async fn start(sessions: &StoredSessions, runtime: &Runtime) -> String {
    let options = SessionOptions::new().init_code("set l 0");
    let session = runtime.session(options).await.unwrap();
    sessions.add(session, Map::new()).await.unwrap()
}

/// A run in a session; returns its output, and the reason for an earlier loss.
async fn run(
    sessions: &StoredSessions,
    id: &str,
    code: &str,
) -> Result<(String, Option<String>), Error> {
    let mut claim = sessions.claim_run(id).await?;
    let outcome = claim.run(Request::new(code)).await?;
    claim.release().await?;
    let lost = report(&outcome).restart_reason.clone();
    Ok((outcome.stdout, lost))
}

fn out(printed: &str) -> (String, Option<String>) {
    (format!("{printed}\n"), None)
}

/// A store that a node can be disconnected from: its requests are then not answered.
#[derive(Debug)]
struct Cable {
    store: Arc<MemoryStore>,
    is_cut: AtomicBool,
}

impl Cable {
    async fn pass(&self) {
        while self.is_cut.load(Ordering::Acquire) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

impl Store for Cable {
    fn get<'a>(&'a self, key: &'a str, max: u64) -> Answer<'a, Option<Blob>> {
        Box::pin(async move {
            self.pass().await;
            self.store.get(key, max).await
        })
    }

    fn put<'a>(&'a self, key: &'a str, bytes: Bytes, condition: Condition) -> Answer<'a, Put> {
        Box::pin(async move {
            self.pass().await;
            self.store.put(key, bytes, condition).await
        })
    }

    fn list<'a>(&'a self, folder: &'a str) -> Answer<'a, Vec<Entry>> {
        Box::pin(async move {
            self.pass().await;
            self.store.list(folder).await
        })
    }

    fn delete<'a>(&'a self, key: &'a str) -> Answer<'a, ()> {
        Box::pin(async move {
            self.pass().await;
            self.store.delete(key).await
        })
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn any_node_goes_on_with_a_session() {
    let dir = tempfile::tempdir().unwrap();
    let store = Arc::new(DirectoryStore::open(dir.path().join("store")).unwrap());
    let (one, runtime) = node(dir.path(), &store);
    let (other, _other) = node(dir.path(), &store);
    let id = start(&one, &runtime).await;
    for turn in 0..6 {
        let node = if turn % 3 == 2 { &other } else { &one };
        let code = format!("add l 1\nappend n {turn}\nread n");
        let printed: String = (0..=turn).map(|turn| turn.to_string()).collect();
        let (found, lost) = run(node, &id, &code).await.unwrap();
        assert!(found == printed && lost.is_none(), "{found} {lost:?}");
    }
    assert_eq!(run(&one, &id, "get l").await.unwrap(), out("6"));
    let counts = (one.counts(), other.counts());
    assert_eq!((counts.0.woken, counts.0.found, counts.1.woken), (2, 3, 2), "{counts:?}");
    let reading = other.read(&id).await.unwrap();
    assert_eq!(reading.info().execution, 7);
    assert_eq!(reading.session().history().await.unwrap().len(), 7);
    drop(reading);
    // Of all states only the last is stored.
    let left = store.list("sessions").await.unwrap();
    assert_eq!(left.len(), 2, "{left:?}");
    one.remove(&id).await.unwrap();
    for node in [&one, &other] {
        let gone = run(node, &id, "get l").await;
        assert!(matches!(gone, Err(Error::Session(SessionError::NotFound { .. }))), "{gone:?}");
    }
    assert!(store.list("sessions").await.unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_waits_for_another_that_is_alive() {
    let dir = tempfile::tempdir().unwrap();
    let store = Arc::new(MemoryStore::new());
    let (one, runtime) = node(dir.path(), &store);
    let (other, _other) = node(dir.path(), &store);
    let id = start(&one, &runtime).await;
    let claim = one.claim_run(&id).await.unwrap();
    // For longer than its lease, which it renews.
    let begun = Instant::now();
    let refused = run(&other, &id, "get l").await;
    assert!(begun.elapsed() >= 2 * LEASE);
    let Err(Error::Session(SessionError::Elsewhere { node, .. })) = refused else {
        panic!("{refused:?}");
    };
    assert_eq!(node, one.name());
    let waiting = tokio::spawn(async move { run(&other, &id, "get l").await });
    tokio::time::sleep(Duration::from_millis(100)).await;
    claim.release_unchanged().await.unwrap();
    assert_eq!(waiting.await.unwrap().unwrap(), out("0"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_stalled_cannot_write_late() {
    let dir = tempfile::tempdir().unwrap();
    let store = Arc::new(MemoryStore::new());
    let cable = Arc::new(Cable {
        store: Arc::clone(&store),
        is_cut: AtomicBool::new(false),
    });
    let (stalled, runtime) = node(dir.path(), &cable);
    let (other, _other) = node(dir.path(), &store);
    let id = start(&stalled, &runtime).await;
    run(&stalled, &id, "set l 1").await.unwrap();
    let mut claim = stalled.claim_run(&id).await.unwrap();
    cable.is_cut.store(true, Ordering::Release);
    let outcome = claim.run(Request::new("set l 2")).await.unwrap();
    assert!(outcome.success);
    // It gives no sign of life: another node takes the session, and reports the loss.
    let (printed, lost) = run(&other, &id, "get l").await.unwrap();
    assert_eq!(printed, "1\n");
    let told = format!(
        "run 2 was lost: node {} went away before its end was written down",
        stalled.name()
    );
    assert_eq!(lost, Some(told));
    assert_eq!(other.counts().taken_over, 1);
    // Reported once.
    assert_eq!(run(&other, &id, "get l").await.unwrap(), out("1"));
    cable.is_cut.store(false, Ordering::Release);
    let late = claim.release_behind().await;
    assert!(matches!(late, Err(Error::Session(SessionError::Taken { .. }))), "{late:?}");
    assert_eq!(stalled.counts().lost, 1);
    stalled.settled().await;
    // It continues from the stored state.
    assert_eq!(run(&stalled, &id, "add l 2\nget l").await.unwrap().0, "3\n");
    let mut states = store.list("sessions").await.unwrap();
    for _ in 0..100 {
        if states.len() == 2 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
        states = store.list("sessions").await.unwrap();
    }
    assert_eq!(states.len(), 2, "states are left: {states:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_that_nobody_waits_for_is_given_back() {
    let dir = tempfile::tempdir().unwrap();
    let store = Arc::new(MemoryStore::new());
    let (one, runtime) = node(dir.path(), &store);
    let (other, _other) = node(dir.path(), &store);
    let id = start(&one, &runtime).await;
    for micros in [0, 50, 200, 1000, 5000] {
        let claim = one.claim_run(&id);
        let _ = tokio::time::timeout(Duration::from_micros(micros), claim).await;
    }
    let mut claim = one.claim_run(&id).await.unwrap();
    let running = claim.run(Request::new("spin"));
    assert!(tokio::time::timeout(Duration::from_millis(50), running).await.is_err());
    drop(claim);
    one.settled().await;
    // As on one node: the cancelled run is gone.
    assert_eq!(run(&other, &id, "get l").await.unwrap(), out("0"));
}

/// A handle that outlives its claim or reading would otherwise change a session that this node does
/// not hold.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn handles_change_a_session_as_long_as_it_is_claimed() {
    fn is_refused<T: std::fmt::Debug>(changed: &Result<T, Error>) -> bool {
        matches!(changed, Err(Error::Session(SessionError::NotHeld { .. })))
    }

    let dir = tempfile::tempdir().unwrap();
    let store = Arc::new(MemoryStore::new());
    let (one, runtime) = node(dir.path(), &store);
    let (other, _other) = node(dir.path(), &store);
    let options = SessionOptions::new().init_code("set l 0");
    let added = runtime.session(options).await.unwrap();
    let id = one.add(added.clone(), Map::new()).await.unwrap();
    let claim = one.claim(&id).await.unwrap();
    let claimed = claim.session().clone();
    succeeded(&claimed.run(Request::new("set l 1")).await.unwrap());
    claim.release().await.unwrap();
    let reading = one.read(&id).await.unwrap();
    let read = reading.session().clone();
    let registered = runtime.sessions().get(&id).unwrap();
    for handle in [&added, &claimed, &read, &registered] {
        assert!(is_refused(&handle.run(Request::new("set l 2")).await));
        assert!(is_refused(&handle.rewind(0).await));
        assert!(is_refused(&handle.rewind_keeping(0).await.map(drop)));
        assert!(is_refused(&handle.set("l", 2).await));
        assert!(is_refused(&handle.workspace().write("f", &b"2"[..]).await));
        assert!(is_refused(&handle.workspace().make_dir("d").await));
        assert!(is_refused(&handle.workspace().replace_with(&added.workspace()).await));
        assert!(!handle.interrupt());
        handle.close();
        assert_eq!(handle.history().await.unwrap().len(), 1, "it can be read");
    }
    assert!(is_refused(&runtime.sessions().delete(&id)));
    drop(reading);
    // Its own state, and that of the other nodes.
    assert_eq!(run(&one, &id, "get l").await.unwrap(), out("1"));
    assert_eq!(run(&other, &id, "get l").await.unwrap(), out("1"));
    // Changes of a claim that is released as unchanged are dropped.
    let claim = one.claim(&id).await.unwrap();
    succeeded(&claim.session().run(Request::new("set l 3")).await.unwrap());
    claim.release_unchanged().await.unwrap();
    assert_eq!(run(&one, &id, "get l").await.unwrap(), out("1"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_that_is_removed_elsewhere_is_interrupted() {
    let dir = tempfile::tempdir().unwrap();
    let store = Arc::new(MemoryStore::new());
    let (one, runtime) = node(dir.path(), &store);
    let (other, _other) = node(dir.path(), &store);
    let id = start(&one, &runtime).await;
    for removes in [false, true] {
        let mut claim = one.claim_run(&id).await.unwrap();
        let begun = Instant::now();
        let running = tokio::spawn(async move {
            let outcome = claim.run(Request::new("spin").timeout(Duration::from_secs(20)));
            (outcome.await, claim.release().await)
        });
        tokio::time::sleep(Duration::from_millis(100)).await;
        if removes {
            other.remove(&id).await.unwrap();
        } else {
            assert!(other.interrupt(&id).await.unwrap());
        }
        let (outcome, released) = running.await.unwrap();
        assert!(!outcome.unwrap().success && begun.elapsed() < Duration::from_secs(10));
        let is_taken = matches!(released, Err(Error::Session(SessionError::Taken { .. })));
        assert_eq!(is_taken, removes, "{released:?}");
    }
    one.settled().await;
    assert!(!other.interrupt(&id).await.unwrap());
}

/// A failing store does not lose existing data.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_fails_for_a_moment_is_asked_again() {
    #[derive(Debug)]
    struct Shaky(MemoryStore, AtomicBool);

    impl Shaky {
        fn works(&self, key: &str) -> Result<(), StoreError> {
            if self.1.swap(false, Ordering::AcqRel) {
                return Err(StoreError::failed("reach", key)("it is away"));
            }
            Ok(())
        }
    }

    impl Store for Shaky {
        fn get<'a>(&'a self, key: &'a str, max: u64) -> Answer<'a, Option<Blob>> {
            self.0.get(key, max)
        }

        fn put<'a>(&'a self, key: &'a str, bytes: Bytes, condition: Condition) -> Answer<'a, Put> {
            Box::pin(async move {
                self.works(key)?;
                self.0.put(key, bytes, condition).await
            })
        }

        fn list<'a>(&'a self, folder: &'a str) -> Answer<'a, Vec<Entry>> {
            self.0.list(folder)
        }

        fn delete<'a>(&'a self, key: &'a str) -> Answer<'a, ()> {
            self.0.delete(key)
        }
    }

    let dir = tempfile::tempdir().unwrap();
    let store = Arc::new(Shaky(MemoryStore::new(), AtomicBool::new(false)));
    let (one, runtime) = node(dir.path(), &store);
    let (other, _other) = node(dir.path(), &store);
    let id = start(&one, &runtime).await;
    let mut claim = one.claim_run(&id).await.unwrap();
    claim.run(Request::new("set l 1")).await.unwrap();
    store.1.store(true, Ordering::Release);
    claim.release().await.unwrap();
    store.1.store(true, Ordering::Release);
    let refused = run(&other, &id, "get l").await;
    assert!(matches!(refused, Err(Error::Store(_))), "{refused:?}");
    assert_eq!(run(&other, &id, "get l").await.unwrap(), out("1"));
}

//! A store fails at any operation of restoring, saving, removing and collecting, and loses nothing.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use belljar::cluster::{NodeOptions, StoredSessions, collect_chunks};
use belljar::session::RestoreOptions;
use belljar::store::{Answer, Blob, Condition, Entry, MemoryStore, Put, Store, StoreError};
use belljar::{Error, Request, Runtime, Session, SessionOptions};
use bytes::Bytes;

use super::{out, runtime, session};

/// Short delays of retries.
const LEASE: Duration = Duration::from_millis(60);

/// Counts all operations, and makes some of them fail.
#[derive(Debug, Default)]
struct Failing {
    store: MemoryStore,
    count: AtomicUsize,
    /// The numbers of failing operations, and whether they fail before having an effect.
    plan: Mutex<Vec<(usize, bool)>>,
}

impl Failing {
    async fn ask<T>(&self, answer: Answer<'_, T>) -> Result<T, StoreError> {
        let number = self.count.fetch_add(1, Ordering::AcqRel);
        let failing = self.plan.lock().unwrap().iter().find(|(at, _)| *at == number).copied();
        let failed = || StoreError::failed("reach", "it")("it is away");
        match failing {
            None => answer.await,
            Some((_, true)) => Err(failed()),
            Some((_, false)) => answer.await.and_then(|_| Err(failed())),
        }
    }
}

impl Store for Failing {
    fn get<'a>(&'a self, key: &'a str, max: u64) -> Answer<'a, Option<Blob>> {
        Box::pin(async move { self.ask(Box::pin(async { self.store.get(key, max).await })).await })
    }

    fn put<'a>(&'a self, key: &'a str, bytes: Bytes, condition: Condition) -> Answer<'a, Put> {
        let put = Box::pin(async move { self.store.put(key, bytes, condition).await });
        Box::pin(self.ask(put))
    }

    fn list<'a>(&'a self, folder: &'a str) -> Answer<'a, Vec<Entry>> {
        Box::pin(async move { self.ask(Box::pin(async { self.store.list(folder).await })).await })
    }

    fn delete<'a>(&'a self, key: &'a str) -> Answer<'a, ()> {
        Box::pin(async move { self.ask(Box::pin(async { self.store.delete(key).await })).await })
    }
}

/// Retries until success: at most as often as operations fail.
async fn again<T, E: std::error::Error>(mut work: impl AsyncFnMut() -> Result<T, E>) -> T {
    for _ in 0..5 {
        if let Ok(done) = work().await {
            return done;
        }
    }
    work().await.unwrap_or_else(|error| panic!("{error:?}"))
}

async fn restored(runtime: &Runtime, store: &Arc<dyn Store>, key: &str) -> Session {
    again(async || runtime.restore(RestoreOptions::stored(Arc::clone(store), key)).await).await
}

/// Saves under the next key.
async fn saved(session: &Session, store: &Arc<dyn Store>, keys: &mut Vec<String>) {
    again(async || {
        keys.push(format!("states/{}", keys.len()));
        let key = &keys[keys.len() - 1];
        let saved = session.save(store, key, Condition::Absent).await?;
        assert!(saved.is_some(), "there is something under {key}");
        Ok::<_, Error>(())
    })
    .await;
}

/// The number of operations so far.
async fn scenario(runtime: &Runtime, uploaded: Bytes, plan: Vec<(usize, bool)>) -> usize {
    let failing = Arc::new(Failing::default());
    let put = failing.store.put("states/0", uploaded, Condition::Absent).await.unwrap();
    assert_ne!(put, Put::Refused);
    *failing.plan.lock().unwrap() = plan;
    let store = Arc::clone(&failing) as Arc<dyn Store>;
    let mut keys = vec!["states/0".to_owned()];
    let session = restored(runtime, &store, "states/0").await;
    saved(&session, &store, &mut keys).await;
    let first = keys[keys.len() - 1].clone();
    out(&session, "add x 1\ngrow 2").await;
    saved(&session, &store, &mut keys).await;
    let last = keys[keys.len() - 1].clone();
    session.close();
    for key in keys.iter().filter(|key| ![&first, &last].contains(key)) {
        again(async || store.delete(key).await).await;
    }
    for _ in 0..2 {
        again(async || collect_chunks(&store, "states", Duration::ZERO).await).await;
    }
    let count = failing.count.load(Ordering::Acquire);
    failing.plan.lock().unwrap().clear();
    for (key, expected) in [(first, "1\n"), (last, "2\n")] {
        let restored = restored(runtime, &store, &key).await;
        assert_eq!(out(&restored, "get x").await, expected, "{key}");
        restored.close();
    }
    count
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_operation_of_a_store_fails_what_was_saved_can_be_read() {
    let session = session().await;
    out(&session, "set x 1\ngrow 4\nfill f 200000").await;
    let file = tempfile::NamedTempFile::new().unwrap();
    session.checkpoint(file.path()).await.unwrap();
    session.close();
    let uploaded = Bytes::from(std::fs::read(file.path()).unwrap());
    let runtime = runtime();
    let count = scenario(&runtime, uploaded.clone(), Vec::new()).await;
    assert!(count > 20, "{count}");
    for at in 0..count {
        for is_before in [true, false] {
            scenario(&runtime, uploaded.clone(), vec![(at, is_before)]).await;
            scenario(&runtime, uploaded.clone(), vec![(at, is_before), (at + 1, is_before)]).await;
        }
    }
}

/// A node that adds, changes and removes a session; returns the number of operations.
async fn removal(runtime: &Runtime, plan: Vec<(usize, bool)>) -> usize {
    let failing = Arc::new(Failing::default());
    *failing.plan.lock().unwrap() = plan;
    let store = Arc::clone(&failing) as Arc<dyn Store>;
    let options = NodeOptions::default().lease(LEASE).patience(4 * LEASE);
    let node = StoredSessions::new(runtime.clone(), Arc::clone(&store), options).unwrap();
    let id = again(async || {
        let session = runtime.session(SessionOptions::new()).await?;
        node.add(session, serde_json::Map::new()).await
    })
    .await;
    again(async || {
        let mut claim = node.claim_run(&id).await?;
        claim.run(Request::new("grow 2\nfill f 25600")).await?;
        claim.release().await
    })
    .await;
    again(async || node.interrupt(&id).await).await;
    again(async || node.remove(&id).await).await;
    again(async || node.remove_strays(Duration::ZERO).await).await;
    for _ in 0..2 {
        again(async || collect_chunks(&store, "sessions", Duration::ZERO).await).await;
    }
    let count = failing.count.load(Ordering::Acquire);
    failing.plan.lock().unwrap().clear();
    node.settled().await;
    assert_eq!(node.look(&id).await.unwrap(), None);
    let taken = node.claim(&id).await.err().unwrap();
    // A session whose creation the store did not confirm.
    assert_eq!(taken.code(), "session.not_found", "{taken:?}");
    for other in node.ids().await.unwrap() {
        node.remove(&other).await.unwrap();
    }
    node.remove_strays(Duration::ZERO).await.unwrap();
    for _ in 0..3 {
        collect_chunks(&store, "sessions", Duration::ZERO).await.unwrap();
    }
    let left: Vec<String> =
        store.list("").await.unwrap().into_iter().map(|entry| entry.key).collect();
    assert_eq!(left, ["condemned"], "something of a removed session stays");
    count
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_operation_of_a_store_fails_nothing_of_a_removed_session_stays() {
    let runtime = runtime();
    let count = removal(&runtime, Vec::new()).await;
    assert!(count > 20, "{count}");
    for at in 0..count {
        for is_before in [true, false] {
            removal(&runtime, vec![(at, is_before)]).await;
            removal(&runtime, vec![(at, is_before), (at + 1, is_before)]).await;
        }
    }
}

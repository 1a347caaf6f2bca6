//! Sessions in a content-addressed store: only changes are written, shared chunks are stored once,
//! and unused ones are removed.

use std::sync::Arc;
use std::time::Duration;

use belljar::cluster::{CHUNK_GRACE, collect_chunks};
use belljar::session::{RestoreOptions, Saved};
use belljar::store::{Condition, DirectoryStore, MemoryStore, Put, Store};
use belljar::{Request, Runtime, Session, SessionOptions};

use super::{block_on, core, out, run, session_on, told};
use crate::support::{chain, runtime};

async fn save(session: &Session, store: &Arc<dyn Store>, key: &str) -> Saved {
    let saved = session.save(store, key, Condition::Absent).await;
    saved.unwrap_or_else(|e| panic!("{}", chain(&e))).expect("nothing is under that key")
}

async fn stored(runtime: &Runtime, store: &Arc<dyn Store>, key: &str) -> Session {
    let restored = runtime.restore(RestoreOptions::stored(Arc::clone(store), key)).await;
    restored.unwrap_or_else(|e| panic!("{}", chain(&e)))
}

async fn chunks(store: &Arc<dyn Store>) -> Vec<String> {
    store.list("chunks").await.unwrap().into_iter().map(|entry| entry.key).collect()
}

/// Four mebibytes of incompressible data, and files of all sizes.
const MUCH: &str = "
import os
big = bytearray(os.urandom(4 << 20))
open('large', 'wb').write(os.urandom(3 << 20))
for n in range(20): open(f'small_{n}', 'w').write('x' * n * 100)
gone = open('gone', 'w+b'); gone.write(b'nameless'); gone.flush(); os.unlink('gone')
";
const LOOK: &str = "print(sum(big), sum(open('large', 'rb').read()), len(open('small_19').read()), gone.seek(0), gone.read())";

async fn much() -> Session {
    let session = core().await;
    out(&session, MUCH).await;
    session
}

#[test]
fn what_has_changed_is_written() {
    block_on(async {
        let dir = tempfile::tempdir().unwrap();
        let memory: Arc<dyn Store> = Arc::new(MemoryStore::default());
        let directory: Arc<dyn Store> = Arc::new(DirectoryStore::open(dir.path()).unwrap());
        for store in [memory, directory] {
            let session = much().await;
            let first = save(&session, &store, "states/a-1").await;
            assert!(first.bytes > 7 << 20, "{first:?}");
            let again = save(&session, &store, "states/a-2").await;
            assert_eq!(again.chunks, 0, "{again:?}");
            out(&session, "big[:1 << 20] = os.urandom(1 << 20)").await;
            let change = save(&session, &store, "states/a-3").await;
            assert!((1 << 20..4 << 20).contains(&change.bytes), "{change:?}");
            assert!(change.chunks < 8, "{change:?}");
            out(&session, "open('small_3', 'w').write('other')").await;
            let change = save(&session, &store, "states/a-4").await;
            assert!(change.bytes < 1 << 20, "{change:?}");
            // A fork shares everything except its own changes.
            let fork = session.fork().await.unwrap();
            out(&fork, "y = 1").await;
            let forked = save(&fork, &store, "states/b-1").await;
            assert!(forked.bytes < 1 << 20, "{forked:?}");
            let expected = out(&session, LOOK).await;
            for key in ["states/a-4", "states/b-1"] {
                let restored = stored(runtime(), &store, key).await;
                // A node that has read it knows the existing chunks.
                let saved = save(&restored, &store, &format!("{key}-again")).await;
                assert_eq!(saved.chunks, 0, "{saved:?}");
                assert_eq!(out(&restored, LOOK).await, expected, "{key}");
                restored.rewind(1).await.unwrap();
                assert_eq!(out(&restored, "len(open('small_3').read())").await, "300\n");
                restored.close();
            }
            session.close();
            fork.close();
        }
    });
}

#[test]
fn chunks_of_one_session_are_those_of_another_with_the_same_bytes() {
    block_on(async {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
        let options = || {
            SessionOptions::new()
                .image("core")
                .deterministic(belljar::request::Deterministic::new(7))
        };
        let code = "x = bytes(range(256)) * (1 << 14)\nopen('f', 'wb').write(x)";
        let mut written = Vec::new();
        for key in ["states/a", "states/b"] {
            let session = session_on(runtime(), options()).await;
            out(&session, code).await;
            written.push(save(&session, &store, key).await);
            session.close();
        }
        assert!(written[0].chunks > 4, "{written:?}");
        // The states have different times, so each has its own document.
        assert!(written[1].chunks <= 4 && written[1].bytes < written[0].bytes, "{written:?}");
    });
}

#[test]
fn one_that_is_run_on_for_long_does_not_grow() {
    block_on(async {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
        let options = SessionOptions::new().image("core").history(3, 64 << 20);
        let session = session_on(runtime(), options).await;
        let mut listed = Vec::new();
        for n in 0..40 {
            out(&session, &format!("x_{n} = list(range({n} * 1000))")).await;
            let key = format!("states/a-{n}");
            save(&session, &store, &key).await;
            listed.push(store.get(&key, 1 << 20).await.unwrap().unwrap().bytes.len());
        }
        assert!(listed[39] < 4 * listed[5], "{listed:?}");
        let restored = stored(runtime(), &store, "states/a-39").await;
        assert_eq!(
            out(&restored, "sum(len(globals()[f'x_{n}']) for n in range(40))").await,
            "780000\n"
        );
        restored.close();
        session.close();
    });
}

#[test]
fn conditions_hold() {
    block_on(async {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
        let session = core().await;
        let first = save(&session, &store, "states/a").await;
        out(&session, "x = 1").await;
        assert_eq!(session.save(&store, "states/a", Condition::Absent).await.unwrap(), None);
        let replaced = session.save(&store, "states/a", Condition::Is(first.version.clone())).await;
        assert!(replaced.unwrap().is_some());
        let late = session.save(&store, "states/a", Condition::Is(first.version)).await;
        assert_eq!(late.unwrap(), None);
        session.close();
    });
}

/// A restored session with all of its states loaded.
async fn whole(options: RestoreOptions) -> Result<(), belljar::Error> {
    let session = runtime().restore(options).await?;
    let written = session.checkpoint_to(std::io::sink()).await;
    session.close();
    written
}

#[test]
fn what_is_missing_is_named() {
    block_on(async {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
        let session = core().await;
        out(&session, "x = 1").await;
        save(&session, &store, "states/a").await;
        let options = |key: &str| RestoreOptions::stored(Arc::clone(&store), key);
        let (error, _) = told(runtime().restore(options("states/none")).await);
        assert!(error.starts_with("cannot open the checkpoint states/none"), "{error}");
        for key in chunks(&store).await {
            let name = key.rsplit('/').next().unwrap();
            let blob = store.get(&key, u64::MAX).await.unwrap().unwrap();
            store.delete(&key).await.unwrap();
            let (error, _) = told(whole(options("states/a")).await);
            assert_eq!(
                error,
                format!("states/a is not a usable checkpoint: its chunk {name} is missing")
            );
            let other = zstd::bulk::compress(b"something else", 1).unwrap();
            let _ = store.put(&key, other.into(), Condition::Absent).await.unwrap();
            let (error, _) = told(whole(options("states/a")).await);
            assert_eq!(
                error,
                format!(
                    "states/a is not a usable checkpoint: its chunk {name} was cut short or altered"
                )
            );
            let _ = store.put(&key, blob.bytes, Condition::Always).await.unwrap();
        }
        assert_eq!(out(&stored(runtime(), &store, "states/a").await, "x").await, "1\n");
        session.close();
    });
}

#[test]
fn chunks_that_nobody_names_go() {
    block_on(async {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
        let session = much().await;
        save(&session, &store, "states/a-1").await;
        out(&session, "big[:] = os.urandom(4 << 20)").await;
        session.rewind(0).await.unwrap();
        out(&session, "import os\nz = os.urandom(1 << 20)").await;
        save(&session, &store, "states/a-2").await;
        let all = chunks(&store).await.len();
        let collect = |grace| collect_chunks(&store, "states", grace);
        // Both states exist: no chunk is marked for removal.
        let collected = collect(Duration::ZERO).await.unwrap();
        assert_eq!((collected.chunks, collected.named, collected.condemned), (all, all, 0));
        store.delete("states/a-1").await.unwrap();
        let condemned = collect(Duration::ZERO).await.unwrap();
        assert!(condemned.condemned > 4 && condemned.removed == 0, "{condemned:?}");
        assert_eq!(chunks(&store).await.len(), all);
        // Too early.
        assert_eq!(collect(CHUNK_GRACE).await.unwrap().removed, 0);
        let removed = collect(Duration::ZERO).await.unwrap();
        assert_eq!(removed.removed, condemned.condemned);
        assert_eq!(chunks(&store).await.len(), all - removed.removed);
        let restored = stored(runtime(), &store, "states/a-2").await;
        assert_eq!(out(&restored, "len(z)").await, format!("{}\n", 1 << 20));
        restored.close();
        session.close();
    });
}

/// A checkpoint with embedded chunks has put none of them into the store.
#[test]
fn what_was_restored_from_an_uploaded_checkpoint_is_saved_whole() {
    block_on(async {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
        let session = much().await;
        let expected = out(&session, LOOK).await;
        let file = tempfile::NamedTempFile::new().unwrap();
        session.checkpoint(file.path()).await.unwrap();
        let uploaded = std::fs::read(file.path()).unwrap();
        let put = store.put("states/a", uploaded.into(), Condition::Absent).await.unwrap();
        assert_ne!(put, Put::Refused);
        let restored = stored(runtime(), &store, "states/a").await;
        let saved = save(&restored, &store, "states/b").await;
        assert!(saved.chunks > 4, "{saved:?}");
        store.delete("states/a").await.unwrap();
        let again = stored(runtime(), &store, "states/b").await;
        assert_eq!(out(&again, LOOK).await, expected);
        for session in [session, restored, again] {
            session.close();
        }
    });
}

/// A store in a directory needs a blocking thread for each chunk. A save must not occupy these
/// threads while it waits for them.
#[test]
fn one_blocking_thread_is_enough_to_save() {
    let tokio = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .max_blocking_threads(1)
        .enable_all()
        .build()
        .unwrap();
    tokio.block_on(async {
        let dir = tempfile::tempdir().unwrap();
        let store: Arc<dyn Store> = Arc::new(DirectoryStore::open(dir.path()).unwrap());
        let session = much().await;
        let saves = async {
            let forks = [session.fork().await.unwrap(), session.fork().await.unwrap()];
            let saved = tokio::join!(
                save(&forks[0], &store, "states/a"),
                save(&forks[1], &store, "states/b")
            );
            assert!(saved.0.chunks + saved.1.chunks > 4, "{saved:?}");
            for fork in forks {
                fork.close();
            }
        };
        tokio::time::timeout(Duration::from_mins(1), saves).await.expect("a save hangs");
        let restored = stored(runtime(), &store, "states/b").await;
        assert_eq!(out(&restored, LOOK).await, out(&session, LOOK).await);
        for session in [session, restored] {
            session.close();
        }
    });
}

#[test]
fn what_is_condemned_and_named_again_stays() {
    block_on(async {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
        let session = much().await;
        let expected = out(&session, LOOK).await;
        save(&session, &store, "states/a-1").await;
        store.delete("states/a-1").await.unwrap();
        let condemned = collect_chunks(&store, "states", Duration::ZERO).await.unwrap();
        assert!(condemned.condemned > 4, "{condemned:?}");
        // Another session with the same bytes, without knowledge of the store.
        let file = tempfile::NamedTempFile::new().unwrap();
        session.checkpoint(file.path()).await.unwrap();
        let other = runtime().restore(file.path()).await.unwrap();
        let saved = save(&other, &store, "states/b-1").await;
        let collected = collect_chunks(&store, "states", Duration::ZERO).await.unwrap();
        assert_eq!(
            collected.named + collected.removed,
            collected.chunks,
            "{saved:?} {collected:?}"
        );
        let restored = stored(runtime(), &store, "states/b-1").await;
        assert_eq!(out(&restored, LOOK).await, expected);
        for session in [session, other, restored] {
            session.close();
        }
    });
}

/// Earlier chunks are relied on only while the state that names them exists.
#[test]
fn what_was_removed_since_is_written_again() {
    block_on(async {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
        let collect = || collect_chunks(&store, "states", Duration::ZERO);
        let session = much().await;
        let expected = out(&session, LOOK).await;
        save(&session, &store, "states/a-1").await;
        let fork = session.fork().await.unwrap();
        // Marked and removed: by a removed state, and by a replaced one.
        store.delete("states/a-1").await.unwrap();
        collect().await.unwrap();
        assert!(collect().await.unwrap().removed > 4);
        save(&fork, &store, "states/b-1").await;
        let other = core().await;
        let replaced = other.save(&store, "states/b-1", Condition::Always).await.unwrap();
        assert!(replaced.is_some());
        collect().await.unwrap();
        assert!(collect().await.unwrap().removed > 4);
        save(&fork, &store, "states/b-2").await;
        // Only marked.
        store.delete("states/b-2").await.unwrap();
        assert!(collect().await.unwrap().condemned > 4);
        save(&fork, &store, "states/b-3").await;
        collect().await.unwrap();
        let restored = stored(runtime(), &store, "states/b-3").await;
        assert_eq!(out(&restored, LOOK).await, expected);
        for session in [session, fork, other, restored] {
            session.close();
        }
    });
}

/// Sessions are written continuously by several threads while chunks are collected.
#[test]
fn nothing_that_is_needed_goes_while_others_write() {
    block_on(async {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
        let mut writers = Vec::new();
        for writer in 0..3 {
            let store = Arc::clone(&store);
            writers.push(tokio::spawn(async move {
                let session = core().await;
                let mut last = None;
                for n in 0..12 {
                    // The same bytes are stored repeatedly.
                    let code =
                        format!("x = bytes([{}]) * 300_000\nopen('f', 'wb').write(x)", n % 3);
                    run(&session, Request::new(code)).await;
                    let key = format!("states/{writer}-{n}");
                    save(&session, &store, &key).await;
                    if let Some(last) = last.replace(key) {
                        store.delete(&last).await.unwrap();
                    }
                }
                session.close();
                last.unwrap()
            }));
        }
        let collector = tokio::spawn({
            let store = Arc::clone(&store);
            async move {
                loop {
                    // Not shorter than a write takes here.
                    let collected = collect_chunks(&store, "states", Duration::from_secs(2)).await;
                    collected.unwrap_or_else(|e| panic!("{}", chain(&e)));
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
            }
        });
        let mut keys = Vec::new();
        for writer in writers {
            keys.push(writer.await.unwrap());
        }
        assert!(!collector.is_finished(), "it fails on no account");
        collector.abort();
        for key in keys {
            let restored = stored(runtime(), &store, &key).await;
            assert_eq!(out(&restored, "len(x), x[0]").await, "(300000, 2)\n");
            restored.close();
        }
    });
}

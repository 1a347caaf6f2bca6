//! Callers that stop waiting at any time: the session is in one of two states, and reports which.

use std::pin::pin;
use std::task::Poll;

use belljar::session::RestoreOptions;
use belljar::{Request, Runtime, Session};

use super::{block_on, run, session_on};

/// Polls a future until it has been pending this many times, and drops it, which gives `None`.
async fn dropped_after<T>(pending: usize, future: impl Future<Output = T>) -> Option<T> {
    let mut future = pin!(future);
    let mut seen = 0;
    std::future::poll_fn(|context| match future.as_mut().poll(context) {
        Poll::Ready(done) => Poll::Ready(Some(done)),
        Poll::Pending => {
            seen += 1;
            if seen > pending {
                Poll::Ready(None)
            } else {
                Poll::Pending
            }
        }
    })
    .await
}

/// The session that a rewind keeps has a handle, or does not exist.
#[test]
fn a_rewind_that_is_dropped_leaves_no_session_behind() {
    block_on(async {
        let runtime = Runtime::builder().environment().build().unwrap();
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("session.belljar");
        let session = session_on(&runtime, belljar::SessionOptions::new().image("core")).await;
        for code in ["import os\nx = os.urandom(8 << 20)", "x = os.urandom(8 << 20)", "y = 1"] {
            assert!(run(&session, Request::new(code)).await.success);
        }
        session.checkpoint(&path).await.unwrap();
        session.close();
        let mut dropped = 0;
        for pending in 0.. {
            // Its earlier states are not yet loaded.
            let restored: Session = runtime.restore(RestoreOptions::file(&path)).await.unwrap();
            assert!(run(&restored, Request::new("z = 1")).await.success);
            let before = runtime.sessions().list().len();
            let kept = dropped_after(pending, restored.rewind_keeping(1)).await;
            let (kept, is_done) = (kept.transpose().unwrap(), runtime.sessions().list().len());
            assert_eq!(is_done, before + usize::from(kept.is_some()), "after {pending}");
            let left = if kept.is_some() { 1 } else { 4 };
            assert_eq!(restored.execution().await, left);
            restored.close();
            if let Some(kept) = kept {
                assert_eq!(kept.execution().await, 4);
                kept.close();
                break;
            }
            dropped += 1;
        }
        assert!(dropped > 0, "it was done at once");
    });
}

/// The files of a run that lost its interpreter stay as documented: until the next run.
#[test]
fn a_read_that_is_dropped_leaves_the_files_of_a_lost_run() {
    block_on(async {
        let session = super::core().await;
        assert!(run(&session, Request::new("open('f', 'w').write('kept')")).await.success);
        // Long enough that it is not read at once.
        let lost = "import os\nopen('f', 'wb').write(b'l' * (32 << 20))\nos._exit(1)";
        assert!(!run(&session, Request::new(lost)).await.success);
        let mut dropped = 0;
        for pending in 0..20 {
            dropped += usize::from(dropped_after(pending, session.read("f")).await.is_none());
            let read = session.read("f").await.unwrap();
            assert_eq!((read.len(), read[0]), (32 << 20, b'l'), "after {pending}");
        }
        assert!(dropped > 0, "it was done at once");
        session.close();
    });
}

/// A run has happened or it has not, in count and history alike, and the next outcome reports a
/// lost interpreter if no outcome has before.
#[test]
fn a_run_that_is_dropped_while_its_interpreter_is_restored_is_recorded() {
    block_on(async {
        let origin = super::core().await;
        // Files are restored on another thread, for which the end of the run waits.
        let code = "import os\nx = 1\nopen('f', 'wb').write(os.urandom(8 << 20))";
        assert!(run(&origin, Request::new(code)).await.success);
        let (mut counted, mut pending) = (0, 0);
        // With quick threads, the run is at its end when it is polled again.
        for _ in 0..1_000 {
            let session = origin.fork().await.unwrap();
            let exits = session.run(Request::new("import os\nos._exit(3)"));
            let told = dropped_after(pending, exits).await.transpose().unwrap();
            let execution = session.execution().await;
            let history = session.history().await.unwrap();
            let recorded: Vec<u64> = history.iter().map(|entry| entry.execution).collect();
            let expected: Vec<u64> = (1..=execution).collect();
            assert_eq!(recorded, expected, "dropped after {pending}");
            let next = run(&session, Request::new("print(x)")).await;
            assert_eq!(next.stdout, "1\n");
            let report = super::report(&next);
            session.close();
            if let Some(outcome) = told {
                assert_eq!(execution, 2);
                assert!(super::report(&outcome).interpreter_restarted, "{outcome:#?}");
                assert!(!report.interpreter_restarted, "{next:#?}");
                if counted > 0 {
                    break;
                }
                pending = 0;
                continue;
            }
            if execution == 2 {
                counted += 1;
                assert!(report.interpreter_restarted, "dropped after {pending}: {next:#?}");
            }
            pending += 1;
        }
        assert!(counted > 0, "it was never dropped after it had been counted");
        origin.close();
    });
}

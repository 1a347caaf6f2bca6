//! Callers that stop waiting at any moment: what is left is one of two states, and is told.

use std::pin::pin;
use std::task::Poll;

use belljar::{Request, RestoreOptions, Runtime, Session};

use super::{block_on, run, session_on};

/// Polls a future until it has been pending so many times, and then drops it, which gives `None`.
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

/// The session that a rewind keeps has a handle, or is not there.
#[test]
fn a_rewind_that_is_dropped_leaves_no_session_behind() {
    block_on(async {
        let runtime = Runtime::builder().build().unwrap();
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
            // Its earlier states are yet to be read.
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

/// The files of a run that lost its interpreter stay as long as documented: until the next run.
#[test]
fn a_read_that_is_dropped_leaves_the_files_of_a_lost_run() {
    block_on(async {
        let session = super::core().await;
        assert!(run(&session, Request::new("open('f', 'w').write('kept')")).await.success);
        // Long enough not to be read at once.
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

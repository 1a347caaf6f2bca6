//! A minimal executor: one task, polled while it is woken.

use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use loom::sync::atomic::{AtomicBool, Ordering};
use loom::thread::JoinHandle;

#[derive(Default)]
struct Task {
    is_woken: AtomicBool,
}

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        // Not a store: loom would allow it to be reordered with the swap before it.
        self.is_woken.swap(true, Ordering::AcqRel);
    }
}

/// Polls to the end; only threads started by `poll` can wake the task. Panics if all of them have
/// ended without waking it.
pub(crate) fn run(poll: impl FnMut(&mut Context<'_>, &mut Vec<JoinHandle<()>>) -> Poll<()>) {
    run_beside([], poll);
}

/// Like `run`, with threads that are already running.
pub(crate) fn run_beside<const N: usize>(
    others: [JoinHandle<()>; N],
    mut poll: impl FnMut(&mut Context<'_>, &mut Vec<JoinHandle<()>>) -> Poll<()>,
) {
    let task = Arc::new(Task::default());
    let waker = Waker::from(Arc::clone(&task));
    let mut others = Vec::from(others);
    let mut have_ended = false;
    while poll(&mut Context::from_waker(&waker), &mut others).is_pending() {
        if task.is_woken.swap(false, Ordering::AcqRel) {
            continue;
        }
        assert!(!have_ended, "a wake-up was lost");
        for other in others.drain(..) {
            other.join().expect("it does not panic");
        }
        have_ended = true;
        assert!(task.is_woken.swap(false, Ordering::AcqRel), "a wake-up was lost");
    }
    for other in others {
        other.join().expect("it does not panic");
    }
}

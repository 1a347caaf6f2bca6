//! Lets a guest that gives way be overtaken by everything else, timers included.
//!
//! A guest whose slice of fuel is over wakes its own task at once. A runtime in which some task
//! is always ready looks at its timers only once in a while, so a few spinning guests would make
//! every timer late. The relay holds such a wake-up back; the run then waits in the way that
//! `tokio::task::yield_now` does, behind the timers.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

/// Stands between a call and its task's waker.
#[derive(Default)]
pub(super) struct Relay {
    outer: Mutex<Option<Waker>>,
    polling: AtomicBool,
    woken: AtomicBool,
}

impl Relay {
    /// Polls with `poll`; whoever wakes the task meanwhile is held back. Returns what `poll` does,
    /// and whether somebody was.
    pub(super) fn poll<T>(
        self: &Arc<Self>,
        context: &Context<'_>,
        poll: impl FnOnce(&mut Context<'_>) -> Poll<T>,
    ) -> (Poll<T>, bool) {
        self.outer
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get_or_insert_with(|| context.waker().clone())
            .clone_from(context.waker());
        self.polling.store(true, Ordering::Release);
        let polled = poll(&mut Context::from_waker(&Waker::from(Arc::clone(self))));
        self.polling.store(false, Ordering::Release);
        (polled, self.woken.swap(false, Ordering::AcqRel))
    }
}

impl Wake for Relay {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.polling.load(Ordering::Acquire) {
            self.woken.store(true, Ordering::Release);
            // The poll may have ended in between, and not have seen it.
            if self.polling.load(Ordering::Acquire) {
                return;
            }
        }
        if let Some(outer) = &*self.outer.lock().unwrap_or_else(PoisonError::into_inner) {
            outer.wake_by_ref();
        }
    }
}

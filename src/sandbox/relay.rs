//! Lets a guest that gives way be overtaken by everything else, timers included.
//!
//! A guest whose slice of fuel is over wakes its own task at once. A runtime in which some task
//! is always ready looks at its timers only once in a while, so a few spinning guests would make
//! every timer late. The relay holds such a wake-up back; the run then waits in the way that
//! `tokio::task::yield_now` does, behind the timers.

use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use super::sync::{AtomicU8, Mutex, Ordering, PoisonError};

/// Stands between a call and its task's waker.
#[derive(Default)]
pub(super) struct Relay {
    outer: Mutex<Option<Waker>>,
    /// `POLLING` and `WOKEN`. Both are in one atomic, which is only ever read by writing it: so a
    /// wake-up and the end of a poll have one order, and the later of the two sees the earlier.
    state: AtomicU8,
}

/// The call is being polled, so that who wakes it is held back.
const POLLING: u8 = 1;
/// Somebody woke the call.
const WOKEN: u8 = 2;

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
        // A wake-up up to here has reached the task, and this poll is what it asked for.
        self.state.swap(POLLING, Ordering::AcqRel);
        let polled = poll(&mut Context::from_waker(&Waker::from(Arc::clone(self))));
        let state = self.state.swap(0, Ordering::AcqRel);
        (polled, state & WOKEN != 0)
    }
}

impl Wake for Relay {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let state = self.state.fetch_or(WOKEN, Ordering::AcqRel);
        if state & POLLING == 0
            && let Some(outer) = &*self.outer.lock().unwrap_or_else(PoisonError::into_inner)
        {
            outer.wake_by_ref();
        }
    }
}

//! Lets other tasks and timers run when a guest yields.
//!
//! A guest whose slice of fuel is over wakes its own task at once. A runtime that always has a
//! ready task checks its timers only rarely, so a few busy guests would delay every timer. The
//! relay withholds such a wake-up; the run then waits like `tokio::task::yield_now`, after the
//! timers.

use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use super::sync::{AtomicU8, Mutex, Ordering, PoisonError};

/// Sits between a call and its task's waker.
#[derive(Default)]
pub(super) struct Relay {
    outer: Mutex<Option<Waker>>,
    /// `POLLING` and `WOKEN`. Both are in one atomic that is only read by read-modify-write
    /// operations: so a wake-up and the end of a poll are ordered, and the later of the two sees
    /// the earlier.
    state: AtomicU8,
}

/// The call is being polled, so wake-ups are withheld.
const POLLING: u8 = 1;
/// The call was woken.
const WOKEN: u8 = 2;

impl Relay {
    /// Polls with `poll`, and withholds wake-ups of the task meanwhile. Returns the result, and
    /// whether a wake-up was withheld.
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
        // Earlier wake-ups have reached the task and caused this poll.
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

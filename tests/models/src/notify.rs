//! tokio's `Notify` on loom, as far as documented: one permit, and `notify_waiters` for all current
//! `Notified`, polled or not.

use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use loom::sync::Mutex;

#[derive(Debug, Default)]
pub(crate) struct Notify(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    has_permit: bool,
    /// Number of calls of `notify_waiters`.
    rounds: usize,
    waiting: Vec<Waker>,
}

impl Notify {
    pub(crate) fn notify_one(&self) {
        let mut state = self.0.lock().expect("nobody panics with it");
        state.has_permit = true;
        // A woken waiter without the permit waits again.
        state.waiting.drain(..).for_each(Waker::wake);
    }

    pub(crate) fn notify_waiters(&self) {
        let mut state = self.0.lock().expect("nobody panics with it");
        state.rounds += 1;
        state.waiting.drain(..).for_each(Waker::wake);
    }

    pub(crate) fn notified(&self) -> Notified<'_> {
        let round = self.0.lock().expect("nobody panics with it").rounds;
        Notified {
            notify: self,
            round,
        }
    }
}

pub(crate) struct Notified<'a> {
    notify: &'a Notify,
    round: usize,
}

impl Future for Notified<'_> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let mut state = self.notify.0.lock().expect("nobody panics with it");
        if state.rounds != self.round || std::mem::take(&mut state.has_permit) {
            return Poll::Ready(());
        }
        state.waiting.push(context.waker().clone());
        Poll::Pending
    }
}

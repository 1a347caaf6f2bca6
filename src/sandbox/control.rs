//! Asking a running guest to stop, from anywhere.

use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use super::sync::{AtomicBool, AtomicU8, AtomicU64, Notified, Notify, Ordering};

/// Why a run was stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StopReason {
    Timeout,
    Fuel,
    Output,
    Interrupted,
    /// It waits for what nobody answers while it runs.
    Waiting,
}

/// Shared between the run, the guest's host functions and whoever may stop it.
#[derive(Debug, Default)]
pub(crate) struct Control {
    asked: AtomicU8,
    /// Wakes the run, which then interrupts the guest.
    run: Notify,
    /// Wakes a guest that sleeps in a host function.
    sleeper: Notify,
    /// An interrupt that a guest about to sleep has yet to see.
    woken: AtomicBool,
    /// Whether the guest has been interrupted.
    interrupted: AtomicBool,
    /// When the guest was last let run, in nanoseconds since `made`.
    let_run: AtomicU64,
    made: Made,
    /// Slices of fuel that guests have used up.
    slices: AtomicU64,
    /// Whether the guest, suspended, waits for something else than its next slice.
    waiting: AtomicBool,
}

/// An instant that counts from its making.
#[derive(Debug)]
struct Made(Instant);

impl Default for Made {
    fn default() -> Self {
        Self(Instant::now())
    }
}

/// A guest that has run for this long gives way, also between two calls of host functions, which
/// use time but no fuel.
const SLICE: Duration = Duration::from_millis(2);

impl Control {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self::default())
    }

    /// Asks for a stop; the first reason counts.
    pub(crate) fn ask(&self, reason: StopReason) {
        let _ =
            self.asked.compare_exchange(0, reason as u8 + 1, Ordering::AcqRel, Ordering::Relaxed);
        self.run.notify_one();
    }

    /// The reason for which a stop was asked.
    pub(crate) fn asked(&self) -> Option<StopReason> {
        match self.asked.load(Ordering::Acquire) {
            0 => None,
            1 => Some(StopReason::Timeout),
            2 => Some(StopReason::Fuel),
            3 => Some(StopReason::Output),
            4 => Some(StopReason::Interrupted),
            _ => Some(StopReason::Waiting),
        }
    }

    /// Forgets what was asked, before the next run.
    pub(crate) fn clear(&self) {
        self.asked.store(0, Ordering::Release);
        self.woken.store(false, Ordering::Release);
        self.interrupted.store(false, Ordering::Release);
    }

    /// Whether the guest has been interrupted since the last run.
    pub(crate) fn is_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Acquire)
    }

    /// Resolves when a stop is asked for.
    pub(super) fn asked_for(&self) -> Notified<'_> {
        self.run.notified()
    }

    /// Notes that the guest was interrupted, and wakes it if it sleeps.
    pub(super) fn interrupt(&self) {
        self.interrupted.store(true, Ordering::Release);
        self.woken.store(true, Ordering::Release);
        self.sleeper.notify_waiters();
    }

    /// Waits for `what` as a host function of the guest; `None` when it was interrupted.
    pub(super) async fn wait_for<T>(&self, what: impl Future<Output = T>) -> Option<T> {
        // Taken before the look at `woken`, so that an interrupt that is not seen there is seen here.
        let interrupted = self.sleeper.notified();
        if self.woken.swap(false, Ordering::AcqRel) {
            return None;
        }
        tokio::select! {
            biased;
            found = what => Some(found),
            () = interrupted => {
                self.woken.store(false, Ordering::Release);
                None
            }
        }
    }

    /// Waits for something else than the guest asked for, or until it is interrupted, which a guest
    /// that is about to sleep has yet to see.
    pub(super) async fn wait(&self, something: impl Future<Output = ()>) {
        let interrupted = self.sleeper.notified();
        if self.woken.load(Ordering::Acquire) {
            return;
        }
        tokio::select! {
            biased;
            () = something => {}
            () = interrupted => {}
        }
    }

    /// Notes that the guest runs from now on.
    pub(super) fn let_run(&self) {
        self.let_run.store(self.since_made(), Ordering::Relaxed);
    }

    /// Gives way to others, and to the run's own limits, when the guest has had its slice of time.
    pub(super) async fn breathe(&self) {
        let ran = self.since_made().saturating_sub(self.let_run.load(Ordering::Relaxed));
        if ran < SLICE.as_nanos() as u64 {
            return;
        }
        give_way().await;
    }

    /// Notes that the guest has used up so many slices of fuel.
    pub(super) fn used_up(&self, slices: u64) {
        self.slices.fetch_add(slices, Ordering::Relaxed);
    }

    /// Slices of fuel that guests have used up since this was made.
    pub(super) fn slices(&self) -> u64 {
        self.slices.load(Ordering::Relaxed)
    }

    /// Notes whether the guest, which has just been suspended, waits for something, rather than for
    /// its next slice.
    pub(super) fn suspended(&self, waits: bool) {
        self.waiting.store(waits, Ordering::Relaxed);
    }

    /// Whether the guest, which is suspended, waits for something.
    pub(crate) fn is_waiting(&self) -> bool {
        self.waiting.load(Ordering::Relaxed)
    }

    fn since_made(&self) -> u64 {
        self.made.0.elapsed().as_nanos() as u64
    }
}

/// Lets others run once.
pub(super) async fn give_way() {
    let mut gave_way = false;
    std::future::poll_fn(|context| {
        if gave_way {
            return Poll::Ready(());
        }
        gave_way = true;
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

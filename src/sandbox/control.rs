//! Stops a running guest, from any thread.

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
    /// The run waits for an answer that cannot arrive while it runs.
    Waiting,
}

/// Shared by the run, the guest's host functions and any caller that may stop the run.
#[derive(Debug, Default)]
pub(crate) struct Control {
    asked: AtomicU8,
    /// Wakes the run, which then interrupts the guest.
    run: Notify,
    /// Wakes a guest that sleeps in a host function.
    sleeper: Notify,
    /// Whether an interrupt is pending for a guest that is about to sleep.
    woken: AtomicBool,
    /// Whether the guest was interrupted.
    interrupted: AtomicBool,
    /// Time at which the guest was last resumed, in nanoseconds since `made`.
    let_run: AtomicU64,
    made: Made,
    /// Number of fuel slices that guests have used.
    slices: AtomicU64,
    /// Whether the suspended guest waits for something other than its next slice.
    waiting: AtomicBool,
}

/// Time of creation.
#[derive(Debug)]
struct Made(Instant);

impl Default for Made {
    fn default() -> Self {
        Self(Instant::now())
    }
}

/// Time after which a guest yields, also between calls of host functions, which use time but no
/// fuel.
const SLICE: Duration = Duration::from_millis(2);

impl Control {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self::default())
    }

    /// Requests a stop; the first reason is kept.
    pub(crate) fn ask(&self, reason: StopReason) {
        let _ =
            self.asked.compare_exchange(0, reason as u8 + 1, Ordering::AcqRel, Ordering::Relaxed);
        self.run.notify_one();
    }

    /// Returns the reason of a requested stop.
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

    /// Resets the request before the next run.
    pub(crate) fn clear(&self) {
        self.asked.store(0, Ordering::Release);
        self.woken.store(false, Ordering::Release);
        self.interrupted.store(false, Ordering::Release);
    }

    /// Whether the guest was interrupted in this run.
    pub(crate) fn is_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Acquire)
    }

    /// Resolves when a stop is requested.
    pub(super) fn asked_for(&self) -> Notified<'_> {
        self.run.notified()
    }

    /// Records that the guest was interrupted, and wakes it if it sleeps.
    pub(super) fn interrupt(&self) {
        self.interrupted.store(true, Ordering::Release);
        self.woken.store(true, Ordering::Release);
        self.sleeper.notify_waiters();
    }

    /// Awaits `what` in a host function of the guest; `None` if interrupted.
    pub(super) async fn wait_for<T>(&self, what: impl Future<Output = T>) -> Option<T> {
        // Register before reading `woken`, so that no interrupt is missed.
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

    /// Awaits something that the guest did not request, until it is interrupted. The interrupt
    /// stays pending for the guest's next sleep.
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

    /// Records that the guest runs from now on.
    pub(super) fn let_run(&self) {
        self.let_run.store(self.since_made(), Ordering::Relaxed);
    }

    /// Yields to other tasks, and to the run's own limits, if the guest's time slice is over.
    pub(super) async fn breathe(&self) {
        let ran = self.since_made().saturating_sub(self.let_run.load(Ordering::Relaxed));
        if ran < SLICE.as_nanos() as u64 {
            return;
        }
        give_way().await;
    }

    /// Adds to the fuel slices that the guest has used.
    pub(super) fn used_up(&self, slices: u64) {
        self.slices.fetch_add(slices, Ordering::Relaxed);
    }

    /// Returns the number of fuel slices that guests have used since creation.
    pub(super) fn slices(&self) -> u64 {
        self.slices.load(Ordering::Relaxed)
    }

    /// Records whether the guest, which was just suspended, waits for something other than its next
    /// slice.
    pub(super) fn suspended(&self, waits: bool) {
        self.waiting.store(waits, Ordering::Relaxed);
    }

    /// Whether the suspended guest waits for something.
    pub(crate) fn is_waiting(&self) -> bool {
        self.waiting.load(Ordering::Relaxed)
    }

    fn since_made(&self) -> u64 {
        self.made.0.elapsed().as_nanos() as u64
    }
}

/// Yields once.
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

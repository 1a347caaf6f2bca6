//! A clock that advances when all tasks wait.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

/// A clock that advances only when no task can continue, to the next time that a task waits for.
/// Tasks run on one thread, so their behaviour is deterministic.
///
/// Tokio's paused clock would do the same. But it needs a feature that makes cargo compile
/// wasmtime-wasi and everything else based on tokio again, and all nodes would share it.
pub(super) struct Clock {
    start: Instant,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    passed: Duration,
    waits: BTreeMap<(Duration, u64), Waker>,
    next: u64,
}

impl Clock {
    /// Runs `work` with a new clock.
    pub(super) fn run<F: Future>(work: impl FnOnce(Arc<Self>) -> F) -> F::Output {
        let clock = Arc::new(Self {
            start: Instant::now(),
            state: Mutex::default(),
        });
        let parked = Arc::clone(&clock);
        let tokio = tokio::runtime::Builder::new_current_thread()
            .on_thread_park(move || parked.advance())
            .build()
            .unwrap();
        tokio.block_on(work(clock))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    fn advance(&self) {
        let mut state = self.lock();
        let Some(((at, _), waker)) = state.waits.pop_first() else {
            panic!("all tasks wait for one another");
        };
        state.passed = state.passed.max(at);
        drop(state);
        waker.wake();
    }

    pub(super) fn passed(&self) -> Duration {
        self.lock().passed
    }

    pub(super) fn sleep(self: &Arc<Self>, time: Duration) -> Sleep {
        Sleep {
            at: self.passed() + time,
            clock: Arc::clone(self),
            key: None,
        }
    }

    /// Returns the result of `work`, if it completes within `time`.
    pub(super) async fn within<T>(
        self: &Arc<Self>,
        time: Duration,
        work: impl Future<Output = T>,
    ) -> Option<T> {
        tokio::select! {
            biased;
            done = work => Some(done),
            () = self.sleep(time) => None,
        }
    }
}

pub(super) struct Sleep {
    clock: Arc<Clock>,
    at: Duration,
    key: Option<(Duration, u64)>,
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let clock = Arc::clone(&self.clock);
        let mut state = clock.lock();
        if let Some(key) = self.key.take() {
            state.waits.remove(&key);
        }
        if state.passed >= self.at {
            return Poll::Ready(());
        }
        state.next += 1;
        let key = (self.at, state.next);
        state.waits.insert(key, context.waker().clone());
        self.key = Some(key);
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(key) = self.key {
            self.clock.lock().waits.remove(&key);
        }
    }
}

/// Date at which all clocks start, in milliseconds since 1970.
const START: u64 = 1_700_000_000_000;

/// The clock of one node, which can stop.
#[derive(Clone)]
pub(super) struct NodeClock {
    pub clock: Arc<Clock>,
    /// Milliseconds by which its dates are ahead.
    pub ahead: i64,
    still: Arc<Mutex<Still>>,
}

#[derive(Default)]
struct Still {
    since: Option<Duration>,
    before: Duration,
}

impl NodeClock {
    pub(super) fn new(clock: &Arc<Clock>) -> Self {
        Self {
            clock: Arc::clone(clock),
            ahead: 0,
            still: Arc::default(),
        }
    }

    pub(super) fn stop(&self) {
        let mut still = self.still.lock().unwrap();
        still.since.get_or_insert(self.clock.passed());
    }

    pub(super) fn go_on(&self) {
        let mut still = self.still.lock().unwrap();
        if let Some(since) = still.since.take() {
            still.before += self.clock.passed().saturating_sub(since);
        }
    }

    fn passed(&self) -> Duration {
        let still = self.still.lock().unwrap();
        let now = still.since.unwrap_or_else(|| self.clock.passed());
        now.saturating_sub(still.before)
    }

    pub(super) fn now(&self) -> Instant {
        self.clock.start + self.passed()
    }

    pub(super) fn date(&self) -> u64 {
        let right = START + self.passed().as_millis() as u64;
        right.saturating_add_signed(self.ahead)
    }

    /// Waits while the node is stopped.
    pub(super) async fn running(&self) {
        while self.still.lock().unwrap().since.is_some() {
            self.clock.sleep(Duration::from_millis(7)).await;
        }
    }

    pub(super) async fn sleep(&self, time: Duration) {
        let end = self.passed() + time;
        loop {
            self.running().await;
            let Some(left) = end.checked_sub(self.passed()).filter(|left| !left.is_zero()) else {
                return;
            };
            self.clock.sleep(left).await;
        }
    }
}

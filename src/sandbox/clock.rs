//! Time and chance for repeatable runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use sha2::{Digest, Sha256};
use wasmtime_wasi::{HostMonotonicClock, HostWallClock};

/// A clock that moves only when it is read or slept on.
#[derive(Clone, Debug)]
pub(crate) struct SteppingClock {
    start: Duration,
    step_ns: u64,
    elapsed_ns: Arc<AtomicU64>,
}

impl SteppingClock {
    pub(crate) fn new(epoch_seconds: u64, step_ns: u64) -> Self {
        Self {
            start: Duration::from_secs(epoch_seconds),
            step_ns,
            elapsed_ns: Arc::default(),
        }
    }

    /// Moves the clock without anybody waiting.
    pub(crate) fn advance(&self, by: Duration) {
        let ns = u64::try_from(by.as_nanos()).unwrap_or(u64::MAX);
        let _ = self
            .elapsed_ns
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |now| Some(now.saturating_add(ns)));
    }

    /// Time on the clock, without moving it.
    pub(super) fn peek(&self, realtime: bool) -> Duration {
        let elapsed = Duration::from_nanos(self.elapsed_ns.load(Ordering::Relaxed));
        if realtime {
            self.start.saturating_add(elapsed)
        } else {
            elapsed
        }
    }

    /// The time since the start, as the guest counts it.
    pub(crate) fn elapsed(&self) -> Duration {
        self.peek(false)
    }

    fn read(&self) -> Duration {
        self.advance(Duration::from_nanos(self.step_ns));
        self.peek(false)
    }
}

impl HostWallClock for SteppingClock {
    fn resolution(&self) -> Duration {
        Duration::from_nanos(self.step_ns.max(1))
    }

    fn now(&self) -> Duration {
        self.start.saturating_add(self.read())
    }
}

impl HostMonotonicClock for SteppingClock {
    fn resolution(&self) -> u64 {
        self.step_ns.max(1)
    }

    fn now(&self) -> u64 {
        u64::try_from(self.read().as_nanos()).unwrap_or(u64::MAX)
    }
}

/// The time since 1970, by the system's clock.
pub(super) fn today() -> Duration {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}

/// A clock that goes on where another stopped: the monotonic clock of a guest that is kept.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RunningClock {
    before: Duration,
    started: Instant,
}

impl RunningClock {
    /// A clock that says `before` now.
    pub(crate) fn after(before: Duration) -> Self {
        Self {
            before,
            started: Instant::now(),
        }
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.before.saturating_add(self.started.elapsed())
    }
}

impl Default for RunningClock {
    fn default() -> Self {
        Self::after(Duration::ZERO)
    }
}

impl HostMonotonicClock for RunningClock {
    fn resolution(&self) -> u64 {
        1
    }

    fn now(&self) -> u64 {
        u64::try_from(self.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}

/// Bytes that follow from a seed: SHA-256 over the seed and a counter.
#[derive(Clone, Debug)]
pub(crate) struct SeededBytes {
    seed: u64,
    counter: u64,
}

impl SeededBytes {
    pub(crate) fn new(seed: u64) -> Self {
        Self { seed, counter: 0 }
    }

    /// The bytes that follow after so many blocks.
    pub(crate) fn from_block(seed: u64, counter: u64) -> Self {
        Self { seed, counter }
    }

    /// How many blocks were used.
    pub(crate) fn blocks(&self) -> u64 {
        self.counter
    }

    pub(crate) fn fill(&mut self, target: &mut [u8]) {
        for chunk in target.chunks_mut(32) {
            let block = Sha256::new()
                .chain_update(self.seed.to_le_bytes())
                .chain_update(self.counter.to_le_bytes())
                .finalize();
            self.counter = self.counter.wrapping_add(1);
            chunk.copy_from_slice(&block[..chunk.len()]);
        }
    }
}

//! The time that guests see, and random numbers for deterministic runs.

use std::num::NonZero;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use sha2::{Digest, Sha256};
use wasmtime_wasi::{HostMonotonicClock, HostWallClock};

/// A clock that advances only when it is read or slept on.
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

    /// Advances the clock without waiting.
    pub(crate) fn advance(&self, by: Duration) {
        let ns = u64::try_from(by.as_nanos()).unwrap_or(u64::MAX);
        let _ = self
            .elapsed_ns
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |now| Some(now.saturating_add(ns)));
    }

    /// Returns the time without advancing the clock.
    pub(super) fn peek(&self, realtime: bool) -> Duration {
        let elapsed = Duration::from_nanos(self.elapsed_ns.load(Ordering::Relaxed));
        if realtime {
            self.start.saturating_add(elapsed)
        } else {
            elapsed
        }
    }

    /// Returns the time since the start on the guest's clock.
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

/// Returns the time since 1970 on the system's clock.
pub(super) fn today() -> Duration {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}

/// How finely guests see time, in nanoseconds. What they see is rounded down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Resolution(NonZero<u64>);

impl Resolution {
    /// As the host sees it.
    pub(crate) const FULL: Self = Self(NonZero::<u64>::MIN);

    pub(crate) fn new(step: Duration) -> Self {
        let ns = u64::try_from(step.as_nanos()).unwrap_or(u64::MAX);
        NonZero::new(ns).map_or(Self::FULL, Self)
    }

    pub(crate) fn round(self, time: Duration) -> Duration {
        let ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        Duration::from_nanos(ns - ns % self.0)
    }
}

/// The system's time, rounded.
impl HostWallClock for Resolution {
    fn resolution(&self) -> Duration {
        Duration::from_nanos(self.0.get())
    }

    fn now(&self) -> Duration {
        self.round(today())
    }
}

/// The monotonic clock of a guest. In a session it continues from an earlier guest's time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RunningClock {
    before: Duration,
    started: Instant,
    resolution: Resolution,
}

impl RunningClock {
    /// Creates a clock that shows `before` now.
    pub(crate) fn after(before: Duration, resolution: Resolution) -> Self {
        Self {
            before,
            started: Instant::now(),
            resolution,
        }
    }

    /// Returns the time that the guest sees.
    pub(crate) fn elapsed(&self) -> Duration {
        self.resolution.round(self.before.saturating_add(self.started.elapsed()))
    }
}

impl HostMonotonicClock for RunningClock {
    fn resolution(&self) -> u64 {
        self.resolution.0.get()
    }

    fn now(&self) -> u64 {
        u64::try_from(self.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}

/// Bytes derived from a seed: SHA-256 of the seed and a counter.
#[derive(Clone, Debug)]
pub(crate) struct SeededBytes {
    seed: u64,
    counter: u64,
}

impl SeededBytes {
    pub(crate) fn new(seed: u64) -> Self {
        Self { seed, counter: 0 }
    }

    /// Returns the bytes that follow block `counter`.
    pub(crate) fn from_block(seed: u64, counter: u64) -> Self {
        Self { seed, counter }
    }

    /// Returns the number of blocks used.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_show_multiples_of_their_resolution() {
        let step = Duration::from_millis(1);
        let coarse = Resolution::new(step);
        let before = Duration::from_nanos(1_999_999);
        assert_eq!(coarse.round(before), step);
        let clock = RunningClock::after(before, coarse);
        assert_eq!(HostMonotonicClock::resolution(&clock), 1_000_000);
        assert!(HostMonotonicClock::now(&clock) >= 1_000_000);
        assert_eq!(HostMonotonicClock::now(&clock) % 1_000_000, 0);
        assert_eq!(HostWallClock::now(&coarse).subsec_nanos() % 1_000_000, 0);
        assert_eq!(HostWallClock::resolution(&coarse), step);
        assert_eq!(Resolution::new(Duration::ZERO).round(before), before);
    }
}

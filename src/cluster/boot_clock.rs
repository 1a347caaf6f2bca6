//! Ages that include the time during which a machine slept.

use std::time::{Duration, Instant, SystemTime};

/// A point in time. `Instant` stops while a machine sleeps or is paused, and the system's clock may
/// be set back. The age is the larger of both clocks' differences.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Since {
    instant: Instant,
    time: SystemTime,
}

impl Since {
    pub(crate) fn now() -> Self {
        Self {
            instant: Instant::now(),
            time: SystemTime::now(),
        }
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.instant.elapsed().max(self.time.elapsed().unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longer_age_counts() {
        let hour = Duration::from_hours(1);
        let mut slept = Since::now();
        slept.time -= hour;
        assert!(slept.elapsed() >= hour);
        let mut set_back = Since::now();
        set_back.time += hour;
        assert!(set_back.elapsed() < hour);
    }
}

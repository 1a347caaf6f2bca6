//! Age and idle time of a session, for its time limits.
//!
//! A session that exceeds a limit stays over it, whatever happens to it and whatever is created
//! from it. Only a use that starts within the limits resets the idle time, and forks, checkpoints
//! and stored sessions inherit both times.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Age and idle time of a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Times {
    pub age: Duration,
    pub idle: Duration,
}

/// The clock of a session on this runtime.
pub(super) struct Clock {
    /// Time of arrival on this runtime, and age at arrival.
    born: Instant,
    age: Came,
    used: Mutex<Used>,
}

/// A time that a session arrived with.
#[derive(Clone, Copy, Default)]
struct Came {
    /// Measured by monotonic clocks on all runtimes so far.
    counted: Duration,
    /// Computed from the dates in a record. It is never written, so a wrong date has no effect
    /// beyond this session.
    told: Duration,
}

#[derive(Clone, Copy)]
struct Used {
    /// Time of the last use here, or of arrival.
    at: Instant,
    /// Idle time at that moment.
    idle: Came,
}

impl Came {
    fn whole(self) -> Duration {
        self.counted.max(self.told)
    }

    fn after(self, time: Duration) -> Self {
        Self {
            counted: self.counted.saturating_add(time),
            told: self.told.saturating_add(time),
        }
    }
}

impl Clock {
    /// Creates the clock of a new session.
    pub(super) fn fresh() -> Self {
        Self::new(Times::default(), Times::default())
    }

    /// Creates the clock of a session that arrives with these times, or with longer times from its
    /// record.
    pub(super) fn new(counted: Times, told: Times) -> Self {
        let came = |counted, told| Came { counted, told };
        let now = Instant::now();
        Self {
            born: now,
            age: came(counted.age, told.age),
            used: Mutex::new(Used {
                at: now,
                idle: came(counted.idle, told.idle),
            }),
        }
    }

    /// Creates the clock of a copy made now.
    pub(super) fn copy(&self) -> Self {
        let (now, used) = (Instant::now(), *self.lock());
        Self {
            born: now,
            age: self.age.after(self.born.elapsed()),
            used: Mutex::new(Used {
                at: now,
                idle: used.idle.after(used.at.elapsed()),
            }),
        }
    }

    pub(super) fn times(&self) -> Times {
        self.by(Came::whole)
    }

    /// Returns the times without those computed from dates.
    pub(super) fn counted(&self) -> Times {
        self.by(|came| came.counted)
    }

    fn by(&self, part: fn(Came) -> Duration) -> Times {
        let used = *self.lock();
        Times {
            age: part(self.age.after(self.born.elapsed())),
            idle: part(used.idle.after(used.at.elapsed())),
        }
    }

    pub(super) fn born(&self) -> Instant {
        self.born
    }

    /// Returns the time of the last use on this runtime, or of arrival.
    pub(super) fn used(&self) -> Instant {
        self.lock().at
    }

    /// Ends a use. If it began over a limit, the idle time is not reset.
    pub(super) fn touch(&self, was_over: bool) {
        let mut used = self.lock();
        let idle = if was_over {
            used.idle.after(used.at.elapsed())
        } else {
            Came::default()
        };
        *used = Used {
            at: Instant::now(),
            idle,
        };
    }

    fn lock(&self) -> MutexGuard<'_, Used> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_hours(1);

    fn times(hours: u32) -> Times {
        Times {
            age: hours * HOUR,
            idle: hours * HOUR,
        }
    }

    fn hours(times: Times) -> (u64, u64) {
        (times.age.as_secs() / 3600, times.idle.as_secs() / 3600)
    }

    #[test]
    fn what_a_record_tells_counts_and_is_not_written() {
        let clock = Clock::new(times(1), times(5));
        assert_eq!((hours(clock.times()), hours(clock.counted())), ((5, 5), (1, 1)));
        let copy = clock.copy();
        assert_eq!((hours(copy.times()), hours(copy.counted())), ((5, 5), (1, 1)));
        // A date before the session's creation has no effect.
        assert_eq!(hours(Clock::new(times(1), times(0)).times()), (1, 1));
    }

    #[test]
    fn a_use_begins_idle_time_anew_unless_it_came_too_late() {
        let clock = Clock::new(times(1), times(5));
        clock.touch(true);
        assert_eq!(hours(clock.copy().times()), (5, 5));
        clock.touch(false);
        assert_eq!((hours(clock.times()), hours(clock.counted())), ((5, 0), (1, 0)));
    }

    /// Otherwise a session that was woken for reading would be dropped at once and read again.
    #[test]
    fn a_session_is_unused_here_since_it_came() {
        assert!(Clock::new(times(1), times(5)).used().elapsed() < HOUR);
    }

    #[test]
    fn no_time_in_a_checkpoint_is_too_long() {
        let ages = Times {
            age: Duration::MAX,
            idle: Duration::MAX,
        };
        assert_eq!(Clock::new(ages, ages).copy().times(), ages);
    }
}

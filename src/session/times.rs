//! Age and idle time of a session: what its limits of time are compared with.
//!
//! A session that is past one of its limits stays past it, whatever is done with it and whatever is made
//! from it: only a use that begins within the limits begins its idle time anew, and forks, checkpoints
//! and stored sessions have the age and the idle time of what they were made from.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How old a session is, and for how long it has been idle.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Times {
    pub age: Duration,
    pub idle: Duration,
}

/// The times of a session on this runtime.
pub(super) struct Clock {
    /// When it came to this runtime, and how old it was then.
    born: Instant,
    age: Came,
    used: Mutex<Used>,
}

/// A time that a session came with.
#[derive(Clone, Copy, Default)]
struct Came {
    /// Counted by clocks that go steadily, on the runtimes that it has been on.
    counted: Duration,
    /// Told by the dates in a record. It is never written: a wrong date ends with this session.
    told: Duration,
}

#[derive(Clone, Copy)]
struct Used {
    /// When it was last used here, or came here.
    at: Instant,
    /// Its idle time at that moment.
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
    /// Of a session that is made now.
    pub(super) fn fresh() -> Self {
        Self::new(Times::default(), Times::default())
    }

    /// Of a session that comes with these times, or longer ones if a record tells so.
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

    /// Of a copy that is made now.
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

    /// The times without what was told by dates.
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

    /// When it was last used on this runtime, or came to it.
    pub(super) fn used(&self) -> Instant {
        self.lock().at
    }

    /// The end of a use. Where it began past a limit, the session has been idle all the same.
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
        // A date before the session was made tells nothing.
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

    /// Else what was woken to be looked at would be given up at once, and be read again.
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

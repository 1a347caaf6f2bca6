//! Who asks, and how much they may.

use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use governor::clock::{Clock, DefaultClock};
use governor::middleware::StateInformationMiddleware;
use governor::state::{InMemoryState, NotKeyed};
use governor::{Quota as Rate, RateLimiter};
use serde::{Deserialize, Serialize};

use super::error::ServiceError;

/// Who asks: the holder of a key, or without authentication whoever reaches the server. Cheap to clone;
/// clones are the same account.
#[derive(Clone)]
pub struct Owner(Arc<Account>);

struct Account {
    name: String,
    limits: RwLock<Settled>,
    running: AtomicUsize,
    fuel: Mutex<Spent>,
}

/// Limits, and what counts runs against them.
struct Settled {
    limits: KeyLimits,
    rate: Option<RunRate>,
}

/// Lets in so many runs a minute.
struct RunRate {
    limiter: RateLimiter<NotKeyed, InMemoryState, DefaultClock, StateInformationMiddleware>,
    /// How many runs there were room for, and when.
    seen: Mutex<(Instant, u32)>,
}

/// A limit, and what is left of it.
pub(crate) struct Quota {
    pub name: &'static str,
    pub max: u64,
    /// What is counted, where it is not requests.
    pub unit: Option<&'static str>,
    /// The time for which it is.
    pub window: Option<Duration>,
    pub left: u64,
    /// When nothing of it will be used any more, unless more is.
    pub full_in: Option<Duration>,
}

/// Fuel of one day.
#[derive(Clone, Copy, Default)]
struct Spent {
    day: u64,
    fuel: u64,
}

/// How much the holder of a key may; what is not set is not limited, but by the server as a whole.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct KeyLimits {
    /// Runs a minute.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runs_per_minute: Option<NonZero<u32>>,
    /// Runs at once, those that wait included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub concurrent_runs: Option<u32>,
    /// Sessions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sessions: Option<u32>,
    /// Fuel of all runs of one day, in UTC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fuel_per_day: Option<u64>,
    /// Bytes of files: of runs that are kept, of which the oldest go for others, and in sessions, after which
    /// nothing more runs in a session or makes one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stored_bytes: Option<u64>,
}

impl Owner {
    /// An account of that name, which has used nothing yet.
    #[must_use]
    pub fn new(name: impl Into<String>, limits: KeyLimits) -> Self {
        Self(Arc::new(Account {
            name: name.into(),
            limits: RwLock::new(Settled::new(limits)),
            running: AtomicUsize::new(0),
            fuel: Mutex::default(),
        }))
    }

    /// The one who asks where nobody has to say who they are.
    #[must_use]
    pub fn local() -> Self {
        Self::new("local", KeyLimits::default())
    }

    /// Their name, by which what is theirs is known.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// How much they may.
    #[must_use]
    pub fn limits(&self) -> KeyLimits {
        self.0.limits.read().unwrap_or_else(PoisonError::into_inner).limits.clone()
    }

    /// Replaces their limits. What they have used stays used, unless it is what changes.
    pub(crate) fn set_limits(&self, limits: KeyLimits) {
        let mut settled = self.0.limits.write().unwrap_or_else(PoisonError::into_inner);
        if settled.limits != limits {
            *settled = Settled::new(limits);
        }
    }

    /// Begins a run, if one may begin.
    pub(super) fn begin_run(&self) -> Result<(), ServiceError> {
        let settled = self.0.limits.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(max) = settled.limits.fuel_per_day
            && self.fuel_today() >= max
        {
            return Err(limit("fuel a day", max, Some(until_tomorrow())));
        }
        if let (Some(rate), Some(max)) = (&settled.rate, settled.limits.runs_per_minute)
            && let Err(wait) = rate.check()
        {
            return Err(limit("runs a minute", max.get().into(), Some(wait)));
        }
        let running = self.0.running.fetch_add(1, Ordering::AcqRel);
        if let Some(max) = settled.limits.concurrent_runs
            && running >= max as usize
        {
            self.end_run();
            return Err(limit("runs at once", max.into(), Some(Duration::from_secs(1))));
        }
        Ok(())
    }

    /// The limits on how much they run, and what is left of each.
    pub(crate) fn quotas(&self) -> Vec<Quota> {
        let settled = self.0.limits.read().unwrap_or_else(PoisonError::into_inner);
        let limits = &settled.limits;
        let mut quotas = Vec::new();
        if let (Some(rate), Some(max)) = (&settled.rate, limits.runs_per_minute) {
            quotas.push(rate.quota(max));
        }
        if let Some(max) = limits.concurrent_runs {
            let running = self.0.running.load(Ordering::Acquire) as u64;
            quotas.push(Quota {
                name: "concurrent",
                max: max.into(),
                unit: Some("concurrent-requests"),
                window: None,
                left: u64::from(max).saturating_sub(running),
                full_in: None,
            });
        }
        if let Some(max) = limits.fuel_per_day {
            quotas.push(Quota {
                name: "fuel",
                max,
                unit: Some("fuel"),
                window: Some(Duration::from_secs(DAY)),
                left: max.saturating_sub(self.fuel_today()),
                full_in: Some(until_tomorrow()),
            });
        }
        quotas
    }

    pub(super) fn end_run(&self) {
        self.0.running.fetch_sub(1, Ordering::AcqRel);
    }

    /// Fuel that is left for today, where it is limited.
    pub(super) fn fuel_left(&self) -> Option<u64> {
        let max = self.limits().fuel_per_day?;
        Some(max.saturating_sub(self.fuel_today()))
    }

    pub(super) fn spend(&self, fuel: u64) {
        let today = today();
        let mut spent = self.0.fuel.lock().unwrap_or_else(PoisonError::into_inner);
        if spent.day != today {
            *spent = Spent {
                day: today,
                fuel: 0,
            };
        }
        spent.fuel = spent.fuel.saturating_add(fuel);
    }

    fn fuel_today(&self) -> u64 {
        let spent = *self.0.fuel.lock().unwrap_or_else(PoisonError::into_inner);
        if spent.day == today() { spent.fuel } else { 0 }
    }
}

impl Settled {
    fn new(limits: KeyLimits) -> Self {
        let rate = limits.runs_per_minute.map(RunRate::new);
        Self { limits, rate }
    }
}

const MINUTE: Duration = Duration::from_mins(1);

impl RunRate {
    fn new(max: NonZero<u32>) -> Self {
        Self {
            limiter: RateLimiter::direct(Rate::per_minute(max)).with_middleware(),
            seen: Mutex::new((Instant::now(), max.get())),
        }
    }

    /// Counts a run, or tells when there will be room for one.
    fn check(&self) -> Result<(), Duration> {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        match self.limiter.check() {
            Ok(state) => {
                *seen = (Instant::now(), state.remaining_burst_capacity());
                Ok(())
            }
            Err(not_until) => {
                *seen = (Instant::now(), 0);
                Err(not_until.wait_time_from(DefaultClock::default().now()))
            }
        }
    }

    /// What is left: what was when it was last looked, and what came back since.
    fn quota(&self, max: NonZero<u32>) -> Quota {
        let (when, left) = *self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let each = MINUTE / max.get();
        let back = when.elapsed().as_nanos() / each.as_nanos().max(1);
        let left = u64::from(left).saturating_add(back as u64).min(max.get().into());
        Quota {
            name: "runs",
            max: max.get().into(),
            unit: None,
            window: Some(MINUTE),
            left,
            full_in: Some(each * (max.get() - left as u32)),
        }
    }
}

pub(super) fn limit(what: &'static str, max: u64, retry_after: Option<Duration>) -> ServiceError {
    ServiceError::Limit {
        what,
        max,
        retry_after,
    }
}

const DAY: u64 = 24 * 60 * 60;

fn seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

fn today() -> u64 {
    seconds() / DAY
}

fn until_tomorrow() -> Duration {
    Duration::from_secs(DAY - seconds() % DAY)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_over_a_limit_is_refused_and_one_that_ended_makes_room() {
        let owner = Owner::new(
            "a",
            KeyLimits {
                concurrent_runs: Some(1),
                ..KeyLimits::default()
            },
        );
        owner.begin_run().unwrap();
        assert!(matches!(
            owner.begin_run(),
            Err(ServiceError::Limit {
                what: "runs at once",
                ..
            })
        ));
        owner.end_run();
        owner.begin_run().unwrap();
    }

    #[test]
    fn more_runs_than_a_minute_has_are_told_when_the_next_may_begin() {
        let limits = KeyLimits {
            runs_per_minute: NonZero::new(2),
            ..KeyLimits::default()
        };
        let owner = Owner::new("a", limits);
        owner.begin_run().unwrap();
        owner.begin_run().unwrap();
        let Err(ServiceError::Limit {
            retry_after: Some(wait),
            ..
        }) = owner.begin_run()
        else {
            panic!("a third run began");
        };
        assert!(wait > Duration::from_secs(10) && wait <= Duration::from_secs(30), "{wait:?}");
    }

    #[test]
    fn fuel_is_what_a_day_has() {
        let owner = Owner::new(
            "a",
            KeyLimits {
                fuel_per_day: Some(10),
                ..KeyLimits::default()
            },
        );
        owner.spend(4);
        assert_eq!(owner.fuel_left(), Some(6));
        owner.begin_run().unwrap();
        owner.spend(6);
        assert!(matches!(
            owner.begin_run(),
            Err(ServiceError::Limit {
                what: "fuel a day",
                ..
            })
        ));
    }
}

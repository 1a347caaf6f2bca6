//! Who asks, and how much they may.

use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use belljar::request::Tenant;
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
    /// What the engine knows it as.
    tenant: Tenant,
    running: AtomicUsize,
    /// Sessions that are being made.
    making: AtomicUsize,
    /// Held while it is counted how many sessions there are.
    counting: tokio::sync::Mutex<()>,
    today: Mutex<Day>,
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

/// The day for which fuel is counted.
#[derive(Clone, Copy, Default)]
struct Day {
    number: u64,
    /// Fuel that was used on all days before.
    before: u64,
}

/// What guest work counts as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    /// Code of the client, on which a run a minute and a place among those at once are spent.
    Run,
    /// A question while code is typed, which takes a place but is no run.
    Question,
    /// What the server itself has a guest do, for which only fuel is counted.
    Setup,
}

/// How much the holder of a key may; what is not set is not limited, but by the server as a whole.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct KeyLimits {
    /// Runs a minute: runs, initial code of sessions, expressions and variables.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runs_per_minute: Option<NonZero<u32>>,
    /// Runs and questions at once, those that wait included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub concurrent_runs: Option<u32>,
    /// Sessions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sessions: Option<u32>,
    /// Fuel of all guest work of one day, in UTC.
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
            tenant: Tenant::new(),
            running: AtomicUsize::new(0),
            making: AtomicUsize::new(0),
            counting: tokio::sync::Mutex::default(),
            today: Mutex::default(),
        }))
    }

    /// As the engine knows it.
    pub(super) fn tenant(&self) -> &Tenant {
        &self.0.tenant
    }

    /// Sessions that are being made.
    pub(super) fn making(&self) -> &AtomicUsize {
        &self.0.making
    }

    /// Keeps others from counting the account's sessions meanwhile.
    pub(super) async fn alone(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.0.counting.lock().await
    }

    /// Sets whether it is the only account, so that nothing has to be kept free for others.
    pub(crate) fn set_alone(&self, is_alone: bool) {
        self.0.tenant.set_alone(is_alone);
    }

    /// The one who asks where nobody has to say who they are.
    #[must_use]
    pub fn local() -> Self {
        let owner = Self::new("local", KeyLimits::default());
        owner.set_alone(true);
        owner
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
        drop(settled);
        self.fuel_today();
    }

    /// Begins guest work, if it may begin. What is refused uses nothing up.
    pub(super) fn begin(&self, work: Work) -> Result<(), ServiceError> {
        let fuel = self.fuel_today();
        let settled = self.0.limits.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(max) = settled.limits.fuel_per_day
            && fuel >= max
        {
            return Err(limit("fuel a day", max, Some(until_tomorrow())));
        }
        if work == Work::Setup {
            return Ok(());
        }
        let running = self.0.running.fetch_add(1, Ordering::AcqRel);
        if let Some(max) = settled.limits.concurrent_runs
            && running >= max as usize
        {
            self.end(work);
            return Err(limit("runs at once", max.into(), Some(Duration::from_secs(1))));
        }
        if let (Work::Run, Some(rate), Some(max)) =
            (work, &settled.rate, settled.limits.runs_per_minute)
            && let Err(wait) = rate.check()
        {
            self.end(work);
            return Err(limit("runs a minute", max.get().into(), Some(wait)));
        }
        Ok(())
    }

    /// Ends work that was begun.
    pub(super) fn end(&self, work: Work) {
        if work != Work::Setup {
            self.0.running.fetch_sub(1, Ordering::AcqRel);
        }
    }

    /// The limits on how much they run, and what is left of each.
    pub(crate) fn quotas(&self) -> Vec<Quota> {
        let fuel = self.fuel_today();
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
                left: max.saturating_sub(fuel),
                full_in: Some(until_tomorrow()),
            });
        }
        quotas
    }

    /// Fuel used today. All that runs draws from what is left of the day.
    fn fuel_today(&self) -> u64 {
        let max = self.limits().fuel_per_day;
        let tenant = &self.0.tenant;
        let mut day = self.0.today.lock().unwrap_or_else(PoisonError::into_inner);
        if day.number != today() {
            *day = Day {
                number: today(),
                before: tenant.fuel_used(),
            };
        }
        tenant.allow_fuel(max.map(|max| day.before.saturating_add(max)));
        tenant.fuel_used() - day.before
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
        owner.begin(Work::Run).unwrap();
        assert!(matches!(
            owner.begin(Work::Run),
            Err(ServiceError::Limit {
                what: "runs at once",
                ..
            })
        ));
        owner.end(Work::Run);
        owner.begin(Work::Run).unwrap();
    }

    #[test]
    fn more_runs_than_a_minute_has_are_told_when_the_next_may_begin() {
        let limits = KeyLimits {
            runs_per_minute: NonZero::new(2),
            ..KeyLimits::default()
        };
        let owner = Owner::new("a", limits);
        owner.begin(Work::Run).unwrap();
        owner.begin(Work::Run).unwrap();
        let Err(ServiceError::Limit {
            retry_after: Some(wait),
            ..
        }) = owner.begin(Work::Run)
        else {
            panic!("a third run began");
        };
        assert!(wait > Duration::from_secs(10) && wait <= Duration::from_secs(30), "{wait:?}");
    }

    #[test]
    fn what_is_refused_uses_nothing_up() {
        let limits = KeyLimits {
            runs_per_minute: NonZero::new(2),
            concurrent_runs: Some(1),
            ..KeyLimits::default()
        };
        let owner = Owner::new("a", limits);
        owner.begin(Work::Run).unwrap();
        for _ in 0..5 {
            assert!(owner.begin(Work::Run).is_err());
            assert!(owner.begin(Work::Question).is_err());
        }
        owner.begin(Work::Setup).unwrap();
        owner.end(Work::Setup);
        owner.end(Work::Run);
        // A question is no run of the minute, and the refused ones were none either.
        owner.begin(Work::Question).unwrap();
        owner.end(Work::Question);
        owner.begin(Work::Run).unwrap();
        owner.end(Work::Run);
        let refused = owner.begin(Work::Run);
        assert!(matches!(
            refused,
            Err(ServiceError::Limit {
                what: "runs a minute",
                ..
            })
        ));
        // And one that is refused for it has no place among those at once.
        owner.begin(Work::Question).unwrap();
    }
}

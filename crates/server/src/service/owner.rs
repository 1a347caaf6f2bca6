//! Owners: accounts with limits and usage.

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
use crate::audit::Caller;
use crate::lock::lock;

/// An account: the holder of a key, or any client if no key is required. Clones share the same
/// account.
#[derive(Clone)]
pub struct Owner {
    account: Arc<Account>,
    /// The request that it came with, if there is an audit log.
    caller: Option<Arc<Caller>>,
}

struct Account {
    name: String,
    limits: RwLock<Settled>,
    /// The engine's id of the account.
    tenant: Tenant,
    running: AtomicUsize,
    /// Number of sessions being created.
    creating: AtomicUsize,
    /// Locked while sessions are counted.
    counting: tokio::sync::Mutex<()>,
    today: Mutex<Day>,
}

/// Limits and the rate limiter derived from them.
struct Settled {
    limits: KeyLimits,
    rate: Option<RunRate>,
}

/// Limits the runs per minute.
struct RunRate {
    limiter: RateLimiter<NotKeyed, InMemoryState, DefaultClock, StateInformationMiddleware>,
    /// Time and remaining runs at the latest check.
    seen: Mutex<(Instant, u32)>,
}

/// A limit and its remaining quota.
pub(crate) struct Quota {
    pub name: &'static str,
    pub max: u64,
    /// The counted unit, if it is not requests.
    pub unit: Option<&'static str>,
    /// The period of the limit.
    pub window: Option<Duration>,
    pub left: u64,
    /// Time until the quota is fully available again, without further use.
    pub full_in: Option<Duration>,
}

/// The day for which fuel is counted.
#[derive(Clone, Copy, Default)]
struct Day {
    number: u64,
    /// Fuel used on all previous days.
    before: u64,
    /// Fuel that earlier processes used on this day.
    elsewhere: u64,
}

/// How guest work is accounted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    /// A client's code. Counts against runs per minute and concurrency.
    Run,
    /// A query such as completion. Counts against concurrency only.
    Query,
    /// The server's own code. Only its fuel is counted.
    Setup,
}

/// Limits of a key. Missing limits are unlimited, except for the server's own limits.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct KeyLimits {
    /// Runs per minute: runs, initial code of sessions, expressions and variables.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runs_per_minute: Option<NonZero<u32>>,
    /// Concurrent runs and queries, including queued ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub concurrent_runs: Option<u32>,
    /// Sessions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sessions: Option<u32>,
    /// Fuel of all guest work per day, in UTC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fuel_per_day: Option<u64>,
    /// Bytes of files: stored files of runs, of which the oldest are removed first, and files in
    /// sessions, which prevent new runs and sessions when they reach the limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stored_bytes: Option<u64>,
}

impl Owner {
    /// Creates an account without usage.
    #[must_use]
    pub fn new(name: impl Into<String>, limits: KeyLimits) -> Self {
        let account = Arc::new(Account {
            name: name.into(),
            limits: RwLock::new(Settled::new(limits)),
            tenant: Tenant::new(),
            running: AtomicUsize::new(0),
            creating: AtomicUsize::new(0),
            counting: tokio::sync::Mutex::default(),
            today: Mutex::default(),
        });
        Self {
            account,
            caller: None,
        }
    }

    /// The same account with the request that it came with.
    #[must_use]
    pub(crate) fn called_by(self, caller: Option<Arc<Caller>>) -> Self {
        Self { caller, ..self }
    }

    /// The request that it came with, if there is an audit log.
    pub(crate) fn caller(&self) -> Option<&Caller> {
        self.caller.as_deref()
    }

    /// The engine's id of the account.
    pub(super) fn tenant(&self) -> &Tenant {
        &self.account.tenant
    }

    /// Number of sessions being created.
    pub(super) fn creating(&self) -> &AtomicUsize {
        &self.account.creating
    }

    /// Locks the counting of the account's sessions.
    pub(super) async fn lock_count(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.account.counting.lock().await
    }

    /// Sets whether it is the only account, so that no capacity is reserved for others.
    pub(crate) fn set_alone(&self, is_alone: bool) {
        self.account.tenant.set_alone(is_alone);
    }

    /// The account of all clients if no key is required.
    #[must_use]
    pub fn local() -> Self {
        let owner = Self::new("local", KeyLimits::default());
        owner.set_alone(true);
        owner
    }

    /// The account's name, which identifies its objects.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.account.name
    }

    /// Its limits.
    #[must_use]
    pub fn limits(&self) -> KeyLimits {
        self.account.limits.read().unwrap_or_else(PoisonError::into_inner).limits.clone()
    }

    /// Replaces its limits. Usage is kept, except for a changed limit's.
    pub(crate) fn set_limits(&self, limits: KeyLimits) {
        let mut settled = self.account.limits.write().unwrap_or_else(PoisonError::into_inner);
        if settled.limits != limits {
            *settled = Settled::new(limits);
        }
        drop(settled);
        self.fuel_today();
    }

    /// Starts guest work if the limits allow it. Refused work uses no quota.
    pub(super) fn begin(&self, work: Work) -> Result<(), ServiceError> {
        let fuel = self.fuel_today();
        let settled = self.account.limits.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(max) = settled.limits.fuel_per_day
            && fuel >= max
        {
            return Err(limit("units of fuel per day", max, Some(until_tomorrow())));
        }
        if work == Work::Setup {
            return Ok(());
        }
        let running = self.account.running.fetch_add(1, Ordering::AcqRel);
        if let Some(max) = settled.limits.concurrent_runs
            && running >= max as usize
        {
            self.end(work);
            return Err(limit("concurrent runs", max.into(), Some(Duration::from_secs(1))));
        }
        if let (Work::Run, Some(rate), Some(max)) =
            (work, &settled.rate, settled.limits.runs_per_minute)
            && let Err(wait) = rate.check()
        {
            self.end(work);
            return Err(limit("runs per minute", max.get().into(), Some(wait)));
        }
        Ok(())
    }

    /// Ends guest work.
    pub(super) fn end(&self, work: Work) {
        if work != Work::Setup {
            self.account.running.fetch_sub(1, Ordering::AcqRel);
        }
    }

    /// The limits on runs, with the remaining quotas.
    pub(crate) fn quotas(&self) -> Vec<Quota> {
        let fuel = self.fuel_today();
        let settled = self.account.limits.read().unwrap_or_else(PoisonError::into_inner);
        let limits = &settled.limits;
        let mut quotas = Vec::new();
        if let (Some(rate), Some(max)) = (&settled.rate, limits.runs_per_minute) {
            quotas.push(rate.quota(max));
        }
        if let Some(max) = limits.concurrent_runs {
            let running = self.account.running.load(Ordering::Acquire) as u64;
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

    /// Fuel used today. All runs share the remaining fuel of the day.
    pub(crate) fn fuel_today(&self) -> u64 {
        let max = self.limits().fuel_per_day;
        let tenant = &self.account.tenant;
        let mut day = lock(&self.account.today);
        if day.number != today() {
            *day = Day {
                number: today(),
                before: tenant.fuel_used(),
                elsewhere: 0,
            };
        }
        let left = max.map(|max| max.saturating_sub(day.elsewhere));
        tenant.allow_fuel(left.map(|left| day.before.saturating_add(left)));
        (tenant.fuel_used() - day.before).saturating_add(day.elsewhere)
    }

    /// Sets the fuel that earlier processes of the account used today.
    pub(crate) fn set_used_elsewhere(&self, fuel: u64) {
        self.fuel_today();
        self.account.today.lock().unwrap_or_else(PoisonError::into_inner).elsewhere = fuel;
        self.fuel_today();
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

    /// Counts a run, or returns the time until the next run is allowed.
    fn check(&self) -> Result<(), Duration> {
        let mut seen = lock(&self.seen);
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

    /// The remaining quota: its last known value plus what was replenished since.
    fn quota(&self, max: NonZero<u32>) -> Quota {
        let (when, left) = *lock(&self.seen);
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

pub(crate) fn today() -> u64 {
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
                what: "concurrent runs",
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
    fn fuel_used_by_earlier_processes_counts() {
        let limits = KeyLimits {
            fuel_per_day: Some(100),
            ..KeyLimits::default()
        };
        let owner = Owner::new("a", limits);
        owner.set_used_elsewhere(99);
        assert_eq!(owner.fuel_today(), 99);
        owner.begin(Work::Setup).unwrap();
        owner.set_used_elsewhere(100);
        assert!(owner.begin(Work::Setup).is_err());
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
            assert!(owner.begin(Work::Query).is_err());
        }
        owner.begin(Work::Setup).unwrap();
        owner.end(Work::Setup);
        owner.end(Work::Run);
        // A query does not use the quota of runs, and neither did refused runs.
        owner.begin(Work::Query).unwrap();
        owner.end(Work::Query);
        owner.begin(Work::Run).unwrap();
        owner.end(Work::Run);
        let refused = owner.begin(Work::Run);
        assert!(matches!(
            refused,
            Err(ServiceError::Limit {
                what: "runs per minute",
                ..
            })
        ));
        // A query that is refused does not count against concurrency.
        owner.begin(Work::Query).unwrap();
    }
}

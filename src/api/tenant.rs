//! Tenants that share a runtime, and the fuel that they use.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use crate::api::interrupt::Interrupt;

/// One of several tenants that share a [`Runtime`](crate::Runtime). Clones are the same tenant.
///
/// The runtime schedules tenants in rotation, and each tenant may have a fuel limit for all its
/// work. Await work for a tenant under a [`Meter`]: runs, the initial code of sessions, and queries
/// of sessions.
///
/// ```no_run
/// # async fn example(runtime: belljar::Runtime) -> Result<(), belljar::Error> {
/// use belljar::SessionOptions;
/// use belljar::request::Tenant;
///
/// let tenant = Tenant::new();
/// tenant.allow_fuel(Some(1_000_000_000));
/// let meter = tenant.meter(None);
/// let options = SessionOptions::new().init_code("x = sum(range(1000))");
/// let session = meter.scope(runtime.session(options)).await?;
/// meter.scope(session.get("x")).await?;
/// println!("{} of fuel, {:?} left", meter.fuel(), tenant.fuel_left());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Default)]
pub struct Tenant(Arc<Account>);

struct Account {
    used: AtomicU64,
    /// Holds the limit and its absence in one atomic, so that running work never sees half of a
    /// change.
    allowed: AtomicU64,
    is_alone: AtomicBool,
}

/// A limit that no work can reach.
const UNLIMITED: u64 = u64::MAX;

impl Default for Account {
    fn default() -> Self {
        Self {
            used: AtomicU64::new(0),
            allowed: AtomicU64::new(UNLIMITED),
            is_alone: AtomicBool::new(false),
        }
    }
}

impl Tenant {
    /// Creates a tenant with no fuel used and no limit.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the fuel that the tenant's work may use, counted from its creation; `None` removes the
    /// limit. When the fuel is used up, running work ends as for
    /// [`RequestLimits::fuel`](crate::RequestLimits::fuel). Concurrent work draws from the same
    /// amount, with a precision of one slice of a few ms each.
    pub fn allow_fuel(&self, total: Option<u64>) {
        self.0.allowed.store(total.unwrap_or(UNLIMITED), Ordering::Relaxed);
    }

    /// Returns the fuel that the tenant's work has used since its creation.
    #[must_use]
    pub fn fuel_used(&self) -> u64 {
        self.0.used.load(Ordering::Relaxed)
    }

    /// Returns the remaining fuel, if the tenant has a limit.
    #[must_use]
    pub fn fuel_left(&self) -> Option<u64> {
        let allowed = self.0.allowed.load(Ordering::Relaxed);
        (allowed != UNLIMITED).then(|| allowed.saturating_sub(self.fuel_used()))
    }

    /// Sets whether this is the only tenant. The scheduler then reserves no turns for others.
    pub fn set_alone(&self, is_alone: bool) {
        self.0.is_alone.store(is_alone, Ordering::Relaxed);
    }

    pub(crate) fn is_alone(&self) -> bool {
        self.0.is_alone.load(Ordering::Relaxed)
    }

    /// Creates a meter for part of the tenant's work. `interrupt` stops work under the meter.
    #[must_use]
    pub fn meter(&self, interrupt: Option<&Interrupt>) -> Meter {
        Meter(Arc::new(Measured {
            tenant: self.clone(),
            used: AtomicU64::new(0),
            interrupt: interrupt.cloned(),
            created: Instant::now(),
            turn: OnceLock::new(),
            begun: OnceLock::new(),
        }))
    }
}

impl fmt::Debug for Tenant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tenant")
            .field("used", &self.fuel_used())
            .field("left", &self.fuel_left())
            .finish()
    }
}

/// Two tenants are equal if they are the same tenant.
impl PartialEq for Tenant {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Tenant {}

/// Measures the fuel of a tenant's work. Clones are the same meter.
#[derive(Clone, Debug)]
pub struct Meter(Arc<Measured>);

#[derive(Debug)]
struct Measured {
    tenant: Tenant,
    used: AtomicU64,
    interrupt: Option<Interrupt>,
    created: Instant,
    /// When the first turn came, and when the first guest code began.
    turn: OnceLock<Instant>,
    begun: OnceLock<Instant>,
}

/// How long metered work waited before its first guest code began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Waited {
    /// From the creation of the meter until the runtime gave the work a turn.
    pub queue: Duration,
    /// From then until guest code began: until the sandbox or the session's interpreter was ready.
    pub start: Duration,
}

tokio::task_local! {
    static CURRENT: Meter;
}

impl Meter {
    /// Awaits `work` and charges all guest code in it to the tenant. Tasks that `work` spawns are
    /// not measured.
    pub async fn scope<T>(&self, work: impl Future<Output = T>) -> T {
        CURRENT.scope(self.clone(), work).await
    }

    /// Returns the fuel used under this meter, including work that was dropped before its end.
    #[must_use]
    pub fn fuel(&self) -> u64 {
        self.0.used.load(Ordering::Relaxed)
    }

    /// Returns how long the work under this meter waited; `None` if no guest code has begun, or
    /// began without a turn.
    #[must_use]
    pub fn waited(&self) -> Option<Waited> {
        let (turn, begun) = (self.0.turn.get()?, self.0.begun.get()?);
        Some(Waited {
            queue: turn.saturating_duration_since(self.0.created),
            start: begun.saturating_duration_since(*turn),
        })
    }

    /// Notes that the work has got a turn.
    pub(crate) fn got_turn(&self) {
        self.0.turn.get_or_init(Instant::now);
    }

    /// Notes that guest code begins.
    pub(crate) fn begins(&self) {
        self.0.begun.get_or_init(Instant::now);
    }

    /// Returns the meter of the current task.
    pub(crate) fn current() -> Option<Self> {
        CURRENT.try_with(Clone::clone).ok()
    }

    pub(crate) fn tenant(&self) -> &Tenant {
        &self.0.tenant
    }

    pub(crate) fn interrupt(&self) -> Option<&Interrupt> {
        self.0.interrupt.as_ref()
    }

    fn charge(&self, fuel: u64) {
        self.0.used.fetch_add(fuel, Ordering::Relaxed);
        self.0.tenant.0.used.fetch_add(fuel, Ordering::Relaxed);
    }
}

/// Charges one guest task to a meter, slice by slice. If dropped before the task ends, it charges
/// the current slice.
pub(crate) struct Charge {
    meter: Meter,
    slice: u64,
    charged: u64,
    is_settled: bool,
}

impl Charge {
    pub(crate) fn new(meter: Meter, slice: u64) -> Self {
        Self {
            meter,
            slice,
            charged: 0,
            is_settled: false,
        }
    }

    /// Records the number of slices used. Returns whether the tenant has no fuel left.
    pub(crate) fn note(&mut self, slices: u64) -> bool {
        self.charge_up_to(slices.saturating_mul(self.slice));
        self.meter.tenant().fuel_left() == Some(0)
    }

    /// Records the total fuel at the end of the task.
    pub(crate) fn settle(&mut self, fuel: u64) {
        self.charge_up_to(fuel);
        self.is_settled = true;
    }

    fn charge_up_to(&mut self, fuel: u64) {
        let more = fuel.saturating_sub(self.charged);
        if more > 0 {
            self.meter.charge(more);
            self.charged += more;
        }
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        if !self.is_settled {
            self.meter.charge(self.slice);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_that_is_dropped_is_charged_for_the_slice_that_it_began() {
        let tenant = Tenant::new();
        tenant.allow_fuel(Some(35));
        let meter = tenant.meter(None);
        let mut charge = Charge::new(meter.clone(), 10);
        assert!(!charge.note(2));
        assert!(!charge.note(2));
        assert_eq!((meter.fuel(), tenant.fuel_left()), (20, Some(15)));
        drop(charge);
        assert_eq!((meter.fuel(), tenant.fuel_left()), (30, Some(5)));
        let mut charge = Charge::new(meter.clone(), 10);
        assert!(charge.note(1), "another has used the rest");
        charge.settle(12);
        drop(charge);
        assert_eq!((meter.fuel(), tenant.fuel_left()), (42, Some(0)));
        tenant.allow_fuel(None);
        assert_eq!(tenant.fuel_left(), None);
    }

    /// Work that reads the limit at that moment would be stopped.
    #[test]
    fn a_limit_that_is_lifted_or_set_is_never_one_of_nothing() {
        let tenant = Tenant::new();
        let setting = tenant.clone();
        let setter = std::thread::spawn(move || {
            for n in 0..100_000 {
                setting.allow_fuel((n % 2 == 0).then_some(1_000));
            }
        });
        while !setter.is_finished() {
            assert_ne!(tenant.fuel_left(), Some(0));
        }
        setter.join().unwrap();
    }

    #[tokio::test]
    async fn work_is_under_the_meter_of_its_own_task() {
        assert!(Meter::current().is_none());
        let (one, other) = (Tenant::new(), Tenant::new());
        let seen = async || Meter::current().map(|meter| meter.tenant().clone());
        let meters = (one.meter(None), other.meter(None));
        let (first, second) = tokio::join!(meters.0.scope(seen()), meters.1.scope(seen()));
        assert_eq!((first, second), (Some(one), Some(other)));
        assert!(Meter::current().is_none());
    }
}

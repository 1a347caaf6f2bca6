//! Who guest work is done for, where several share a runtime, and what it uses.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::api::interrupt::Interrupt;

/// One of several who share a [`Runtime`](crate::Runtime). Clones are the same tenant.
///
/// Tenants have the runtime's turns in rotation, and each may be given an amount of fuel for all of
/// its work. What is done for a tenant is awaited under a [`Meter`]: runs, the initial code of
/// sessions, and what sessions are asked.
///
/// ```no_run
/// # async fn example(runtime: belljar::Runtime) -> Result<(), belljar::Error> {
/// use belljar::{SessionOptions, Tenant};
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
    /// In one word with whether there is a limit: work under way never sees half of a change.
    allowed: AtomicU64,
    is_alone: AtomicBool,
}

/// More fuel than can be used.
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
    /// A tenant that has used nothing, and whose fuel is not limited.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets how much fuel its work may use, counted from when the tenant was made; `None` is no
    /// limit. Work that is under way ends as for [`Limits::fuel`](crate::Limits::fuel) when it is
    /// used up: all that runs at once draws from the same amount, within a slice of some ms each.
    pub fn allow_fuel(&self, total: Option<u64>) {
        self.0.allowed.store(total.unwrap_or(UNLIMITED), Ordering::Relaxed);
    }

    /// Fuel that its work has used since it was made.
    #[must_use]
    pub fn fuel_used(&self) -> u64 {
        self.0.used.load(Ordering::Relaxed)
    }

    /// Fuel that is left for its work, where it is limited.
    #[must_use]
    pub fn fuel_left(&self) -> Option<u64> {
        let allowed = self.0.allowed.load(Ordering::Relaxed);
        (allowed != UNLIMITED).then(|| allowed.saturating_sub(self.fuel_used()))
    }

    /// Sets whether it is the only tenant, for which no turns are kept free of its runs.
    pub fn set_alone(&self, is_alone: bool) {
        self.0.is_alone.store(is_alone, Ordering::Relaxed);
    }

    pub(crate) fn is_alone(&self) -> bool {
        self.0.is_alone.load(Ordering::Relaxed)
    }

    /// A meter for some of its work. `interrupt` stops what goes on under it.
    #[must_use]
    pub fn meter(&self, interrupt: Option<&Interrupt>) -> Meter {
        Meter(Arc::new(Measured {
            tenant: self.clone(),
            used: AtomicU64::new(0),
            interrupt: interrupt.cloned(),
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

/// Two are equal when they are the same tenant.
impl PartialEq for Tenant {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Tenant {}

/// Measures what a tenant's work uses. Clones are the same meter.
#[derive(Clone, Debug)]
pub struct Meter(Arc<Measured>);

#[derive(Debug)]
struct Measured {
    tenant: Tenant,
    used: AtomicU64,
    interrupt: Option<Interrupt>,
}

tokio::task_local! {
    static CURRENT: Meter;
}

impl Meter {
    /// Awaits `work`, and charges all guest code that it enters to the tenant. What `work` leaves to
    /// tasks that it spawns is not measured.
    pub async fn scope<T>(&self, work: impl Future<Output = T>) -> T {
        CURRENT.scope(self.clone(), work).await
    }

    /// Fuel that was used under it, also by work that was dropped before its end.
    #[must_use]
    pub fn fuel(&self) -> u64 {
        self.0.used.load(Ordering::Relaxed)
    }

    /// The meter under which the current task works.
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

/// Charges one task of a guest to a meter, slice by slice. Dropped before the task has ended, it
/// charges the slice that was begun.
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

    /// The guest has used so many slices. Returns whether its tenant has no fuel left.
    pub(crate) fn note(&mut self, slices: u64) -> bool {
        self.charge_up_to(slices.saturating_mul(self.slice));
        self.meter.tenant().fuel_left() == Some(0)
    }

    /// The task has ended, and used so much in all.
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

    /// Work that looks at that moment would be stopped.
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

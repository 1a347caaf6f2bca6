//! The environment of a session, and its status, which others can read without waiting.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use belljar_value::Value;

use super::SessionError;
use super::clock::Clock;
use super::fence::{Fence, Pass};
use super::info::{SessionInfo, SessionStatus};
use super::lease::{Lease, LeaseEnd};
use super::options::{FixedSettings, SessionLimits, misplaced};
use super::storage::Storage;
use crate::api::outcome::Outcome;
use crate::api::policy::{Plan, resolve};
use crate::api::refusal::Refusal;
use crate::api::request::{Policy, Request};
use crate::artifact::image::Image;
use crate::engine::run::judge::{self, Failure};
use crate::engine::{Engine, on_blocking_thread};
use crate::error::Error;
use crate::sandbox::{Control, StopReason};

/// Limits the number of sessions in memory.
pub(super) trait Room: Send + Sync {
    /// Whether memory is full for another session.
    fn is_full(&self) -> bool;

    /// Suspends the least recently used sessions until another session fits into memory. Blocks.
    fn make_room(&self);

    /// Records that a session was loaded into memory or suspended.
    fn memory_changed(&self, context: &Context);

    /// Records that a session's lease end has changed.
    fn lease_changed(&self, context: &Context);
}

/// The environment of a session.
pub(super) struct Context {
    pub id: String,
    pub client: Option<String>,
    pub image: Arc<Image>,
    pub fixed: FixedSettings,
    pub engine: Arc<Engine>,
    pub storage: Arc<Storage>,
    pub room: Weak<dyn Room>,
    /// Effective limits: the stricter of the session's own and the runtime's.
    pub limits: SessionLimits,
    pub clock: Clock,
    pub status: SharedStatus,
}

/// Status of a session, readable by others.
pub(super) struct SharedStatus {
    in_memory: AtomicBool,
    /// The interpreter was lost and could not be restarted.
    failed: AtomicBool,
    closed: AtomicBool,
    /// The last run has ended, and its state is being saved.
    keeping: AtomicBool,
    /// Stop switch of the current run.
    running: Mutex<Option<Arc<Control>>>,
    pub labels: Mutex<BTreeMap<String, String>>,
    pub lease: Mutex<Option<Lease>>,
    /// Which handles may change the session.
    fence: Fence,
}

impl SharedStatus {
    pub(super) fn new(labels: BTreeMap<String, String>, lease: Option<Lease>) -> Self {
        Self {
            labels: labels.into(),
            lease: lease.into(),
            in_memory: AtomicBool::new(false),
            failed: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            keeping: AtomicBool::new(false),
            running: Mutex::default(),
            fence: Fence::default(),
        }
    }
}

impl Context {
    /// Checks a request of this session.
    pub(super) fn plan(&self, mut request: Request) -> Result<Plan, Refusal> {
        Refusal::unless_empty(misplaced(&request, &self.image.manifest.name))?;
        if request.policy == Policy::Open {
            request.policy = self.fixed.policy.clone();
        }
        self.fixed.tools.complete(&mut request);
        request.aliases.clone_from(&self.fixed.places.aliases);
        if request.cwd.is_none() {
            request.cwd.clone_from(&self.fixed.places.cwd);
        }
        let mut plan = resolve(request, &self.fixed.bounds, &self.engine.ceilings)?;
        plan.request.deterministic.clone_from(&self.fixed.deterministic);
        Ok(plan)
    }

    /// Checks a query, which cannot call the caller's tools.
    pub(super) fn plan_question(
        &self,
        variables: BTreeMap<String, Value>,
        time: Option<Duration>,
    ) -> Result<Plan, Refusal> {
        let mut request = Request::new("pass");
        request.variables = variables;
        let mut bounds = self.fixed.bounds;
        bounds.timeout = time.unwrap_or(bounds.timeout).min(self.engine.ceilings.timeout);
        bounds.fuel = None;
        let mut plan = resolve(request, &bounds, &self.engine.ceilings)?;
        plan.request.deterministic.clone_from(&self.fixed.deterministic);
        Ok(plan)
    }

    /// Returns why the session may not run again, if a limit is reached.
    pub(super) fn over(&self) -> Option<Failure> {
        let times = self.clock.times();
        let too_old = self.limits.lifetime.filter(|limit| times.age >= *limit);
        let too_idle = self.limits.idle.filter(|limit| times.idle >= *limit);
        too_old.map(judge::session_lifetime).or_else(|| too_idle.map(judge::session_idle))
    }

    /// Sort key: the time of arrival at this runtime.
    pub(super) fn order(&self) -> (Instant, &str) {
        (self.clock.born(), &self.id)
    }

    pub(super) fn info(&self) -> SessionInfo {
        let running = self.running().is_some();
        let status = if running {
            SessionStatus::Running
        } else if !self.is_in_memory() {
            SessionStatus::Suspended
        } else if self.status.failed.load(Ordering::Acquire) {
            SessionStatus::Failed
        } else {
            SessionStatus::Idle
        };
        SessionInfo {
            id: self.id.clone(),
            status,
            client: self.client.clone(),
            image: self.image.manifest.name.clone(),
            labels: self.labels(),
            lease_seconds: self
                .lease()
                .map(|lease| lease.end.saturating_duration_since(Instant::now()).as_secs_f64()),
            idle_seconds: if running {
                0.0
            } else {
                self.used().elapsed().as_secs_f64()
            },
        }
    }

    /// Marks the session as running until the returned guard is dropped.
    pub(super) fn run(&self, control: Arc<Control>) -> Running<'_> {
        *self.running() = Some(control);
        Running(self)
    }

    /// Interrupts the current run, if there is one.
    pub(super) fn interrupt(&self) -> bool {
        self.running().as_ref().inspect(|control| control.ask(StopReason::Interrupted)).is_some()
    }

    /// Records whether the last attempt to restart the interpreter failed.
    pub(super) fn note_failed(&self, failed: bool) {
        self.status.failed.store(failed, Ordering::Release);
    }

    pub(super) fn note_keeping(&self, keeping: bool) {
        self.status.keeping.store(keeping, Ordering::Release);
    }

    /// Marks the state as being saved until the returned guard is dropped, also by a panic.
    pub(super) fn keeping(&self) -> Keeping<'_> {
        Keeping(&self.status)
    }

    pub(super) fn is_keeping(&self) -> bool {
        self.status.keeping.load(Ordering::Acquire)
    }

    pub(super) fn note_in_memory(&self, in_memory: bool) {
        self.status.in_memory.store(in_memory, Ordering::Release);
        if let Some(room) = self.room.upgrade() {
            room.memory_changed(self);
        }
    }

    pub(super) fn is_in_memory(&self) -> bool {
        self.status.in_memory.load(Ordering::Acquire)
    }

    pub(super) fn close(&self) {
        self.status.closed.store(true, Ordering::Release);
    }

    pub(super) fn is_closed(&self) -> bool {
        self.status.closed.load(Ordering::Acquire)
    }

    pub(super) fn used(&self) -> Instant {
        self.clock.used()
    }

    /// Marks the session as used until the returned guard is dropped, and as idle from then on.
    /// Every run or change starts with this.
    pub(super) fn begin_use(&self) -> Use<'_> {
        Use {
            context: self,
            was_over: self.over().is_some(),
        }
    }

    /// Makes room in memory for this session.
    pub(super) async fn make_room(&self) {
        let Some(room) = self.room.upgrade().filter(|room| room.is_full()) else {
            return;
        };
        // The session continues whether or not this succeeds.
        let _ = on_blocking_thread(move || room.make_room()).await;
    }

    pub(super) fn fence(&self) -> &Fence {
        &self.status.fence
    }

    fn running(&self) -> MutexGuard<'_, Option<Arc<Control>>> {
        self.status.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Context {
    pub(super) fn labels(&self) -> BTreeMap<String, String> {
        self.status.labels.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn set_labels(&self, labels: BTreeMap<String, String>) {
        *self.status.labels.lock().unwrap_or_else(PoisonError::into_inner) = labels;
    }

    pub(super) fn lease(&self) -> Option<Lease> {
        *self.status.lease.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn extend_lease(&self, duration: Duration) -> bool {
        let mut lease = self.status.lease.lock().unwrap_or_else(PoisonError::into_inner);
        // An expired lease cannot be extended: the session may be closed already.
        let running =
            lease.as_mut().filter(|l| l.then == LeaseEnd::Suspend || l.end > Instant::now());
        let extended = running.map(|lease| *lease = Lease::from_now(duration, lease.then));
        drop(lease);
        if let (Some(()), Some(room)) = (extended, self.room.upgrade()) {
            room.lease_changed(self);
        }
        extended.is_some()
    }

    /// Returns what must happen to the session if its lease has expired.
    pub(super) fn lease_over(&self) -> Option<LeaseEnd> {
        self.lease().filter(|lease| lease.end <= Instant::now()).map(|lease| lease.then)
    }
}

/// Marks the state as being saved.
pub(super) struct Keeping<'a>(&'a SharedStatus);

impl Drop for Keeping<'_> {
    fn drop(&mut self) {
        self.0.keeping.store(false, Ordering::Release);
    }
}

impl Context {
    /// Fails if the pass does not permit changes.
    pub(super) fn check_pass(&self, pass: Pass) -> Result<(), Error> {
        if self.fence().is_open_to(pass) {
            return Ok(());
        }
        Err(self.not_held())
    }

    /// Starts a change of the session, or fails if the pass does not permit it. Returns whether the
    /// session may have been changed before.
    pub(super) fn begin_change(&self, pass: Pass) -> Result<bool, Error> {
        self.fence().begin_change(pass).ok_or_else(|| self.not_held())
    }

    fn not_held(&self) -> Error {
        let id = self.id.clone();
        SessionError::NotHeld { id }.into()
    }

    /// Adds earlier losses to an outcome.
    pub(super) fn tell_losses(&self, outcome: &mut Outcome) {
        let Some(report) = &mut outcome.session else {
            return;
        };
        let mut reasons = std::mem::take(&mut *self.fence().lost());
        if reasons.is_empty() {
            return;
        }
        reasons.extend(report.restart_reason.take());
        report.interpreter_restarted = true;
        report.restart_reason = Some(reasons.join("; "));
    }
}

/// Guard: the session is in use.
pub(super) struct Use<'a> {
    context: &'a Context,
    /// Whether a limit was already exceeded when the use began.
    was_over: bool,
}

impl Drop for Use<'_> {
    fn drop(&mut self) {
        self.context.clock.touch(self.was_over);
    }
}

/// Guard: the session is running.
pub(super) struct Running<'a>(&'a Context);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        *self.0.running() = None;
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    /// Otherwise later queries would assume that the state is still being saved.
    #[test]
    fn a_panic_ends_keeping() {
        let status = SharedStatus::new(BTreeMap::new(), None);
        status.keeping.store(true, Ordering::Release);
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            let _keeping = Keeping(&status);
            panic!("the state cannot be kept");
        }));
        assert!(panicked.is_err() && !status.keeping.load(Ordering::Acquire));
    }
}

//! Runs and sessions of owners, independent of HTTP. All faces use this service.

pub(crate) mod cache;
pub(crate) mod environment;
pub(crate) mod error;
pub(crate) mod guest_work;
pub(crate) mod memory;
pub(crate) mod metrics;
pub(crate) mod owned_session;
pub(crate) mod owner;
pub(crate) mod queries;
pub(crate) mod run_files;
mod saved;
mod session_slot;
pub(crate) mod session_store;
mod sessions;
mod storage_quota;
pub(crate) mod temporary;
mod timed_store;
pub(crate) mod view;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use belljar::cluster::StoredSessions;
use belljar::outcome::CheckReport;
use belljar::store::Store;
use belljar::{Interrupt, Policy, Request, Run, Runtime};

use cache::Caches;
use error::ServiceError;
use guest_work::{AdmittedWork, GuestFuture};
use memory::{Budget, BudgetError};
use metrics::Metrics;
use owned_session::OwnedSession;
use owner::{Owner, Work};
use session_store::SessionStore;
use timed_store::TimedStore;

use crate::audit::AuditLog;
use crate::lock::lock;

/// Runs and sessions of [`Owner`]s. Clones share the same service.
#[derive(Clone)]
pub struct Service {
    shared: Arc<Shared>,
}

pub(crate) struct Shared {
    runtime: Runtime,
    sessions: Mutex<HashMap<String, OwnedSession>>,
    caches: Caches,
    /// Interrupts of all runs in progress or queued.
    interrupts: Mutex<HashMap<u64, Interrupt>>,
    next_run: AtomicU64,
    metrics: Metrics,
    is_stopping: AtomicBool,
    /// The memory budget of the process.
    budget: Option<Budget>,
    /// Sessions in a store, available to all its servers.
    session_store: Option<SessionStore>,
    /// Prefix of sandbox ids, and secret of their tokens, if a front gave them.
    sandboxes: Option<(String, [u8; 64])>,
    audit: Option<AuditLog>,
    /// Number of streams that clients can resume.
    streams: Arc<AtomicUsize>,
}

/// Configures a [`Service`].
pub struct ServiceBuilder(Shared);

impl ServiceBuilder {
    /// Keeps sessions in a store, available to all its servers.
    #[must_use]
    pub fn stored(mut self, sessions: StoredSessions) -> Self {
        self.0.session_store = Some(SessionStore::new(sessions));
        self
    }

    /// Measures the operations of a store for this service's metrics.
    #[must_use]
    pub fn timed(&self, store: Arc<dyn Store>) -> Arc<dyn Store> {
        Arc::new(TimedStore::new(store, self.0.metrics.store_times()))
    }

    /// Sets the memory budget of the process in bytes. Over budget, runs, sessions and uploads are
    /// refused. The measurement includes session states, which the system does not count as the
    /// process's memory, and excludes file pages, which the system can drop.
    ///
    /// # Errors
    ///
    /// Fails if the system does not report the process's memory, or the process exceeds the budget
    /// already.
    pub fn memory_budget(mut self, bytes: u64) -> Result<Self, BudgetError> {
        self.0.budget = Some(Budget::new(&self.0.runtime, bytes)?);
        Ok(self)
    }

    /// Sets the prefix of sandbox ids and the secret of their tokens.
    #[must_use]
    pub(crate) fn sandboxes(mut self, tag: String, secret: [u8; 64]) -> Self {
        self.0.sandboxes = Some((tag, secret));
        self
    }

    /// Records guest work, sessions and refused keys in an audit log.
    #[must_use]
    pub fn audit(mut self, log: AuditLog) -> Self {
        self.0.audit = Some(log);
        self
    }

    /// Builds the service.
    #[must_use]
    pub fn build(mut self) -> Service {
        if let Some(sessions) = &mut self.0.session_store {
            sessions.audit.clone_from(&self.0.audit);
        }
        Service {
            shared: Arc::new(self.0),
        }
    }
}

impl Service {
    /// Creates a service that keeps sessions in this process and has no memory budget.
    #[must_use]
    pub fn new(runtime: Runtime) -> Self {
        Self::builder(runtime).build()
    }

    /// Creates a builder.
    #[must_use]
    pub fn builder(runtime: Runtime) -> ServiceBuilder {
        ServiceBuilder(Shared {
            runtime,
            sessions: Mutex::default(),
            caches: Caches::default(),
            interrupts: Mutex::default(),
            next_run: AtomicU64::new(1),
            metrics: Metrics::new(),
            is_stopping: AtomicBool::new(false),
            budget: None,
            session_store: None,
            sandboxes: None,
            audit: None,
            streams: Arc::default(),
        })
    }

    /// The runtime, for operations other than runs, such as listing images.
    #[must_use]
    pub fn runtime(&self) -> &Runtime {
        &self.shared.runtime
    }

    /// Runs a request in a fresh sandbox. Dropping the future interrupts the run.
    ///
    /// # Errors
    ///
    /// Fails if the owner has reached a limit, or as for [`Runtime::run`].
    pub fn run(
        &self,
        owner: &Owner,
        mut request: Request,
    ) -> GuestFuture<Result<Run, ServiceError>> {
        let admitted = AdmittedWork::of_run(self, owner, None, &mut request);
        let interrupt = request.interrupt.clone();
        let runtime = self.shared.runtime.clone();
        GuestFuture::new(interrupt, async move {
            let admitted = admitted?;
            let ran = admitted.scope(runtime.run(request)).await.map_err(ServiceError::from);
            admitted.note(ran.as_ref().map(|run| &run.outcome));
            ran
        })
    }

    /// Checks code without running it.
    ///
    /// # Errors
    ///
    /// As for [`Runtime::check`].
    pub async fn check(
        &self,
        owner: &Owner,
        code: &str,
        policy: &Policy,
    ) -> Result<CheckReport, ServiceError> {
        let check = Box::pin(self.shared.runtime.check(code, policy));
        self.work_on(owner, Work::Run, "check", Some(code), check).await
    }

    /// Removes expired cache entries, and sessions not used for `idle`. Call it periodically.
    pub fn sweep(&self, idle: Duration) {
        self.sweep_caches();
        self.sweep_sessions(idle);
        self.sweep_kept_sessions();
    }

    /// Begins the shutdown: new work is refused.
    pub fn stop(&self) {
        self.shared.is_stopping.store(true, Ordering::Release);
    }

    /// Interrupts all runs in progress or queued.
    pub fn interrupt_all(&self) {
        for switch in self.shared.interrupts().values() {
            switch.interrupt();
        }
    }

    /// The prefix of sandbox ids and the secret of their tokens, if a front gave them.
    pub(crate) fn sandboxes(&self) -> Option<&(String, [u8; 64])> {
        self.shared.sandboxes.as_ref()
    }

    /// The audit log, if there is one.
    pub(crate) fn audit(&self) -> Option<&AuditLog> {
        self.shared.audit.as_ref()
    }

    /// Counts the streams that clients can resume.
    pub(crate) fn streams(&self) -> &Arc<AtomicUsize> {
        &self.shared.streams
    }

    /// Whether nothing is in progress, and a regular shutdown loses nothing. `has_state` says that
    /// a shutdown saves sessions.
    pub(crate) fn is_idle(&self, has_state: bool) -> bool {
        let is_kept = |session: &OwnedSession| has_state && saved::is_restorable(session);
        self.under_way() == 0
            && self.shared.streams.load(Ordering::Relaxed) == 0
            && self.shared.has_empty_caches()
            && self.shared.all().iter().all(is_kept)
    }

    /// Number of runs in progress or queued.
    #[must_use]
    pub fn under_way(&self) -> usize {
        self.shared.interrupts().len()
    }
}

impl Shared {
    fn interrupts(&self) -> MutexGuard<'_, HashMap<u64, Interrupt>> {
        lock(&self.interrupts)
    }

    fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::Acquire)
    }
}

//! The one service that every face stands on: runs and sessions, by owner. No HTTP is in it.

pub(crate) mod alone;
pub(crate) mod anywhere;
pub(crate) mod environment;
pub(crate) mod error;
pub(crate) mod figures;
pub(crate) mod held;
pub(crate) mod kept;
pub(crate) mod memory;
pub(crate) mod owner;
pub(crate) mod passing;
mod place;
pub(crate) mod questions;
mod saved;
mod sessions;
pub(crate) mod shelf;
mod stored;
pub(crate) mod turn;
pub(crate) mod view;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use belljar::cluster::StoredSessions;
use belljar::outcome::CheckReport;
use belljar::{Interrupt, Policy, Request, Run, Runtime};

use anywhere::Anywhere;
use error::ServiceError;
use figures::Figures;
use held::Held;
use memory::{Budget, BudgetError};
use owner::{Owner, Work};
use shelf::Shelves;
use turn::{Attended, Turn};

/// Runs and sessions, each of an [`Owner`]. Cheap to clone; clones are the same service.
#[derive(Clone)]
pub struct Service {
    shared: Arc<Shared>,
}

pub(crate) struct Shared {
    runtime: Runtime,
    sessions: Mutex<HashMap<String, Held>>,
    shelves: Shelves,
    /// The switches of the runs that are under way or wait.
    switches: Mutex<HashMap<u64, Interrupt>>,
    next_run: AtomicU64,
    figures: Figures,
    is_stopping: AtomicBool,
    /// How much memory the process may hold.
    budget: Option<Budget>,
    /// Where sessions live that every server finds.
    anywhere: Option<Anywhere>,
}

/// A service that is not shared yet, and how it is to be.
pub struct ServiceBuilder(Shared);

impl ServiceBuilder {
    /// Has sessions live in a store, where every server finds them that has the same.
    #[must_use]
    pub fn stored(mut self, sessions: StoredSessions) -> Self {
        self.0.anywhere = Some(Anywhere::new(sessions));
        self
    }

    /// Sets how many bytes of memory the process may hold before runs, sessions and uploads are refused.
    /// States of sessions count, which the system does not count as the process's; resident pages of files do
    /// not, since the system drops them when it needs room.
    ///
    /// # Errors
    ///
    /// When the system does not say how much the process holds, or it holds more already.
    pub fn memory_budget(mut self, bytes: u64) -> Result<Self, BudgetError> {
        self.0.budget = Some(Budget::new(&self.0.runtime, bytes)?);
        Ok(self)
    }

    /// The service.
    #[must_use]
    pub fn build(self) -> Service {
        Service {
            shared: Arc::new(self.0),
        }
    }
}

impl Service {
    /// A service whose sessions live in this process, and which may hold as much memory as there is.
    #[must_use]
    pub fn new(runtime: Runtime) -> Self {
        Self::builder(runtime).build()
    }

    /// A service that can be set up otherwise.
    #[must_use]
    pub fn builder(runtime: Runtime) -> ServiceBuilder {
        ServiceBuilder(Shared {
            runtime,
            sessions: Mutex::default(),
            shelves: Shelves::default(),
            switches: Mutex::default(),
            next_run: AtomicU64::new(1),
            figures: Figures::new(),
            is_stopping: AtomicBool::new(false),
            budget: None,
            anywhere: None,
        })
    }

    /// What runs, for questions that are no runs: images, checks of what there is.
    #[must_use]
    pub fn runtime(&self) -> &Runtime {
        &self.shared.runtime
    }

    /// Runs a request in a fresh sandbox. A future that is dropped interrupts its run.
    ///
    /// # Errors
    ///
    /// When the owner may not run anything now, or as for [`Runtime::run`].
    pub fn run(&self, owner: &Owner, mut request: Request) -> Attended<Result<Run, ServiceError>> {
        let turn = Turn::of_run(self, owner, &mut request);
        let interrupt = request.interrupt.clone();
        let runtime = self.shared.runtime.clone();
        Attended::new(interrupt, async move {
            let turn = turn?;
            let ran = turn.scope(runtime.run(request)).await.map_err(ServiceError::from);
            turn.note(ran.as_ref().map(|run| &run.outcome));
            ran
        })
    }

    /// Looks at code without running it.
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
        self.work(owner, Work::Run, "check", check).await
    }

    /// Drops what nobody has any more use for: what was kept for long enough, and sessions
    /// that nobody has used for `idle`. To be called now and then.
    pub fn sweep(&self, idle: Duration) {
        self.sweep_shelves();
        self.sweep_sessions(idle);
        self.sweep_kept_sessions();
    }

    /// Begins to stop: nothing new begins from now on.
    pub fn stop(&self) {
        self.shared.is_stopping.store(true, Ordering::Release);
    }

    /// Interrupts every run that is under way, or waits.
    pub fn interrupt_all(&self) {
        for switch in self.shared.switches().values() {
            switch.interrupt();
        }
    }

    /// How many runs are under way or wait.
    #[must_use]
    pub fn under_way(&self) -> usize {
        self.shared.switches().len()
    }
}

impl Shared {
    fn switches(&self) -> MutexGuard<'_, HashMap<u64, Interrupt>> {
        self.switches.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::Acquire)
    }
}

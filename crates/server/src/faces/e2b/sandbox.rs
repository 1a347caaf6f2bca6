//! A sandbox: a leased directory, and the contexts that share it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

use belljar::{Request, RequestLimits};
use tokio::sync::{OwnedMutexGuard, watch};
use tokio_util::sync::CancellationToken;

use super::fault::Fault;
use super::paths::HOME;
use super::processes::Processes;
use super::record::{
    Context, Latest, Lease, Note, SANDBOXES, SandboxConfig, SandboxRecord, max_disk, millis,
    new_id, options, sandbox_id, with_env,
};
use super::watchers::Watchers;
use super::wire::State;
use crate::http::identity;
use crate::lock::lock;
use crate::service::Service;
use crate::service::owned_session::{NewSession, OwnedSession};
use crate::service::owner::Owner;
use crate::service::session_store::Access;

/// Maximum bytes that one execution writes to each of its streams.
const MAX_OUTPUT: u64 = 16 << 20;

/// A sandbox. It lives until it is killed or its lease expires.
pub(super) struct Sandbox {
    pub id: String,
    /// Its kind of document in the store.
    pub kind: &'static str,
    pub owner: Owner,
    /// The access token for its files and interpreter.
    pub token: String,
    pub config: SandboxConfig,
    pub started: SystemTime,
    /// Cancelled when the sandbox is killed.
    pub killed: CancellationToken,
    service: Service,
    lease: Mutex<Lease>,
    pub contexts: Mutex<Vec<Arc<Context>>>,
    latest: Arc<tokio::sync::Mutex<Latest>>,
    next: AtomicU64,
    pub processes: Arc<Processes>,
    pub watchers: Watchers,
    /// Notified when files may have changed.
    pub changed: watch::Sender<()>,
}

impl Sandbox {
    /// Whether it is running and not expired.
    pub(super) fn is_usable(&self) -> bool {
        !self.killed.is_cancelled() && !self.is_expired() && self.lease().state == State::Running
    }

    /// Creates a sandbox with one context.
    pub(super) async fn begin(
        service: &Service,
        owner: &Owner,
        config: SandboxConfig,
        lease: Duration,
    ) -> Result<Self, Fault> {
        let session =
            Box::pin(service.start(owner, options(service, &config, HOME).into())).await?;
        if let Err(error) = session.view().validate(&with_env(Request::new("pass"), &config.env)) {
            let _ = service.end(owner, session.id()).await;
            return Err(error.into());
        }
        let context = Context::new(new_id(), HOME, session.id(), Note::default());
        Ok(Self::of(service, owner, config, Lease::of(lease), vec![Arc::clone(&context)], &context))
    }

    pub(super) fn of(
        service: &Service,
        owner: &Owner,
        config: SandboxConfig,
        lease: Lease,
        contexts: Vec<Arc<Context>>,
        latest: &Arc<Context>,
    ) -> Self {
        Self {
            id: sandbox_id(service),
            kind: SANDBOXES,
            owner: owner.clone(),
            token: String::new(),
            config,
            started: SystemTime::now(),
            killed: CancellationToken::new(),
            service: service.clone(),
            lease: Mutex::new(lease),
            contexts: Mutex::new(contexts),
            latest: Arc::new(tokio::sync::Mutex::new(Latest(Arc::clone(latest)))),
            next: AtomicU64::new(1),
            processes: Arc::default(),
            watchers: Watchers::default(),
            changed: watch::Sender::default(),
        }
    }

    /// Copies the sandbox and its contexts. Without `memory`, only files are copied.
    pub(super) async fn fork(
        &self,
        config: SandboxConfig,
        lease: Duration,
        memory: bool,
    ) -> Result<Self, Fault> {
        let turn = self.turn(Access::Read).await?;
        let mut forks: Vec<Arc<Context>> = Vec::new();
        for context in self.all() {
            match self.fork_context(&turn, &context, &config, memory).await {
                Ok(fork) => forks.push(fork),
                Err(fault) => {
                    for fork in &forks {
                        self.remove_session(&fork.session()).await;
                    }
                    return Err(fault);
                }
            }
        }
        let latest = forks.iter().find(|fork| fork.id == turn.context().id).cloned();
        let latest = latest.ok_or_else(|| Fault::no_sandbox(&self.id))?;
        Ok(Self::of(&self.service, &self.owner, config, Lease::of(lease), forks, &latest))
    }

    /// Waits for this server's lock on the turn.
    pub(super) async fn latest(&self) -> OwnedMutexGuard<Latest> {
        Arc::clone(&self.latest).lock_owned().await
    }

    /// Writes the sandbox to disk as soon as it is idle, waiting at most `patience`. Without
    /// `memory`, variables are dropped. Returns false if it is already paused.
    pub(super) async fn pause(&self, memory: bool, patience: Duration) -> Result<bool, Fault> {
        let busy =
            || Fault::invalid("the sandbox is running code; pause it when the run has ended");
        if self.lease().state == State::Paused {
            return Ok(false);
        }
        if !self.processes.is_empty() {
            return Err(busy());
        }
        let turn = tokio::time::timeout(patience, self.turn(Access::Change)).await;
        let mut turn = match turn.map_err(|_| busy())? {
            Err(fault) if fault.is_elsewhere => return Err(busy()),
            turn => turn?,
        };
        if self.lease().state == State::Paused {
            turn.release().await?;
            return Ok(false);
        }
        if self.is_shared() {
            self.change(SandboxRecord::pause).await?;
        } else {
            lock(&self.lease).state = State::Paused;
        }
        if !memory {
            self.forget(&mut turn).await?;
        }
        if self.is_shared() {
            // The other contexts are in the store; this server only caches them.
            turn.at()?.view().suspend().await;
        } else {
            for context in self.all() {
                if let Ok(session) = self.service.find(&self.owner, &context.session()) {
                    session.view().suspend().await;
                }
            }
        }
        turn.release().await?;
        Ok(true)
    }

    /// Resumes the sandbox for `duration`. Without `memory`, variables are dropped. The lease of a
    /// running sandbox is extended, but never shortened.
    pub(super) async fn resume(&self, duration: Duration, memory: bool) -> Result<(), Fault> {
        if self.lease().state == State::Paused && !memory {
            let mut turn = self.turn(Access::Change).await?;
            self.forget(&mut turn).await?;
            turn.release().await?;
        }
        let new = Lease::of(duration);
        if self.is_shared() {
            let end = millis(new.end_at);
            let change = |record: &mut SandboxRecord| {
                if record.is_paused() || end > record.end() {
                    record.run_until(end);
                }
            };
            return self.change(change).await.map(drop);
        }
        let mut lease = lock(&self.lease);
        if lease.state == State::Paused || new.end > lease.end {
            *lease = new;
        }
        Ok(())
    }

    /// Sets the remaining lifetime.
    pub(super) async fn set_timeout(&self, duration: Duration) -> Result<(), Fault> {
        let new = Lease::of(duration);
        if self.is_shared() {
            let end = millis(new.end_at);
            let change = |record: &mut SandboxRecord| {
                if !record.is_paused() {
                    record.run_until(end);
                }
            };
            return self.change(change).await.map(drop);
        }
        let mut lease = lock(&self.lease);
        if lease.state == State::Running {
            *lease = new;
        }
        Ok(())
    }

    pub(super) fn lease(&self) -> Lease {
        *lock(&self.lease)
    }

    pub(super) fn set_lease(&self, lease: Lease) {
        *lock(&self.lease) = lease;
    }

    /// Whether the lease has expired.
    pub(super) fn is_expired(&self) -> bool {
        let lease = self.lease();
        lease.state == State::Running && lease.end <= Instant::now()
    }

    /// Kills the sandbox: aborts streams, interrupts runs and frees everything.
    pub(super) async fn kill(&self) -> Result<(), Fault> {
        if let Some(documents) = self.service.documents(self.kind) {
            documents.remove(&self.id).await?;
            self.end_here();
        } else {
            self.kill_here();
        }
        Ok(())
    }

    /// Kills a sandbox that exists only on this server.
    pub(super) fn kill_here(&self) {
        self.end_here();
        for context in std::mem::take(&mut *lock(&self.contexts)) {
            // It may already be gone.
            let _ = self.service.remove(&self.owner, &context.session());
        }
    }

    /// Ends all activity in the sandbox on this server.
    pub(super) fn end_here(&self) {
        self.killed.cancel();
        for context in self.all() {
            context.interrupt();
        }
    }

    /// The owner, with the current request for the audit log.
    pub(super) fn user(&self) -> Owner {
        let key = || self.owner.caller().and_then(|caller| caller.key.clone());
        let caller = identity::caller(key);
        match caller {
            Some(_) => self.owner.clone().called_by(caller),
            None => self.owner.clone(),
        }
    }

    /// A request for code, with the limits of one execution.
    pub(super) fn request(&self, code: String) -> Request {
        let ceilings = self.service.runtime().ceilings();
        let mut limits = RequestLimits::default()
            .timeout(ceilings.timeout)
            .output(MAX_OUTPUT.min(ceilings.output));
        limits.fuel = ceilings.fuel;
        Request::new(code).limits(limits)
    }

    /// A session with the sandbox's options that belongs to no context and exists only on this
    /// server.
    pub(super) async fn fresh(&self, cwd: &str) -> Result<OwnedSession, Fault> {
        let options = options(&self.service, &self.config, cwd);
        let new = NewSession::from(options).local();
        Ok(Box::pin(self.service.start(&self.user(), new)).await?)
    }

    /// A session for a context.
    pub(super) async fn start(&self, cwd: &str) -> Result<OwnedSession, Fault> {
        let options = options(&self.service, &self.config, cwd);
        Ok(Box::pin(self.service.start(&self.user(), options.into())).await?)
    }

    pub(super) async fn remove_session(&self, id: &str) {
        // It may already be gone. If the store cannot remove it now, it expires there.
        let _ = self.service.end(&self.owner, id).await;
    }

    pub(super) fn service(&self) -> &Service {
        &self.service
    }

    /// Adds the sandbox's environment to a request.
    pub(super) fn with_env(&self, request: Request) -> Request {
        with_env(request, &self.config.env)
    }

    /// Maximum bytes of its files.
    pub(super) fn max_disk(&self) -> u64 {
        max_disk(&self.service.runtime().ceilings())
    }

    /// A number unique within this sandbox.
    pub(super) fn next(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    pub(super) fn all(&self) -> Vec<Arc<Context>> {
        lock(&self.contexts).clone()
    }
}

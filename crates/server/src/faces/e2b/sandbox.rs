//! A sandbox: somebody's lease on a directory, and the contexts that share it.

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
    Context, Form, Latest, Lease, Note, SANDBOXES, Traits, lock, max_disk, millis, new_id, options,
    with_env,
};
use super::watchers::Watchers;
use super::wire::State;
use crate::service::Service;
use crate::service::anywhere::Use;
use crate::service::held::{Held, NewSession};
use crate::service::owner::Owner;

/// The most that one execution writes to each of its streams.
const MAX_OUTPUT: u64 = 16 << 20;

/// A sandbox. It lives until it is killed or its time is over.
pub(super) struct Sandbox {
    pub id: String,
    /// What it is in a store.
    pub kind: &'static str,
    pub owner: Owner,
    /// What opens its files and its interpreter.
    pub token: String,
    pub traits: Traits,
    pub started: SystemTime,
    /// Cancelled when it is killed.
    pub killed: CancellationToken,
    service: Service,
    lease: Mutex<Lease>,
    pub contexts: Mutex<Vec<Arc<Context>>>,
    latest: Arc<tokio::sync::Mutex<Latest>>,
    next: AtomicU64,
    pub processes: Arc<Processes>,
    pub watchers: Watchers,
    /// Told when files may have changed.
    pub changed: watch::Sender<()>,
}

impl Sandbox {
    /// Whether it can be used at once.
    pub(super) fn is_usable(&self) -> bool {
        !self.killed.is_cancelled() && !self.is_over() && self.lease().state == State::Running
    }

    /// A sandbox with one context.
    pub(super) async fn begin(
        service: &Service,
        owner: &Owner,
        traits: Traits,
        lease: Duration,
    ) -> Result<Self, Fault> {
        let held = Box::pin(service.start(owner, options(service, &traits, HOME).into())).await?;
        if let Err(error) = held.session().validate(&with_env(Request::new("pass"), &traits.env)) {
            let _ = service.end(owner, held.id()).await;
            return Err(error.into());
        }
        let context = Context::new(new_id(), HOME, held.id(), Note::default());
        Ok(Self::of(service, owner, traits, Lease::of(lease), vec![Arc::clone(&context)], &context))
    }

    pub(super) fn of(
        service: &Service,
        owner: &Owner,
        traits: Traits,
        lease: Lease,
        contexts: Vec<Arc<Context>>,
        latest: &Arc<Context>,
    ) -> Self {
        Self {
            id: new_id(),
            kind: SANDBOXES,
            owner: owner.clone(),
            token: String::new(),
            traits,
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

    /// Another sandbox like this one, with copies of its contexts; without `memory` only of its files.
    pub(super) async fn fork(
        &self,
        traits: Traits,
        lease: Duration,
        memory: bool,
    ) -> Result<Self, Fault> {
        let turn = self.turn(Use::Look).await?;
        let mut forks: Vec<Arc<Context>> = Vec::new();
        for context in self.all() {
            match self.fork_context(&turn, &context, &traits, memory).await {
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
        Ok(Self::of(&self.service, &self.owner, traits, Lease::of(lease), forks, &latest))
    }

    /// Waits until nobody here has the turn.
    pub(super) async fn latest(&self) -> OwnedMutexGuard<Latest> {
        Arc::clone(&self.latest).lock_owned().await
    }

    /// Puts it on the disk as soon as it runs nothing, for at most `patience`; without `memory` without its
    /// variables. False when it is paused already.
    pub(super) async fn pause(&self, memory: bool, patience: Duration) -> Result<bool, Fault> {
        let busy = || Fault::invalid("the sandbox runs code, and is paused when that has ended");
        if self.lease().state == State::Paused {
            return Ok(false);
        }
        if !self.processes.is_empty() {
            return Err(busy());
        }
        let turn = tokio::time::timeout(patience, self.turn(Use::Change)).await;
        let mut turn = match turn.map_err(|_| busy())? {
            Err(fault) if fault.is_elsewhere => return Err(busy()),
            turn => turn?,
        };
        if self.lease().state == State::Paused {
            turn.leave().await?;
            return Ok(false);
        }
        if self.is_shared() {
            self.change(Form::pause).await?;
        } else {
            lock(&self.lease).state = State::Paused;
        }
        if !memory {
            self.forget(&mut turn).await?;
        }
        if self.is_shared() {
            // Others are in the store, and here for a while.
            turn.at()?.session().suspend().await;
        } else {
            for context in self.all() {
                if let Ok(held) = self.service.find(&self.owner, &context.session()) {
                    held.session().suspend().await;
                }
            }
        }
        turn.leave().await?;
        Ok(true)
    }

    /// Has it run again, for so long; without `memory` without its variables. One that runs already runs no
    /// shorter than before.
    pub(super) async fn resume(&self, duration: Duration, memory: bool) -> Result<(), Fault> {
        if self.lease().state == State::Paused && !memory {
            let mut turn = self.turn(Use::Change).await?;
            self.forget(&mut turn).await?;
            turn.leave().await?;
        }
        let new = Lease::of(duration);
        if self.is_shared() {
            let end = millis(new.end_at);
            let change = |form: &mut Form| {
                if form.is_paused() || end > form.end() {
                    form.run_until(end);
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

    /// Has its time end so long from now.
    pub(super) async fn set_timeout(&self, duration: Duration) -> Result<(), Fault> {
        let new = Lease::of(duration);
        if self.is_shared() {
            let end = millis(new.end_at);
            let change = |form: &mut Form| {
                if !form.is_paused() {
                    form.run_until(end);
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

    /// Whether its time is over.
    pub(super) fn is_over(&self) -> bool {
        let lease = self.lease();
        lease.state == State::Running && lease.end <= Instant::now()
    }

    /// Ends it: streams end abruptly, what runs is interrupted, and all of it is freed.
    pub(super) async fn kill(&self) -> Result<(), Fault> {
        if let Some(documents) = self.service.documents(self.kind) {
            documents.remove(&self.id).await?;
            self.end_here();
        } else {
            self.kill_here();
        }
        Ok(())
    }

    /// The same where it is on this server alone.
    pub(super) fn kill_here(&self) {
        self.end_here();
        for context in std::mem::take(&mut *lock(&self.contexts)) {
            // It may be gone already.
            let _ = self.service.remove(&self.owner, &context.session());
        }
    }

    /// Ends what goes on in it on this server.
    pub(super) fn end_here(&self) {
        self.killed.cancel();
        for context in self.all() {
            context.interrupt();
        }
    }

    /// A request for code of the sandbox, with the limits of one execution.
    pub(super) fn request(&self, code: String) -> Request {
        let ceilings = self.service.runtime().ceilings();
        let mut limits = RequestLimits::default()
            .timeout(ceilings.timeout)
            .output(MAX_OUTPUT.min(ceilings.output));
        limits.fuel = ceilings.fuel;
        Request::new(code).limits(limits)
    }

    /// A session like those of the sandbox, which belongs to no context and is on this server alone.
    pub(super) async fn fresh(&self, cwd: &str) -> Result<Held, Fault> {
        let options = options(&self.service, &self.traits, cwd);
        let new = NewSession::from(options).here();
        Ok(Box::pin(self.service.start(&self.owner, new)).await?)
    }

    /// A session for a context.
    pub(super) async fn start(&self, cwd: &str) -> Result<Held, Fault> {
        let options = options(&self.service, &self.traits, cwd);
        Ok(Box::pin(self.service.start(&self.owner, options.into())).await?)
    }

    pub(super) async fn remove_session(&self, id: &str) {
        // It may be gone already; what the store does not remove now ends unused.
        let _ = self.service.end(&self.owner, id).await;
    }

    pub(super) fn service(&self) -> &Service {
        &self.service
    }

    /// A request in the sandbox's environment.
    pub(super) fn with_env(&self, request: Request) -> Request {
        with_env(request, &self.traits.env)
    }

    /// The most bytes that its files may have.
    pub(super) fn max_disk(&self) -> u64 {
        max_disk(&self.service.runtime().ceilings())
    }

    /// A number that nothing else here has.
    pub(super) fn next(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    pub(super) fn all(&self) -> Vec<Arc<Context>> {
        lock(&self.contexts).clone()
    }
}

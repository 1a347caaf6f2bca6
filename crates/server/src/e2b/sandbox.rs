//! A sandbox: somebody's lease on a directory, and the contexts that share it.
//!
//! A context is one session. Sessions have files of their own, so contexts take turns: one that is to run has
//! first the files of the one that ran last, which costs nothing where none has changed.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use belljar::{Bounds, Interrupt, Limits, Request, SessionFiles, SessionOptions};
use subtle::ConstantTimeEq;
use tokio::sync::OwnedMutexGuard;
use tokio_util::sync::CancellationToken;

use super::fault::Fault;
use super::paths::HOME;
use super::wire::{ContextInfo, State};
use crate::service::Service;
use crate::service::owner::Owner;
use crate::service::sessions::Held;

/// The most memory of a sandbox's contexts, each, above their image.
const MAX_MEMORY: u64 = 1 << 30;
/// The most bytes of files of a sandbox, and the most files.
const MAX_DISK: u64 = 1 << 30;
const MAX_FILES: u64 = 20_000;
/// The most that one execution writes to each of its streams.
const MAX_OUTPUT: u64 = 16 << 20;
/// The most contexts of a sandbox.
const MAX_CONTEXTS: usize = 32;

/// What a sandbox is like from its beginning on.
#[derive(Clone, Debug)]
pub(super) struct Traits {
    /// The template that was named.
    pub template: String,
    pub image: String,
    pub metadata: BTreeMap<String, String>,
    pub env: BTreeMap<String, String>,
    /// Whether it is paused when its time is over, and so with its variables; else it is removed.
    pub pauses: Option<bool>,
}

/// A sandbox. It lives until it is killed or its time is over.
pub(super) struct Sandbox {
    pub id: String,
    pub owner: Owner,
    /// What opens its files and its interpreter.
    pub token: String,
    pub traits: Traits,
    pub started: SystemTime,
    /// Cancelled when it is killed.
    pub killed: CancellationToken,
    service: Service,
    lease: Mutex<Lease>,
    contexts: Mutex<Vec<Arc<Context>>>,
    turn: Arc<tokio::sync::Mutex<Latest>>,
    next: AtomicU64,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Lease {
    pub state: State,
    end: Instant,
    pub end_at: SystemTime,
}

/// The context that ran last, so that its session has the sandbox's files.
pub(super) struct Latest(Arc<Context>);

/// A turn: whoever has it may run code, and look at files and change them.
pub(super) type Turn = OwnedMutexGuard<Latest>;

/// A context: variables of its own in the sandbox's directory.
pub(super) struct Context {
    pub id: String,
    pub cwd: String,
    held: Mutex<Held>,
    executions: AtomicU64,
    /// Whether the sandbox's environment has yet to be set.
    is_bare: AtomicBool,
    /// The switch of the execution that is under way.
    running: Mutex<Option<Interrupt>>,
}

impl Lease {
    fn of(duration: Duration) -> Self {
        let now = Instant::now();
        Self {
            state: State::Running,
            end: now.checked_add(duration).unwrap_or(now),
            end_at: SystemTime::now().checked_add(duration).unwrap_or_else(SystemTime::now),
        }
    }
}

impl Sandbox {
    /// Whether that is its token; a wrong one tells nothing by the time it takes.
    pub(super) fn has_token(&self, shown: &str) -> bool {
        self.token.as_bytes().ct_eq(shown.as_bytes()).into()
    }

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
        let held = service.create(owner, options(service, &traits, HOME).into()).await?;
        let context = Context::of(new_id(), HOME, held, 0, true);
        Ok(Self::of(service, owner, traits, lease, vec![context]))
    }

    fn of(
        service: &Service,
        owner: &Owner,
        traits: Traits,
        lease: Duration,
        contexts: Vec<Arc<Context>>,
    ) -> Self {
        let latest = Latest(Arc::clone(&contexts[0]));
        Self {
            id: new_id(),
            owner: owner.clone(),
            token: format!("{}{}", new_id(), new_id()),
            traits,
            started: SystemTime::now(),
            killed: CancellationToken::new(),
            service: service.clone(),
            lease: Mutex::new(Lease::of(lease)),
            contexts: Mutex::new(contexts),
            turn: Arc::new(tokio::sync::Mutex::new(latest)),
            next: AtomicU64::new(1),
        }
    }

    /// Another sandbox like this one, with copies of its contexts; without `memory` only of its files.
    pub(super) async fn fork(
        &self,
        traits: Traits,
        lease: Duration,
        memory: bool,
    ) -> Result<Self, Fault> {
        let turn = self.turn().await?;
        let mut forks: Vec<Arc<Context>> = Vec::new();
        let mut latest = 0;
        let all = self.all();
        for (at, context) in all.iter().enumerate() {
            let held = if memory {
                self.service.fork(&self.owner, &context.held(), None).await
            } else {
                let options = options(&self.service, &traits, &context.cwd);
                self.service.create(&self.owner, options.into()).await
            };
            let held = match held {
                Ok(held) => held,
                Err(error) => {
                    for fork in &forks {
                        self.close(fork);
                    }
                    return Err(error.into());
                }
            };
            if context.id == turn.0.id {
                latest = at;
            }
            let count = if memory {
                context.executions.load(Ordering::Relaxed)
            } else {
                0
            };
            let is_bare =
                !memory || context.is_bare.load(Ordering::Relaxed) || traits.env != self.traits.env;
            forks.push(Context::of(context.id.clone(), &context.cwd, held, count, is_bare));
        }
        if forks.is_empty() {
            return Err(Fault::no_sandbox(&self.id));
        }
        if !memory {
            forks[latest].files().replace_with(&turn.0.files()).await?;
        }
        let sandbox = Self::of(&self.service, &self.owner, traits, lease, forks);
        let latest = Arc::clone(&sandbox.contexts()[latest]);
        sandbox.turn.lock().await.0 = latest;
        Ok(sandbox)
    }

    /// Waits until nothing else runs or writes here.
    pub(super) async fn turn(&self) -> Result<Turn, Fault> {
        tokio::select! {
            biased;
            () = self.killed.cancelled() => Err(Fault::no_sandbox(&self.id)),
            turn = Arc::clone(&self.turn).lock_owned() => Ok(turn),
        }
    }

    /// Has a context have the sandbox's files, and be the one that has them from now on.
    pub(super) async fn hand_over(&self, turn: &mut Turn, to: &Arc<Context>) -> Result<(), Fault> {
        if !Arc::ptr_eq(&turn.0, to) {
            to.files().replace_with(&turn.0.files()).await?;
            turn.0 = Arc::clone(to);
        }
        Ok(())
    }

    /// The sandbox's files, for whoever has the turn.
    pub(super) fn files(turn: &Turn) -> SessionFiles {
        turn.0.files()
    }

    /// The context of that id, or that which everybody means who names none.
    pub(super) fn context(&self, id: Option<&str>) -> Result<Arc<Context>, Fault> {
        let found = {
            let contexts = self.contexts();
            match id {
                None => contexts.first().cloned(),
                Some(id) => contexts.iter().find(|context| context.id == id).cloned(),
            }
        };
        match (found, id) {
            (Some(found), _) => Ok(found),
            (None, Some(id)) => Err(Fault::not_found(format!("Context {id} not found"))),
            (None, None) => Err(Fault::no_sandbox(&self.id)),
        }
    }

    pub(super) fn context_infos(&self) -> Vec<ContextInfo> {
        self.contexts().iter().map(|context| context.info()).collect()
    }

    /// Makes a context.
    pub(super) async fn add_context(&self, cwd: &str) -> Result<Arc<Context>, Fault> {
        if self.contexts().len() >= MAX_CONTEXTS {
            let message = format!("a sandbox has at most {MAX_CONTEXTS} contexts");
            return Err(Fault::new(axum::http::StatusCode::TOO_MANY_REQUESTS, message));
        }
        let context = Context::of(new_id(), cwd, self.fresh(cwd).await?, 0, true);
        self.contexts().push(Arc::clone(&context));
        self.drop_if_killed(&context)?;
        Ok(context)
    }

    /// Removes a context. What it runs is interrupted; the files stay, and where no context is left there is
    /// a new one.
    pub(super) async fn remove_context(&self, id: &str) -> Result<(), Fault> {
        let context = self.context(Some(id))?;
        context.interrupt();
        let mut turn = self.turn().await?;
        let other = self.all().into_iter().find(|other| other.id != id);
        if Arc::ptr_eq(&turn.0, &context) || other.is_none() {
            let other = match other {
                Some(other) => other,
                None => self.add_context(HOME).await?,
            };
            self.hand_over(&mut turn, &other).await?;
        }
        self.contexts().retain(|other| other.id != id);
        self.close(&context);
        Ok(())
    }

    /// Has a context begin anew, without variables. What it runs is interrupted; the files stay.
    pub(super) async fn restart_context(&self, id: &str) -> Result<(), Fault> {
        let context = self.context(Some(id))?;
        context.interrupt();
        let turn = self.turn().await?;
        self.restart(&turn, &context).await
    }

    async fn restart(&self, turn: &Turn, context: &Arc<Context>) -> Result<(), Fault> {
        let held = self.fresh(&context.cwd).await?;
        if Arc::ptr_eq(&turn.0, context) {
            held.session().workspace().replace_with(&context.files()).await?;
        }
        let old = std::mem::replace(&mut *lock(&context.held), held);
        self.remove_session(&old);
        context.executions.store(0, Ordering::Relaxed);
        context.is_bare.store(true, Ordering::Relaxed);
        self.drop_if_killed(context)
    }

    /// Puts it on the disk as soon as it runs nothing, for at most `patience`; without `memory` without its
    /// variables. False when it is paused already.
    pub(super) async fn pause(&self, memory: bool, patience: Duration) -> Result<bool, Fault> {
        let busy = || Fault::invalid("the sandbox runs code, and is paused when that has ended");
        if self.lease().state == State::Paused {
            return Ok(false);
        }
        let turn = tokio::time::timeout(patience, self.turn()).await.map_err(|_| busy())??;
        {
            let mut lease = lock(&self.lease);
            if lease.state == State::Paused {
                return Ok(false);
            }
            lease.state = State::Paused;
        }
        if !memory {
            self.forget(&turn).await?;
        }
        for context in self.all() {
            context.held().session().suspend().await;
        }
        Ok(true)
    }

    /// Has it run again, for so long; without `memory` without its variables. One that runs already runs no
    /// shorter than before.
    pub(super) async fn resume(&self, duration: Duration, memory: bool) -> Result<(), Fault> {
        if self.lease().state == State::Paused && !memory {
            let turn = self.turn().await?;
            self.forget(&turn).await?;
        }
        let mut lease = lock(&self.lease);
        let new = Lease::of(duration);
        if lease.state == State::Paused || new.end > lease.end {
            *lease = new;
        }
        Ok(())
    }

    /// Has every context begin anew.
    async fn forget(&self, turn: &Turn) -> Result<(), Fault> {
        for context in self.all() {
            self.restart(turn, &context).await?;
        }
        Ok(())
    }

    /// Has its time end so long from now.
    pub(super) fn set_timeout(&self, duration: Duration) {
        let mut lease = lock(&self.lease);
        if lease.state == State::Running {
            *lease = Lease::of(duration);
        }
    }

    pub(super) fn lease(&self) -> Lease {
        *lock(&self.lease)
    }

    /// Whether its time is over.
    pub(super) fn is_over(&self) -> bool {
        let lease = self.lease();
        lease.state == State::Running && lease.end <= Instant::now()
    }

    /// Ends it: streams end abruptly, what runs is interrupted, and all of it is freed.
    pub(super) fn kill(&self) {
        self.killed.cancel();
        let contexts = std::mem::take(&mut *self.contexts());
        for context in &contexts {
            self.close(context);
        }
    }

    /// Checks that a context could run with this environment.
    pub(super) fn validate_env(&self) -> Result<(), Fault> {
        let context = self.context(None)?;
        let request = with_env(Request::new("pass"), &self.traits.env);
        Ok(context.held().session().validate(&request)?)
    }

    /// A request for code of the sandbox, with the limits of one execution.
    pub(super) fn request(&self, code: String) -> Request {
        let ceilings = self.service.runtime().ceilings();
        let mut limits =
            Limits::default().timeout(ceilings.timeout).output(MAX_OUTPUT.min(ceilings.output));
        limits.fuel = ceilings.fuel;
        Request::new(code).limits(limits)
    }

    /// A session like those of the sandbox, which belongs to no context.
    pub(super) async fn fresh(&self, cwd: &str) -> Result<Held, Fault> {
        Ok(self
            .service
            .create(&self.owner, options(&self.service, &self.traits, cwd).into())
            .await?)
    }

    /// Has the sandbox's files be those of a session that is none of its contexts'.
    pub(super) async fn take_files(&self, turn: &Turn, from: &Held) -> Result<(), Fault> {
        turn.0.files().replace_with(&from.session().workspace()).await?;
        Ok(())
    }

    pub(super) fn remove_session(&self, held: &Held) {
        // It may be gone already.
        let _ = self.service.remove(&self.owner, held.id());
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
        MAX_DISK.min(self.service.runtime().ceilings().workspace)
    }

    /// A number that nothing else here has.
    pub(super) fn next(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    fn close(&self, context: &Context) {
        context.interrupt();
        self.remove_session(&context.held());
    }

    fn drop_if_killed(&self, context: &Arc<Context>) -> Result<(), Fault> {
        if self.killed.is_cancelled() {
            self.close(context);
            return Err(Fault::no_sandbox(&self.id));
        }
        Ok(())
    }

    fn all(&self) -> Vec<Arc<Context>> {
        self.contexts().clone()
    }

    fn contexts(&self) -> MutexGuard<'_, Vec<Arc<Context>>> {
        lock(&self.contexts)
    }
}

impl Context {
    fn of(id: String, cwd: &str, held: Held, executions: u64, is_bare: bool) -> Arc<Self> {
        Arc::new(Self {
            id,
            cwd: cwd.to_owned(),
            held: Mutex::new(held),
            executions: AtomicU64::new(executions),
            is_bare: AtomicBool::new(is_bare),
            running: Mutex::default(),
        })
    }

    pub(super) fn info(&self) -> ContextInfo {
        ContextInfo {
            id: self.id.clone(),
            language: "python",
            cwd: self.cwd.clone(),
        }
    }

    pub(super) fn held(&self) -> Held {
        lock(&self.held).clone()
    }

    /// The request as it has to be here, for an execution by whoever has the turn.
    pub(super) fn dressed(&self, request: Request, env: &BTreeMap<String, String>) -> Request {
        if self.is_bare.load(Ordering::Relaxed) {
            with_env(request, env)
        } else {
            request
        }
    }

    /// Counts an execution that has begun, and says which one it is.
    pub(super) fn count(&self) -> u64 {
        self.executions.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Notes that an execution has left what it set.
    pub(super) fn keep(&self) {
        self.is_bare.store(false, Ordering::Relaxed);
    }

    /// Says by which switch the execution that is under way can be interrupted.
    pub(super) fn set_running(&self, running: Option<Interrupt>) {
        *lock(&self.running) = running;
    }

    fn interrupt(&self) {
        if let Some(running) = lock(&self.running).as_ref() {
            running.interrupt();
        }
    }

    fn files(&self) -> SessionFiles {
        self.held().session().workspace()
    }
}

/// What a session of a sandbox is like.
fn options(service: &Service, traits: &Traits, cwd: &str) -> SessionOptions {
    let ceilings = service.runtime().ceilings();
    SessionOptions::new()
        .image(traits.image.clone())
        .alias(HOME)
        .cwd(cwd)
        .run_limits(
            Limits::default()
                .memory(MAX_MEMORY.min(ceilings.memory))
                .workspace(MAX_DISK.min(ceilings.workspace))
                .files(MAX_FILES.min(ceilings.files)),
        )
        // Nothing here goes back.
        .history(1, 0)
}

/// Memory and files that a sandbox may have, in MiB.
pub(super) fn sizes(ceilings: &Bounds) -> (u64, u64) {
    (MAX_MEMORY.min(ceilings.memory) >> 20, MAX_DISK.min(ceilings.workspace) >> 20)
}

fn with_env(request: Request, env: &BTreeMap<String, String>) -> Request {
    env.iter()
        .fold(request.env("E2B_SANDBOX", "true"), |request, (name, value)| request.env(name, value))
}

/// 20 letters and digits, of the system's random numbers.
pub(super) fn new_id() -> String {
    const LETTERS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
    let mut bytes = [0; super::address::ID_LENGTH];
    // Ids that somebody could guess would be worse than none.
    assert!(getrandom::fill(&mut bytes).is_ok(), "the system gives no random numbers");
    bytes.iter().map(|byte| char::from(LETTERS[usize::from(byte % 32)])).collect()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

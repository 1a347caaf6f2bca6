//! The sessions of a runtime: creation, lookup, limits, and suspension.

use std::cmp::Reverse;
use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BinaryHeap, HashMap, HashSet};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use async_recursion::async_recursion as boxed;
use belljar_files::Pool;
use data_encoding::HEXLOWER;

use super::background::Afterwards;
use super::checkpoint::{Given, Written};
use super::clock::Clock;
use super::context::{Context, Room, SharedStatus};
use super::fence::Pass;
use super::info::SessionInfo;
use super::lease::{Closings, Lease, LeaseEnd, check_labels};
use super::options::{
    FixedSettings, InitialRun, Places, RegistryLimits, SessionOptions, SessionTools, check_settings,
};
use super::restore::{Origin, RestoreOptions};
use super::run::Core;
use super::storage::Storage;
use super::timeline::Snapshot;
use super::{Inner, Session, SessionError, checkpoint};
use crate::api::policy::resolve;
use crate::api::request::Request;
use crate::artifact::image::Image;
use crate::engine::Engine;
use crate::engine::run::random;
use crate::error::Error;
use crate::guest::interpreter::entropy;

/// The sessions of a runtime.
#[derive(Clone)]
pub struct Sessions {
    pub(super) shared: Arc<Registry>,
}

pub(super) struct Registry {
    pub engine: Arc<Engine>,
    pub bounds: RegistryLimits,
    /// Where suspended sessions go.
    suspended: Pool,
    all: Mutex<All>,
    pub afterwards: Arc<Afterwards>,
}

#[derive(Default)]
pub(super) struct All {
    sessions: HashMap<String, Arc<Inner>>,
    /// Sessions in memory: few compared with all sessions.
    awake: HashSet<String>,
    /// When sessions with a lease will be closed.
    closings: Closings,
    /// Number of sessions being created.
    pending: usize,
    storage: Option<Arc<Storage>>,
    pub snapshots: HashMap<String, Arc<Snapshot>>,
}

impl All {
    /// Returns the number of sessions, including those being created, and of snapshots.
    pub(super) fn count(&self) -> usize {
        self.sessions.len() + self.pending + self.snapshots.len()
    }

    /// Whether this session is registered under its id.
    fn has(&self, context: &Context) -> bool {
        self.sessions
            .get(&context.id)
            .is_some_and(|found| std::ptr::eq(&raw const found.context, context))
    }

    /// Removes a session, unless another session has its id by now.
    fn remove(&mut self, context: &Context) {
        if self.has(context) {
            self.sessions.remove(&context.id);
            self.awake.remove(&context.id);
            self.closings.set(&context.id, None);
        }
    }

    fn in_memory(&self) -> Vec<Arc<Inner>> {
        self.awake.iter().filter_map(|id| self.sessions.get(id).cloned()).collect()
    }
}

impl Sessions {
    pub(crate) fn new(engine: Arc<Engine>, temp_dir: &Path, bounds: RegistryLimits) -> Self {
        Self {
            shared: Arc::new(Registry {
                engine,
                suspended: Storage::room(bounds.dir.as_deref().unwrap_or(temp_dir)),
                bounds,
                all: Mutex::default(),
                afterwards: Arc::default(),
            }),
        }
    }

    /// Opens the file for suspended sessions, for a process that cannot open files later. If the
    /// file cannot be created, sessions are suspended to the storage of files.
    pub(crate) fn prepare(&self) {
        let _ = self.shared.suspended.has_spool();
    }

    /// Returns the session with this id.
    ///
    /// # Errors
    ///
    /// [`SessionError::NotFound`] if there is no such session.
    pub fn get(&self, id: &str) -> Result<Session, Error> {
        self.shared.engine.check_process()?;
        match self.shared.lock().sessions.get(id) {
            Some(inner) => Ok(self.handle(Arc::clone(inner))),
            None => Err(SessionError::NotFound { id: id.into() }.into()),
        }
    }

    /// Returns a client's default session. Creates it with `options` if missing.
    ///
    /// # Errors
    ///
    /// As for [`Runtime::session`](crate::Runtime::session).
    #[boxed]
    pub async fn for_client(
        &self,
        client: &str,
        options: SessionOptions,
    ) -> Result<Session, Error> {
        self.shared.engine.check_process()?;
        if let Some(session) = self.of_client(client) {
            return Ok(session);
        }
        let session = self.create(options.client(client)).await?;
        // Two callers may have created one concurrently: both use the older session.
        match self.of_client(client) {
            Some(first) if first.id() != session.id() => {
                session.close();
                Ok(first)
            }
            _ => Ok(session),
        }
    }

    /// Returns the memory that saved states of sessions use, in bytes. On Linux it is an anonymous
    /// file, which the process's resident memory does not include.
    #[must_use]
    pub fn memory(&self) -> u64 {
        let storage = self.shared.lock().storage.clone();
        storage.map_or(0, |storage| storage.pages.memory())
    }

    /// Lists all sessions, oldest first.
    #[must_use]
    pub fn list(&self) -> Vec<SessionInfo> {
        let mut all: Vec<Arc<Inner>> = self.shared.lock().sessions.values().cloned().collect();
        all.sort_by(|one, other| one.context.order().cmp(&other.context.order()));
        all.iter().map(|inner| inner.context.info()).collect()
    }

    /// Closes a session: stops its run and frees its resources.
    ///
    /// # Errors
    ///
    /// [`SessionError::NotFound`] if there is no such session, [`SessionError::NotHeld`] if it
    /// belongs to a store.
    pub fn delete(&self, id: &str) -> Result<(), Error> {
        let session = self.get(id)?;
        session.inner.context.check_pass(session.pass)?;
        session.close();
        Ok(())
    }

    #[boxed]
    pub(crate) async fn create(&self, options: SessionOptions) -> Result<Session, Error> {
        let pending = self.shared.admit()?;
        let SessionOptions {
            mut start,
            limits,
            history,
            client,
            labels,
            lease,
        } = options;
        check_labels(&labels)?;
        let engine = &self.shared.engine;
        let source = std::mem::take(&mut start.code);
        let variables = std::mem::take(&mut start.variables);
        let plan = resolve(start, &engine.defaults, &engine.ceilings)?;
        let image = engine.image(&plan.request.image, &source).await?;
        let Request {
            files,
            env,
            args,
            mounts,
            aliases,
            cwd,
            policy,
            deterministic,
            tools,
            tool_limits,
            answerer,
            ..
        } = plan.request;
        let request = Request {
            variables,
            env,
            args,
            ..Request::new(source)
        };
        let fixed = FixedSettings {
            mounts,
            places: Places { aliases, cwd },
            bounds: plan.defaults,
            policy,
            deterministic,
            limits,
            history: history.within(&engine.ceilings),
            tools: SessionTools {
                tools,
                limits: tool_limits,
                answerer,
            },
        };
        check_settings(&fixed)?;
        let entropy = entropy(fixed.deterministic.as_ref()).map_err(random)?;
        let mut context = self.context(new_id()?, image, fixed, client, Clock::fresh())?;
        context.status = SharedStatus::new(
            labels,
            lease.map(|(duration, then)| Lease::from_now(duration, then)),
        );
        let mut core = Core::new(&context, entropy)?;
        // Boxed, because the future of a run is large and callers keep this future on their stacks.
        Box::pin(core.begin(&context, InitialRun { files, request })).await?;
        self.register(context, core, pending).await
    }

    #[boxed]
    pub(crate) async fn restore(&self, options: RestoreOptions) -> Result<Session, Error> {
        let RestoreOptions {
            from,
            mounts,
            id,
            client,
            tools,
            limits,
            policy,
            lease,
            told,
        } = options;
        // Invalid tools are reported now, not by the first run.
        resolve(
            Request {
                tools: tools.clone(),
                ..Request::default()
            },
            &self.shared.engine.defaults,
            &self.shared.engine.ceilings,
        )?;
        let pending = self.shared.admit()?;
        let id = match id {
            Some(id) => self.shared.free(id)?,
            None => new_id()?,
        };
        let engine = &self.shared.engine;
        let storage = self.shared.storage()?;
        let opened = match from {
            Origin::Stored(store, key) => {
                checkpoint::fetch(store, &key, self.shared.bounds.restored).await?
            }
            Origin::File(path) => checkpoint::open(&path).await?,
            Origin::Reader(reader) => {
                let max = self.shared.bounds.restored;
                checkpoint::receive(reader, Arc::clone(&storage), max).await?
            }
        };
        let image = engine.image(opened.image(), "").await?;
        let bounds = (engine.ceilings, self.shared.bounds.restored);
        let given = Given {
            mounts,
            limits,
            policy,
        };
        let mut read = opened.read(Arc::clone(&image), given, storage, bounds).await?;
        let entropy = entropy(read.fixed.deterministic.as_ref()).map_err(random)?;
        read.fixed.tools.tools = tools;
        let clock = Clock::new(read.times, told);
        let mut context = self.context(id, image, read.fixed, client, clock)?;
        let lease = lease.map(|(duration, then)| Lease::from_now(duration, then));
        context.status = SharedStatus::new(BTreeMap::new(), lease);
        let mut core = Core::of(read.past, read.execution, entropy, read.fuel);
        core.pending = read.pending;
        core.filed = read.filed.map(Arc::new);
        core.written = Arc::new(read.written.unwrap_or_default());
        if let Some(pending) = &mut core.pending {
            let given = &context.fixed.tools.tools;
            let is_given = |name: &str| given.iter().any(|tool| tool.name() == name);
            pending.request.tools.retain(|tool| !is_given(tool.name()));
        }
        self.register(context, core, pending).await
    }

    /// Creates a session with the state of another. Unchanged data is shared.
    #[boxed]
    pub(super) async fn fork(&self, parent: &Context, core: &mut Core) -> Result<Session, Error> {
        self.prepare_fork(parent, core).await?.register(self)
    }

    /// Creates a session with the state of another. It is not visible until it is registered.
    pub(super) async fn prepare_fork(
        &self,
        parent: &Context,
        core: &mut Core,
    ) -> Result<Prepared<'_>, Error> {
        let pending = self.shared.admit()?;
        let past = core.past(parent).await?.clone();
        let fixed = parent.fixed.clone();
        let entropy = entropy(fixed.deterministic.as_ref()).map_err(random)?;
        let image = Arc::clone(&parent.image);
        let mut context = self.context(new_id()?, image, fixed, None, parent.clock.copy())?;
        context.status = SharedStatus::new(parent.labels(), parent.lease());
        let mut forked = Core::of(past, core.execution, entropy, core.fuel);
        forked.pending.clone_from(&core.pending);
        forked.written = Arc::new(Written::clone(&core.written));
        (forked.filed, forked.woken) = (core.filed.clone(), core.woken.clone());
        context.make_room().await;
        Ok(Prepared {
            context,
            core: forked,
            pending,
        })
    }

    /// Creates the environment of a new, forked or restored session.
    pub(super) fn context(
        &self,
        id: String,
        image: Arc<Image>,
        fixed: FixedSettings,
        client: Option<String>,
        clock: Clock,
    ) -> Result<Context, Error> {
        Ok(Context {
            id,
            client,
            image,
            limits: fixed.limits.within(&self.shared.bounds.limits),
            fixed,
            engine: Arc::clone(&self.shared.engine),
            storage: self.shared.storage()?,
            room: Arc::downgrade(&self.shared) as _,
            clock,
            status: SharedStatus::new(BTreeMap::new(), None),
        })
    }

    pub(super) async fn register(
        &self,
        context: Context,
        core: Core,
        pending: Admission<'_>,
    ) -> Result<Session, Error> {
        context.make_room().await;
        let prepared = Prepared {
            context,
            core,
            pending,
        };
        prepared.register(self)
    }

    fn of_client(&self, client: &str) -> Option<Session> {
        let all = self.shared.lock();
        let theirs = all.sessions.values().filter(|s| s.context.client.as_deref() == Some(client));
        let first = theirs.min_by_key(|inner| inner.context.order())?;
        Some(self.handle(Arc::clone(first)))
    }

    fn handle(&self, inner: Arc<Inner>) -> Session {
        Session {
            inner,
            sessions: self.clone(),
            pass: Pass::FIRST,
        }
    }

    /// Removes a session, unless another session has its id by now.
    pub(super) fn remove(&self, inner: &Arc<Inner>) {
        self.shared.lock().remove(&inner.context);
    }
}

/// A new session that is not visible yet. Dropping it removes all its resources.
pub(super) struct Prepared<'a> {
    context: Context,
    core: Core,
    pending: Admission<'a>,
}

impl Prepared<'_> {
    /// Makes the session visible, by its id and in lists.
    pub(super) fn register(self, sessions: &Sessions) -> Result<Session, Error> {
        let Self {
            context,
            core,
            pending,
        } = self;
        let inner = Arc::new(Inner {
            context,
            core: Arc::new(core.into()),
        });
        let shared = &sessions.shared;
        match shared.lock().sessions.entry(inner.context.id.clone()) {
            // Another session with this id was restored meanwhile.
            Entry::Occupied(taken) => {
                let id = taken.key().clone();
                return Err(SessionError::IdTaken { id }.into());
            }
            Entry::Vacant(free) => free.insert(Arc::clone(&inner)),
        };
        inner.context.note_in_memory(true);
        shared.lease_changed(&inner.context);
        drop(pending);
        Ok(sessions.handle(inner))
    }
}

/// A reserved place for a session being created.
pub(super) struct Admission<'a>(&'a Registry);

impl Drop for Admission<'_> {
    fn drop(&mut self) {
        self.0.lock().pending -= 1;
    }
}

impl Registry {
    pub(super) fn lock(&self) -> MutexGuard<'_, All> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn admit(&self) -> Result<Admission<'_>, Error> {
        self.engine.check_process()?;
        let mut all = self.lock();
        if all.count() >= self.bounds.max {
            let max = self.bounds.max;
            return Err(SessionError::TooMany { max }.into());
        }
        all.pending += 1;
        Ok(Admission(self))
    }

    /// Returns a chosen id if it is valid and not taken.
    fn free(&self, id: String) -> Result<String, Error> {
        check_name(&id)?;
        if self.lock().sessions.contains_key(&id) {
            return Err(SessionError::IdTaken { id }.into());
        }
        Ok(id)
    }

    /// Returns the storage of states, which is created for the first session.
    fn storage(self: &Arc<Self>) -> Result<Arc<Storage>, Error> {
        let mut all = self.lock();
        if let Some(storage) = &all.storage {
            return Ok(Arc::clone(storage));
        }
        let storage = Arc::new(Storage::create(self.engine.roots.clone(), self.suspended.clone())?);
        all.storage = Some(Arc::clone(&storage));
        drop(all);
        // Separate threads, so that slow suspensions do not delay the end of leases.
        self.every_now_and_then("belljar-leases", Self::close_due)?;
        self.every_now_and_then("belljar-suspend", Self::suspend_due)?;
        Ok(storage)
    }

    /// Repeats `what` on its own thread until the runtime is dropped.
    fn every_now_and_then(self: &Arc<Self>, name: &str, what: fn(&Self)) -> Result<(), Error> {
        let pause = self.bounds.suspend_after / 4;
        let pause = pause.clamp(Duration::from_millis(20), Duration::from_secs(1));
        let registry = Arc::downgrade(self);
        let work = move || {
            loop {
                std::thread::sleep(pause);
                let Some(registry) = registry.upgrade() else {
                    return;
                };
                what(&registry);
            }
        };
        let thread = std::thread::Builder::new().name(name.into()).spawn(work);
        thread.map(drop).map_err(Error::system("start a thread for sessions"))
    }

    /// Closes the sessions whose lease has ended.
    fn close_due(&self) {
        let due = {
            let all = self.lock();
            let due = all.closings.due(Instant::now());
            due.filter_map(|id| all.sessions.get(id).cloned()).collect::<Vec<_>>()
        };
        for inner in due {
            if inner.context.lease_over() != Some(LeaseEnd::Close) {
                continue;
            }
            inner.context.close();
            self.lock().remove(&inner.context);
            inner.context.interrupt();
            // A current run frees everything at its end.
            if let Ok(mut core) = inner.core.try_lock() {
                core.close();
            }
        }
    }

    /// Suspends sessions whose lease has ended, that have been idle for long, or that are too many.
    fn suspend_due(&self) {
        let storage = self.lock().storage.clone();
        storage.inspect(|storage| storage.pages.trim());
        let awake = self.lock().in_memory();
        for inner in awake {
            let is_over = inner.context.lease_over() == Some(LeaseEnd::Suspend);
            if is_over || inner.context.used().elapsed() >= self.bounds.suspend_after {
                inner.suspend();
            }
        }
        // Sessions that were busy when room was made.
        self.suspend_surplus(0);
    }

    /// Suspends the least recently used sessions until `coming` more fit into `max_awake`.
    fn suspend_surplus(&self, coming: usize) {
        let idle = self.lock().in_memory();
        let surplus = (idle.len() + coming).saturating_sub(self.bounds.max_awake.max(1));
        let mut suspended = 0;
        let by_use = idle.iter().enumerate().map(|(n, inner)| Reverse((inner.context.used(), n)));
        let mut by_use: BinaryHeap<_> = by_use.collect();
        while suspended < surplus
            && let Some(Reverse((_, n))) = by_use.pop()
        {
            suspended += usize::from(idle[n].suspend());
        }
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        if self.engine.check_process().is_err() {
            return;
        }
        // No caller remains that could ask for the states.
        self.lock().sessions.values().for_each(|inner| inner.context.close());
        self.afterwards.wait();
    }
}

impl Room for Registry {
    fn make_room(&self) {
        self.suspend_surplus(1);
    }

    fn is_full(&self) -> bool {
        self.lock().awake.len() >= self.bounds.max_awake.max(1)
    }

    fn memory_changed(&self, context: &Context) {
        let mut all = self.lock();
        if !all.has(context) {
            return;
        }
        if context.is_in_memory() {
            all.awake.insert(context.id.clone());
        } else {
            all.awake.remove(&context.id);
        }
    }

    fn lease_changed(&self, context: &Context) {
        let mut all = self.lock();
        if all.has(context) {
            let closes = context.lease().filter(|lease| lease.then == LeaseEnd::Close);
            all.closings.set(&context.id, closes.map(|lease| lease.end));
        }
    }
}

/// Checks that a name is valid for a session or snapshot.
pub(crate) fn check_name(name: &str) -> Result<(), SessionError> {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if name.is_empty() || name.len() > 64 || !name.chars().all(plain) {
        return Err(SessionError::Id { id: name.into() });
    }
    Ok(())
}

/// Returns an unguessable id: 64 random bits as text.
pub(crate) fn new_id() -> Result<String, Error> {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes).map_err(Error::system("get random numbers"))?;
    Ok(HEXLOWER.encode(&bytes))
}

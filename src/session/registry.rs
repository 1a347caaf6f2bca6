//! The sessions of a runtime: made, found, bounded, put on the disk while nobody needs them.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use serde::Serialize;

use super::context::{Context, Signs};
use super::core::Core;
use super::options::{Beginning, Ground, SessionBounds, SessionOptions};
use super::{Inner, Session, SessionError, checkpoint};
use crate::engine::Engine;
use crate::error::Error;
use crate::image::Image;
use crate::live::entropy;
use crate::memory::PageStore;
use crate::policy::resolve;
use crate::request::{Mount, Request};
use crate::workspace::Spool;

/// The sessions of a runtime.
#[derive(Clone)]
pub struct Sessions {
    shared: Arc<Shared>,
}

/// What a session is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum SessionStatus {
    /// It waits for its next run, in memory.
    Idle,
    /// It is running.
    Running,
    /// It waits for its next run, on the disk.
    Suspended,
    /// Its interpreter was lost and could not be brought back; the next run tries again.
    Failed,
}

/// A session, as it is listed.
#[derive(Clone, Debug, Serialize)]
pub struct SessionInfo {
    /// Its id.
    pub id: String,
    /// What it is doing.
    pub status: SessionStatus,
    /// Whose default session it is.
    pub client: Option<String>,
    /// Its image.
    pub image: String,
    /// Seconds since its last run ended.
    pub idle_seconds: f64,
}

pub(super) struct Shared {
    engine: Arc<Engine>,
    bounds: SessionBounds,
    dir: PathBuf,
    all: Mutex<All>,
}

#[derive(Default)]
struct All {
    sessions: HashMap<String, Arc<Inner>>,
    /// Sessions that are being made.
    coming: usize,
    keeping: Option<Arc<Keeping>>,
}

/// Where states are kept.
pub(super) struct Keeping {
    pub pages: Arc<PageStore>,
    pub spool: Arc<Spool>,
}

impl Sessions {
    pub(crate) fn new(engine: Arc<Engine>, temp_dir: PathBuf, bounds: SessionBounds) -> Self {
        Self {
            shared: Arc::new(Shared {
                engine,
                dir: bounds.dir.clone().unwrap_or(temp_dir),
                bounds,
                all: Mutex::default(),
            }),
        }
    }

    /// The session with that id.
    ///
    /// # Errors
    ///
    /// [`SessionError::NotFound`] when there is none.
    pub fn get(&self, id: &str) -> Result<Session, Error> {
        match self.shared.lock().sessions.get(id) {
            Some(inner) => Ok(self.handle(Arc::clone(inner))),
            None => Err(SessionError::NotFound { id: id.into() }.into()),
        }
    }

    /// A client's default session; made with `options` when it has none.
    ///
    /// # Errors
    ///
    /// As for [`Runtime::session`](crate::Runtime::session).
    pub async fn for_client(
        &self,
        client: &str,
        options: SessionOptions,
    ) -> Result<Session, Error> {
        if let Some(session) = self.of_client(client) {
            return Ok(session);
        }
        let session = self.create(options.client(client)).await?;
        // Two may have made one at the same time: both take the older.
        match self.of_client(client) {
            Some(first) if first.id() != session.id() => {
                session.close();
                Ok(first)
            }
            _ => Ok(session),
        }
    }

    /// All sessions, the oldest first.
    #[must_use]
    pub fn list(&self) -> Vec<SessionInfo> {
        let mut all: Vec<Arc<Inner>> = self.shared.lock().sessions.values().cloned().collect();
        all.sort_by(|one, other| one.context.age().cmp(&other.context.age()));
        all.iter().map(|inner| inner.context.info()).collect()
    }

    /// Closes a session: what it runs is stopped, what it holds is freed.
    ///
    /// # Errors
    ///
    /// [`SessionError::NotFound`] when there is none of that id.
    pub fn delete(&self, id: &str) -> Result<(), Error> {
        self.get(id)?.close();
        Ok(())
    }

    pub(crate) async fn create(&self, options: SessionOptions) -> Result<Session, Error> {
        let coming = self.shared.admit()?;
        let SessionOptions {
            mut start,
            limits,
            history,
            client,
        } = options;
        let engine = &self.shared.engine;
        let source = std::mem::take(&mut start.code);
        let plan = resolve(start, &engine.defaults, &engine.ceilings)?;
        let image = engine.image(&plan.request.image, &source).await?;
        let Request {
            files,
            env,
            args,
            mounts,
            policy,
            deterministic,
            ..
        } = plan.request;
        let request = Request {
            env,
            args,
            ..Request::new(source)
        };
        let ground = Ground {
            mounts,
            bounds: plan.bounds,
            policy,
            deterministic,
            limits,
            history: history.within(&engine.ceilings),
        };
        let entropy = entropy(ground.deterministic.as_ref())?;
        let context = self.context(image, ground, client)?;
        let mut core = Core::new(&context, entropy);
        core.begin(&context, Beginning { files, request }).await?;
        Ok(self.register(context, core, coming).await)
    }

    pub(crate) async fn restore(&self, path: &Path, mounts: Vec<Mount>) -> Result<Session, Error> {
        let coming = self.shared.admit()?;
        let engine = &self.shared.engine;
        let keeping = self.shared.keeping()?;
        let opened = checkpoint::open(path).await?;
        let image = engine.image(opened.image(), "").await?;
        let bounds = (engine.ceilings, self.shared.bounds.restored);
        let read = opened.read(Arc::clone(&image), mounts, keeping, bounds).await?;
        let entropy = entropy(read.ground.deterministic.as_ref())?;
        let context = self.context(image, read.ground, None)?;
        let core = Core::of(read.past, read.execution, entropy, read.fuel);
        Ok(self.register(context, core, coming).await)
    }

    /// A session with the state that another has; they share what neither changes.
    pub(super) async fn fork(&self, parent: &Context, core: &mut Core) -> Result<Session, Error> {
        let coming = self.shared.admit()?;
        let past = core.past(parent).await?.clone();
        let ground = parent.ground.clone();
        let entropy = entropy(ground.deterministic.as_ref())?;
        let context = self.context(Arc::clone(&parent.image), ground, None)?;
        let core = Core::of(past, core.execution, entropy, core.fuel);
        Ok(self.register(context, core, coming).await)
    }

    fn context(
        &self,
        image: Arc<Image>,
        ground: Ground,
        client: Option<String>,
    ) -> Result<Context, Error> {
        Ok(Context {
            id: new_id()?,
            client,
            image,
            ground,
            engine: Arc::clone(&self.shared.engine),
            keeping: self.shared.keeping()?,
            shared: Arc::downgrade(&self.shared),
            born: Instant::now(),
            signs: Signs::new(),
        })
    }

    async fn register(&self, context: Context, core: Core, coming: Coming<'_>) -> Session {
        context.make_room().await;
        let inner = Arc::new(Inner {
            context,
            core: core.into(),
        });
        let mut all = self.shared.lock();
        all.sessions.insert(inner.context.id.clone(), Arc::clone(&inner));
        drop(all);
        inner.context.note_in_memory(true);
        drop(coming);
        self.handle(inner)
    }

    fn of_client(&self, client: &str) -> Option<Session> {
        let all = self.shared.lock();
        let theirs = all.sessions.values().filter(|s| s.context.client.as_deref() == Some(client));
        let first = theirs.min_by_key(|inner| inner.context.age())?;
        Some(self.handle(Arc::clone(first)))
    }

    fn handle(&self, inner: Arc<Inner>) -> Session {
        Session {
            inner,
            sessions: self.clone(),
        }
    }

    pub(super) fn remove(&self, id: &str) {
        self.shared.lock().sessions.remove(id);
    }
}

/// A place for a session that is being made.
struct Coming<'a>(&'a Shared);

impl Drop for Coming<'_> {
    fn drop(&mut self) {
        self.0.lock().coming -= 1;
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, All> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn admit(&self) -> Result<Coming<'_>, Error> {
        let mut all = self.lock();
        if all.sessions.len() + all.coming >= self.bounds.most {
            let most = self.bounds.most;
            return Err(SessionError::TooMany { most }.into());
        }
        all.coming += 1;
        Ok(Coming(self))
    }

    /// Where states are kept, made for the first session.
    fn keeping(self: &Arc<Self>) -> Result<Arc<Keeping>, Error> {
        let mut all = self.lock();
        if let Some(keeping) = &all.keeping {
            return Ok(Arc::clone(keeping));
        }
        let keeping = Arc::new(Keeping {
            pages: PageStore::new()?,
            spool: Spool::create(&self.dir)?,
        });
        all.keeping = Some(Arc::clone(&keeping));
        drop(all);
        let (shared, every) = (Arc::downgrade(self), self.bounds.suspend_after);
        std::thread::Builder::new()
            .name("belljar-sessions".into())
            .spawn(move || suspend_idle(&shared, every))
            .map_err(Error::system("start a thread for sessions"))?;
        Ok(keeping)
    }

    /// Suspends the sessions used longest ago until there is room for another in memory. It blocks.
    pub(super) fn make_room(&self) {
        let mut idle = self.in_memory();
        let surplus = (idle.len() + 1).saturating_sub(self.bounds.most_awake.max(1));
        idle.sort_by_key(|inner| inner.context.used());
        let mut suspended = 0;
        for inner in idle {
            if suspended == surplus {
                break;
            }
            suspended += usize::from(inner.suspend());
        }
    }

    /// Whether another session in memory would be too many.
    pub(super) fn is_full(&self) -> bool {
        self.in_memory().len() >= self.bounds.most_awake.max(1)
    }

    fn in_memory(&self) -> Vec<Arc<Inner>> {
        let all = self.lock();
        all.sessions.values().filter(|inner| inner.context.is_in_memory()).cloned().collect()
    }
}

/// Suspends sessions that have been idle for so long, until the runtime is gone.
fn suspend_idle(shared: &Weak<Shared>, after: Duration) {
    loop {
        std::thread::sleep((after / 4).clamp(Duration::from_millis(20), Duration::from_secs(1)));
        let Some(shared) = shared.upgrade() else {
            return;
        };
        let now = Instant::now();
        for inner in shared.in_memory() {
            if now.saturating_duration_since(inner.context.used()) >= after {
                inner.suspend();
            }
        }
    }
}

/// An id that nobody can guess.
fn new_id() -> Result<String, Error> {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes).map_err(Error::system("get random numbers"))?;
    Ok(crate::hex::encode(&bytes))
}

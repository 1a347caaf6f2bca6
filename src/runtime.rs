//! The runtime: everything that runs share, and the way in.

use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use tokio::sync::Semaphore;

use crate::api::policy::{Bounds, resolve};
use crate::api::request::{Mount, Policy, Request};
use crate::bakery::ImageStore;
use crate::cache::Cache;
use crate::error::Error;
use crate::images::{ImageInfo, Images};
use crate::instance::{Factory, OutputWatcher};
use crate::licenses::{self, License};
use crate::memory::Strategy;
use crate::module::{Artifact, Code};
use crate::progress::{Progress, Silent};
use crate::run::{self, CheckReport, Run};
use crate::session::{Session, SessionBounds, SessionOptions, Sessions};
use crate::shared::{Engine, Turns};
use crate::workspace::Workspaces;

/// Runs Python in fresh sandboxes. Cheap to clone; clones share everything.
///
/// It belongs to the process that built it. In a forked child it and its sessions answer with
/// [`Error::Forked`], and dropping them there touches nothing of the parent's; the child builds one
/// of its own.
///
/// ```no_run
/// # async fn example() -> Result<(), belljar::Error> {
/// use belljar::{Request, Runtime};
///
/// let runtime = Runtime::builder().build()?;
/// let run = runtime.run(Request::new("print(sum(range(10)))")).await?;
/// assert_eq!(run.outcome.stdout, "45\n");
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Runtime {
    engine: Arc<Engine>,
    sessions: Sessions,
}

/// Builds a [`Runtime`].
#[derive(Clone)]
pub struct RuntimeBuilder {
    cache: Option<PathBuf>,
    wheel: Option<PathBuf>,
    temp_dir: Option<PathBuf>,
    progress: Arc<dyn Progress>,
    concurrency: usize,
    queue: usize,
    defaults: Bounds,
    ceilings: Bounds,
    strategy: Strategy,
    sessions: SessionBounds,
}

impl Default for RuntimeBuilder {
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(2, NonZero::get);
        Self {
            cache: None,
            wheel: None,
            temp_dir: None,
            progress: Arc::new(Silent),
            concurrency: 4 * cores,
            queue: 1_024,
            defaults: Bounds::default(),
            ceilings: Bounds::CEILINGS,
            strategy: Strategy::default(),
            sessions: SessionBounds::default(),
        }
    }
}

impl RuntimeBuilder {
    /// Keeps artifacts, code and images in `dir`, instead of `BELLJAR_CACHE` or the platform's
    /// place for caches.
    #[must_use]
    pub fn cache(mut self, dir: impl Into<PathBuf>) -> Self {
        self.cache = Some(dir.into());
        self
    }

    /// Takes the Python wheel from `file` instead of downloading it; `BELLJAR_WHEEL` does the same.
    #[must_use]
    pub fn wheel(mut self, file: impl Into<PathBuf>) -> Self {
        self.wheel = Some(file.into());
        self
    }

    /// Makes workspaces in `dir`, instead of the system's directory for temporary files.
    #[must_use]
    pub fn temp_dir(mut self, dir: impl Into<PathBuf>) -> Self {
        self.temp_dir = Some(dir.into());
        self
    }

    /// Tells `progress` what takes long.
    #[must_use]
    pub fn progress(mut self, progress: Arc<dyn Progress>) -> Self {
        self.progress = progress;
        self
    }

    /// Runs at most `runs` at once; others wait in order. Four for each core by default, so that
    /// sleeping runs do not keep the others waiting.
    #[must_use]
    pub fn concurrency(mut self, runs: usize) -> Self {
        self.concurrency = runs.clamp(1, Semaphore::MAX_PERMITS);
        self
    }

    /// Lets at most `runs` wait, 1,024 by default; one more is refused with [`Error::Busy`].
    #[must_use]
    pub fn queue(mut self, runs: usize) -> Self {
        self.queue = runs;
        self
    }

    /// Replaces the limits of requests that name none.
    #[must_use]
    pub fn defaults(mut self, bounds: Bounds) -> Self {
        self.defaults = bounds;
        self
    }

    /// Replaces the most that a request may ask for.
    #[must_use]
    pub fn ceilings(mut self, bounds: Bounds) -> Self {
        self.ceilings = bounds;
        self
    }

    /// Chooses how images get into sandboxes.
    #[must_use]
    pub fn memory_strategy(mut self, strategy: Strategy) -> Self {
        self.strategy = strategy;
        self
    }

    /// Bounds how many sessions there are, and how many of them are in memory.
    #[must_use]
    pub fn sessions(mut self, bounds: SessionBounds) -> Self {
        self.sessions = bounds;
        self
    }

    /// The images in the cache, without setting anything up.
    ///
    /// # Errors
    ///
    /// When the cache cannot be used.
    pub fn images(&self) -> Result<Images, Error> {
        Ok(Images::new(Cache::find(self.cache.clone())?))
    }

    /// Whose work the sandbox contains, and under which licenses, sorted by package. Sets up the
    /// artifact if it is not in the cache, and nothing else.
    ///
    /// # Errors
    ///
    /// When the cache cannot be used, or the artifact cannot be had or read.
    pub fn licenses(&self) -> Result<Vec<License>, Error> {
        let cache = Cache::open(self.cache.clone())?;
        licenses::read(&self.artifact(&cache)?)
    }

    fn artifact(&self, cache: &Cache) -> Result<Artifact, Error> {
        let wheel = self.wheel.clone().or_else(|| {
            std::env::var_os("BELLJAR_WHEEL").filter(|v| !v.is_empty()).map(PathBuf::from)
        });
        Ok(Artifact::ensure(cache, wheel.as_deref(), &*self.progress)?)
    }

    /// Sets up what is missing (artifact and code: about two minutes on an empty cache, a few
    /// milliseconds otherwise) and makes the runtime. Images are made on first use.
    ///
    /// # Errors
    ///
    /// When the cache cannot be used, the artifact cannot be had, or it cannot be compiled.
    pub fn build(self) -> Result<Runtime, Error> {
        let started = Instant::now();
        let cache = Cache::open(self.cache.clone())?;
        let artifact = self.artifact(&cache)?;
        let code = Code::ensure(&cache, &artifact, self.strategy, &*self.progress)?;
        let factory =
            Factory::new(code, artifact.clone(), self.concurrency.clamp(MIN_IDLE, MAX_IDLE))?;
        let images = ImageStore::new(cache, artifact, self.strategy, self.progress);
        let temp_dir = self.temp_dir.unwrap_or_else(std::env::temp_dir);
        let engine = Arc::new(Engine {
            factory,
            images,
            workspaces: Workspaces::new(temp_dir.clone()),
            defaults: self.defaults,
            ceilings: self.ceilings,
            turns: Turns::new(self.concurrency, self.queue),
        });
        tracing::debug!(elapsed = ?started.elapsed(), "the engine has started");
        Ok(Runtime {
            sessions: Sessions::new(Arc::clone(&engine), temp_dir, self.sessions),
            engine,
        })
    }
}

/// Idle memories that are kept for reuse, each of 1 to 16 MiB.
const MAX_IDLE: usize = 16;
/// As many are kept however few runs there are at once: one for each image, and one that is cleaned.
const MIN_IDLE: usize = 4;

impl Runtime {
    /// Starts building a runtime.
    #[must_use]
    pub fn builder() -> RuntimeBuilder {
        RuntimeBuilder::default()
    }

    /// Runs a request in a fresh sandbox, on a tokio runtime that has its timer enabled.
    ///
    /// Dropping the future cancels the run and frees everything that it holds.
    ///
    /// # Errors
    ///
    /// When the request is refused, too many runs are waiting, or the engine fails. What the code
    /// does wrong is in the outcome.
    pub async fn run(&self, request: Request) -> Result<Run, Error> {
        self.run_with(request, None).await
    }

    /// Like [`run`](Self::run), and shows the output as it is written.
    ///
    /// # Errors
    ///
    /// As for [`run`](Self::run).
    pub async fn run_watched(
        &self,
        request: Request,
        watcher: Arc<dyn OutputWatcher>,
    ) -> Result<Run, Error> {
        self.run_with(request, Some(watcher)).await
    }

    /// Like [`run`](Self::run), for programs without an asynchronous runtime.
    ///
    /// # Errors
    ///
    /// As for [`run`](Self::run), and [`Error::NotBlocking`] when it is called on a thread of an
    /// asynchronous runtime.
    pub fn run_blocking(&self, request: Request) -> Result<Run, Error> {
        block_on(self.run_with(request, None))
    }

    /// Like [`run_watched`](Self::run_watched), for programs without an asynchronous runtime.
    ///
    /// # Errors
    ///
    /// As for [`run_blocking`](Self::run_blocking).
    pub fn run_blocking_watched(
        &self,
        request: Request,
        watcher: Arc<dyn OutputWatcher>,
    ) -> Result<Run, Error> {
        block_on(self.run_with(request, Some(watcher)))
    }

    /// Looks at code without running it: what `policy` forbids in it, and what it imports in vain.
    ///
    /// # Errors
    ///
    /// As for [`run`](Self::run).
    pub async fn check(&self, code: &str, policy: &Policy) -> Result<CheckReport, Error> {
        let engine = &self.engine;
        let request = Request::new(code).policy(policy.clone()).image("core");
        let plan = resolve(request, &engine.defaults, &engine.ceilings)?;
        let _turn = engine.turns.take().await?;
        let image = engine.image(&plan.request.image, code).await?;
        run::check(engine, &image, plan).await
    }

    /// Like [`check`](Self::check), for programs without an asynchronous runtime.
    ///
    /// # Errors
    ///
    /// As for [`run_blocking`](Self::run_blocking).
    pub fn check_blocking(&self, code: &str, policy: &Policy) -> Result<CheckReport, Error> {
        block_on(self.check(code, policy))
    }

    /// Loads the image `name`, making it first if need be, so that no run has to. It blocks.
    ///
    /// # Errors
    ///
    /// When there is no such image, or it cannot be made.
    pub fn prepare_image(&self, name: &str) -> Result<(), Error> {
        self.engine.check_process()?;
        self.engine.images.ensure(&self.engine.factory, name)?;
        Ok(())
    }

    /// Makes an image from a recipe file, again if it was there already. It blocks.
    ///
    /// # Errors
    ///
    /// When the recipe is not valid, its packages cannot be had, or its code fails.
    pub fn build_image(&self, recipe: &Path) -> Result<ImageInfo, Error> {
        self.engine.check_process()?;
        Ok(self.engine.images.build(&self.engine.factory, recipe)?.into())
    }

    /// Lists all images, the built-in ones first.
    ///
    /// # Errors
    ///
    /// When the cache cannot be read.
    pub fn images(&self) -> Result<Vec<ImageInfo>, Error> {
        self.engine.check_process()?;
        Ok(self.engine.images.list()?.into_iter().map(ImageInfo::from).collect())
    }

    /// Describes one image.
    ///
    /// # Errors
    ///
    /// When there is no such image.
    pub fn image(&self, name: &str) -> Result<ImageInfo, Error> {
        self.engine.check_process()?;
        Ok(self.engine.images.stored(name)?.into())
    }

    /// Removes an image from the cache. A built-in one is made again when it is needed.
    ///
    /// # Errors
    ///
    /// When there is no such image, or its files cannot be removed.
    pub fn remove_image(&self, name: &str) -> Result<(), Error> {
        self.engine.check_process()?;
        Ok(self.engine.images.remove(name)?)
    }

    /// Starts a session: an interpreter with its workspace, kept across runs.
    ///
    /// # Errors
    ///
    /// When the options are refused, there are too many sessions, the initial code fails, or the
    /// engine does.
    pub async fn session(&self, options: SessionOptions) -> Result<Session, Error> {
        self.sessions.create(options).await
    }

    /// Starts a session from a checkpoint file.
    ///
    /// # Errors
    ///
    /// When the file is not a whole checkpoint of this version, the image that it needs is not
    /// there, or the engine fails.
    pub async fn restore(&self, checkpoint: &Path) -> Result<Session, Error> {
        self.restore_with(checkpoint, Vec::new()).await
    }

    /// Like [`restore`](Self::restore), for a session that sees directories of the host: which ones
    /// is not up to the file, so each place where it sees one is given here.
    ///
    /// # Errors
    ///
    /// As for [`restore`](Self::restore), and [`SessionError::Mounts`](crate::SessionError::Mounts)
    /// when these are other places.
    pub async fn restore_with(
        &self,
        checkpoint: &Path,
        mounts: Vec<Mount>,
    ) -> Result<Session, Error> {
        self.sessions.restore(checkpoint, mounts).await
    }

    /// All sessions of this runtime.
    #[must_use]
    pub fn sessions(&self) -> &Sessions {
        &self.sessions
    }

    async fn run_with(
        &self,
        request: Request,
        watcher: Option<Arc<dyn OutputWatcher>>,
    ) -> Result<Run, Error> {
        let engine = &self.engine;
        let plan = resolve(request, &engine.defaults, &engine.ceilings)?;
        let _turn = engine.turns.take().await?;
        let image = engine.image(&plan.request.image, &plan.request.code).await?;
        run::run(engine, &image, plan, watcher).await
    }
}

fn block_on<T>(future: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    if tokio::runtime::Handle::try_current().is_ok() {
        return Err(Error::NotBlocking);
    }
    tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .map_err(Error::system("start a runtime for a blocking call"))?
        .block_on(future)
}

//! The runtime: the entry point, and the state that all runs share.

mod block_on;
pub mod blocking;
pub mod doctor;
mod environment;
pub(crate) mod images;
pub(crate) mod licenses;
mod lockdown;
mod options;
#[cfg(feature = "compile")]
pub(crate) mod pack;

use std::num::NonZero;
#[cfg(feature = "compile")]
use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_recursion::async_recursion as boxed;
use belljar_files::DEFAULT_MEMORY;
use belljar_memory::Strategy;
use belljar_passes::Tier;
pub use lockdown::{LockdownOptions, LockdownReport};
pub use options::RuntimeOptions;
use tokio::sync::Semaphore;
use tracing::Instrument;

use crate::api::policy::{RunLimits, resolve};
use crate::api::refusal::{Field, Reason, ReasonKind, Refusal};
use crate::api::request::{Policy, Request};
use crate::artifact::bundle::{Bundle, BundleError, PACKAGES};
use crate::artifact::cache::Cache;
use crate::artifact::{Artifact, Code, CodeError, Codes, Form, HAS_COMPILER};
use crate::engine::admission::{Starts, Turns};
use crate::engine::run::{self, CheckReport, Run, next_run, no_files};
use crate::engine::running::{Running, Work};
use crate::engine::{Engine, Makers};
use crate::error::Error;
use crate::image::{ImageStore, stamp};
use crate::runtime::block_on::Reactor;
use crate::runtime::environment::Environment;
use crate::runtime::images::{ImageIdentity, Images};
use crate::runtime::licenses::License;
#[cfg(feature = "compile")]
use crate::runtime::pack::{BundleInfo, BundleOptions, pack};
use crate::sandbox::{Factory, Resolution, Roots};
use crate::session::{RegistryLimits, RestoreOptions, Session, SessionOptions, Sessions};
use crate::util::progress::{Progress, Silent};
use crate::workspace::default_parent;

/// Runs Python in fresh sandboxes. Clones are cheap and share everything.
///
/// A runtime belongs to the process that built it. In a forked child, the runtime and its sessions
/// return [`Error::Forked`], and dropping them does not affect the parent. The child must build its
/// own runtime.
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
    /// Drives the futures of blocking callers.
    pub(crate) reactor: Arc<Reactor>,
}

/// Builds a [`Runtime`].
#[derive(Clone)]
pub struct RuntimeBuilder {
    cache: Option<PathBuf>,
    wheel: Option<PathBuf>,
    bundle: Option<PathBuf>,
    bundle_hash: Option<String>,
    environment: Environment,
    temp_dir: Option<PathBuf>,
    file_memory: u64,
    progress: Arc<dyn Progress>,
    concurrency: usize,
    queue: usize,
    clock_resolution: Duration,
    defaults: RunLimits,
    ceilings: RunLimits,
    strategy: Strategy,
    form: Form,
    background: bool,
    sessions: RegistryLimits,
}

impl Default for RuntimeBuilder {
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(2, NonZero::get);
        Self {
            cache: None,
            wheel: None,
            bundle: None,
            bundle_hash: None,
            environment: Environment::default(),
            temp_dir: None,
            file_memory: DEFAULT_MEMORY,
            progress: Arc::new(Silent),
            concurrency: 4 * cores,
            queue: 1_024,
            clock_resolution: Duration::ZERO,
            defaults: RunLimits::default(),
            ceilings: RunLimits::CEILINGS,
            strategy: Strategy::default(),
            form: Form::Metered,
            background: false,
            sessions: RegistryLimits::default(),
        }
    }
}

impl RuntimeBuilder {
    /// Stores artifacts, code and images in `dir`. Default: `belljar` in the platform's cache
    /// directory.
    #[must_use]
    pub fn cache(mut self, dir: impl Into<PathBuf>) -> Self {
        self.cache = Some(dir.into());
        self
    }

    /// Uses the Python wheel `file` instead of downloading it.
    #[must_use]
    pub fn wheel(mut self, file: impl Into<PathBuf>) -> Self {
        self.wheel = Some(file.into());
        self
    }

    /// Runs from the bundle in `dir`. The runtime writes nothing to the bundle, and downloads,
    /// compiles and bakes nothing. The bundle's native code is trusted like this program: see
    /// [`bundle_hash`](Self::bundle_hash).
    #[must_use]
    pub fn bundle(mut self, dir: impl Into<PathBuf>) -> Self {
        self.bundle = Some(dir.into());
        self
    }

    /// Requires that the bundle's manifest has this SHA-256, in hexadecimal, and that each file has
    /// the hash in the manifest. All files are then read when the runtime is built.
    #[must_use]
    pub fn bundle_hash(mut self, sha256: impl Into<String>) -> Self {
        self.bundle_hash = Some(sha256.into());
        self
    }

    /// Sets the directory for files that do not fit into memory and for the directories of
    /// [`Run::keep`]. Default: the system's directory for temporary files.
    #[must_use]
    pub fn temp_dir(mut self, dir: impl Into<PathBuf>) -> Self {
        self.temp_dir = Some(dir.into());
        self
    }

    /// Limits the memory for the files of all sandboxes together, in bytes. Default 256 MiB. Other
    /// files are in a nameless file in [`temp_dir`](Self::temp_dir). If that file cannot be
    /// created, a write beyond the limit fails in the sandbox with `ENOSPC`.
    #[must_use]
    pub fn file_memory(mut self, bytes: u64) -> Self {
        self.file_memory = bytes;
        self
    }

    /// Reports long operations to `progress`.
    #[must_use]
    pub fn progress(mut self, progress: Arc<dyn Progress>) -> Self {
        self.progress = progress;
        self
    }

    /// Limits concurrent runs; other runs wait in order. Default: four per core, so that sleeping
    /// runs do not delay the others.
    #[must_use]
    pub fn concurrency(mut self, runs: usize) -> Self {
        self.concurrency = runs.clamp(1, Semaphore::MAX_PERMITS);
        self
    }

    /// Limits waiting runs. Default 1,024. Further runs are rejected with [`Error::Busy`].
    #[must_use]
    pub fn queue(mut self, runs: usize) -> Self {
        self.queue = runs;
        self
    }

    /// Rounds the clocks of sandboxes, and the times of their files, down to multiples of `step`.
    /// Default: not at all. It makes timing attacks slower, not impossible.
    #[must_use]
    pub fn clock_resolution(mut self, step: Duration) -> Self {
        self.clock_resolution = step;
        self
    }

    /// Sets the default limits of requests.
    #[must_use]
    pub fn defaults(mut self, bounds: RunLimits) -> Self {
        self.defaults = bounds;
        self
    }

    /// Sets the ceilings of the limits of requests.
    #[must_use]
    pub fn ceilings(mut self, bounds: RunLimits) -> Self {
        self.ceilings = bounds;
        self
    }

    /// Compiles missing code on a background thread, starting at once: first the code for runs
    /// without libraries, then the code for numpy and pandas, then the rest. Without this setting,
    /// each tier is compiled when a run needs it. For processes that live for minutes.
    #[must_use]
    pub fn background(mut self, compiles: bool) -> Self {
        self.background = compiles;
        self
    }

    /// Sets how images are mapped into sandboxes.
    #[must_use]
    pub fn memory_strategy(mut self, strategy: Strategy) -> Self {
        self.strategy = strategy;
        self
    }

    /// Limits the number of sessions, and the number of sessions in memory.
    #[must_use]
    pub fn sessions(mut self, bounds: RegistryLimits) -> Self {
        self.sessions = bounds;
        self
    }

    /// Runs code without fuel counting, which cannot be interrupted. Only for measuring the cost of
    /// the meter.
    #[cfg(feature = "unmetered")]
    #[doc(hidden)]
    #[must_use]
    pub fn unmetered(mut self) -> Self {
        self.form = Form::Unmetered;
        self
    }

    /// Runs code that reports overflows in numpy's loops over 32-bit integers on stderr.
    #[cfg(test)]
    pub(crate) fn telling_overflows(mut self) -> Self {
        self.form = Form::TellingOverflows;
        self
    }

    /// Runs code whose calls are counted: see [`crate::sandbox::counted_calls`].
    #[cfg(test)]
    pub(crate) fn counting_calls(mut self) -> Self {
        self.form = Form::CountingCalls;
        self
    }

    /// Returns the images in the cache. An engine is set up only when an image must be built.
    ///
    /// # Errors
    ///
    /// If the cache is unusable.
    pub fn images(&self) -> Result<Images, Error> {
        let builder = self.clone();
        let set_up = move || Ok(builder.clone().build()?.engine);
        if let Some(bundle) = self.open_bundle()? {
            return Ok(Images::in_bundle(bundle, Arc::new(set_up)));
        }
        Ok(Images::before(Cache::find(self.cache_dir())?, Arc::new(set_up)))
    }

    /// Returns the packages in the sandbox with their authors and licenses, sorted by package.
    /// Installs the artifact if the cache lacks it.
    ///
    /// # Errors
    ///
    /// If the cache is unusable, or the artifact is not available or unreadable.
    pub fn licenses(&self) -> Result<Vec<License>, Error> {
        if let Some(bundle) = self.open_bundle()? {
            let packages = bundle.root().join(PACKAGES);
            return licenses::read(&Artifact::in_bundle(bundle.root()), &packages);
        }
        if !HAS_COMPILER {
            return Err(BundleError::NoCompiler.into());
        }
        let cache = Cache::open(self.cache_dir())?;
        licenses::read(&self.artifact(&cache)?, &cache.path(PACKAGES))
    }

    /// Returns the file of Python for WASI in the cache, which packages with native code are built
    /// for. Installs the artifact if the cache lacks it.
    ///
    /// # Errors
    ///
    /// If a bundle is in use, the cache is unusable, or the artifact is not available.
    #[cfg(feature = "compile")]
    pub fn artifact_module(&self) -> Result<PathBuf, Error> {
        if let Some(path) = self.bundle_path() {
            let action = "build packages";
            return Err(BundleError::Fixed { action, path }.into());
        }
        let cache = Cache::open(self.cache_dir())?;
        Ok(self.artifact(&cache)?.module())
    }

    /// Creates a bundle in the directory `to`: everything that some images need to run on another
    /// machine. Missing parts are built in the cache first.
    ///
    /// # Errors
    ///
    /// If `to` exists or cannot be written, an image does not exist or cannot be built, or the code
    /// cannot be compiled for the target machines.
    #[cfg(feature = "compile")]
    pub fn make_bundle(self, options: &BundleOptions, to: &Path) -> Result<BundleInfo, Error> {
        if let Some(path) = self.bundle_path() {
            let action = "make a bundle";
            return Err(BundleError::Fixed { action, path }.into());
        }
        let cache = Cache::open(self.cache_dir())?;
        let progress = Arc::clone(&self.progress);
        pack(&self.build()?.engine, &cache, options, to, &*progress)
    }

    /// Takes settings from the environment that are not set here, before or after this call:
    /// `BELLJAR_CACHE`, `BELLJAR_WHEEL`, `BELLJAR_BUNDLE` if no cache is set here, and
    /// `BELLJAR_BUNDLE_HASH`. Empty variables count as missing.
    ///
    /// A bundle contains native code: do not call this in a program whose environment others set.
    #[must_use]
    pub fn environment(mut self) -> Self {
        self.environment = Environment::read();
        self
    }

    /// Returns the directory of the cache that was set here or in the environment.
    fn cache_dir(&self) -> Option<PathBuf> {
        self.cache.clone().or_else(|| self.environment.cache.clone())
    }

    /// Returns the bundle that was set here or in the environment.
    fn bundle_path(&self) -> Option<PathBuf> {
        let named = || self.environment.bundle.clone().filter(|_| self.cache.is_none());
        self.bundle.clone().or_else(named)
    }

    fn open_bundle(&self) -> Result<Option<Arc<Bundle>>, Error> {
        let Some(path) = self.bundle_path() else {
            return Ok(None);
        };
        let hash = self.bundle_hash.clone().or_else(|| self.environment.bundle_hash.clone());
        Ok(Some(Arc::new(Bundle::open(&path, &stamp(), hash.as_deref())?)))
    }

    fn artifact(&self, cache: &Cache) -> Result<Artifact, Error> {
        let wheel = self.wheel.clone().or_else(|| self.environment.wheel.clone());
        Ok(Artifact::ensure(cache, wheel.as_deref(), &*self.progress)?)
    }

    /// Builds the runtime. If the cache is empty, this downloads and unpacks the Python wheel.
    /// Native code is compiled and images are built when a run first needs them, or by
    /// [`Runtime::compile`].
    ///
    /// # Errors
    ///
    /// If the cache is unusable, the artifact is not available, or existing code cannot be loaded.
    pub fn build(self) -> Result<Runtime, Error> {
        let started = Instant::now();
        let (factory, images, artifact) = match self.open_bundle()? {
            Some(bundle) => self.unpacked(bundle)?,
            None => self.set_up()?,
        };
        let temp_dir = self.temp_dir.unwrap_or_else(default_parent);
        let engine = Arc::new(Engine {
            factory: factory.with_resolution(Resolution::new(self.clock_resolution)),
            images,
            roots: Roots::new(temp_dir.clone(), self.file_memory, artifact.open()?)
                .map_err(no_files)?,
            temp_dir: temp_dir.clone().into(),
            defaults: self.defaults,
            ceilings: self.ceilings,
            turns: Turns::new(self.concurrency, self.queue),
            starts: Starts::new(),
            makers: Makers::default(),
        });
        tracing::debug!(elapsed = ?started.elapsed(), "the engine has started");
        if self.background && !engine.factory.suffices(Tier::All) {
            compile_later(&engine);
        }
        Ok(Runtime {
            sessions: Sessions::new(Arc::clone(&engine), &temp_dir, self.sessions),
            engine,
            reactor: Arc::default(),
        })
    }
}

/// Compiles all tiers, the smallest first, while the engine is in use.
fn compile_later(engine: &Arc<Engine>) {
    let engine = Arc::downgrade(engine);
    let work = move || {
        for tier in Tier::EVERY {
            let Some(engine) = engine.upgrade() else {
                return;
            };
            if let Err(error) = engine.factory.ensure_beforehand(tier) {
                // A run that needs this code reports the error to its caller.
                tracing::warn!(%error, %tier, "code was not compiled beforehand");
                return;
            }
        }
    };
    let thread = std::thread::Builder::new().name("belljar-compile".into()).spawn(work);
    if let Err(error) = thread {
        tracing::warn!(%error, "no thread compiles code beforehand");
    }
}

/// The factory of instances, and the files that they start from.
type Parts = (Factory, ImageStore, Artifact);

impl RuntimeBuilder {
    /// Sets up from the cache. Missing parts are built.
    fn set_up(&self) -> Result<Parts, Error> {
        if !HAS_COMPILER {
            return Err(BundleError::NoCompiler.into());
        }
        let cache = Cache::open(self.cache_dir())?;
        let artifact = self.artifact(&cache)?;
        let codes = Codes::new(cache.clone(), artifact.clone(), self.strategy, self.form)?;
        let progress = Arc::clone(&self.progress);
        let factory = Factory::new(codes, self.idle(), progress)?;
        let progress = Arc::clone(&self.progress);
        let images = ImageStore::new(cache, artifact.clone(), self.strategy, progress);
        Ok((factory, images, artifact))
    }

    /// Sets up from a bundle.
    fn unpacked(&self, bundle: Arc<Bundle>) -> Result<Parts, Error> {
        let tier = bundle.manifest().tier;
        let open = |path: PathBuf| {
            Code::open(&path, tier, self.strategy).map_err(|error| match error {
                CodeError::Load(source) => Error::from(BundleError::Code {
                    path: bundle.root().to_owned(),
                    source,
                }),
                error => error.into(),
            })
        };
        let code = bundle.code().map(open).transpose()?;
        let open_code = bundle.open_code().map(open).transpose()?;
        let artifact = Artifact::in_bundle(bundle.root());
        let left_out = &bundle.manifest().left_out;
        let factory = Factory::of(code, open_code, left_out, self.idle())?;
        let progress = Arc::clone(&self.progress);
        let images = ImageStore::in_bundle(bundle, artifact.clone(), self.strategy, progress);
        Ok((factory, images, artifact))
    }

    /// Returns the number of memories to keep for reuse.
    fn idle(&self) -> usize {
        self.concurrency.clamp(MIN_IDLE, MAX_IDLE)
    }
}

/// Maximum number of idle memories kept for reuse, 1 to 16 MiB each.
const MAX_IDLE: usize = 16;
/// Minimum number of idle memories: one per image, plus a memory being cleaned.
const MIN_IDLE: usize = 4;

impl Runtime {
    /// Starts building a runtime.
    #[must_use]
    pub fn builder() -> RuntimeBuilder {
        RuntimeBuilder::default()
    }

    /// Runs a request in a fresh sandbox. Requires a tokio runtime with its timer enabled.
    ///
    /// Dropping the future cancels the run and frees all its resources.
    ///
    /// # Errors
    ///
    /// If the request is invalid, the queue is full, or the engine fails. Failures of the code are
    /// in the outcome.
    pub async fn run(&self, request: Request) -> Result<Run, Error> {
        let id = next_run();
        let span = tracing::info_span!("run", id, image = tracing::field::Empty);
        // Boxed, because the future of a run is 16 KiB and callers move it.
        Box::pin(self.run_in_turn(request)).instrument(span).await
    }

    /// Starts a run like [`run`](Self::run), which the caller follows turn by turn. Whatever the
    /// request has no callback for is a turn: events without a watcher, calls of tools without a
    /// function, and `input()` without an answerer or standard input.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime.
    pub fn start(&self, request: Request) -> Running {
        Running::spawn(self.prepare(request))
    }

    pub(crate) fn prepare(&self, request: Request) -> (Running, Work) {
        let runtime = self.clone();
        Running::prepare(request, |request| async move { runtime.run(request).await })
    }

    /// Checks whether this runtime works: runs a line of code outside the queue and returns whether
    /// the result is correct. No limit applies, so callers should limit how often they call this.
    ///
    /// # Errors
    ///
    /// If the engine fails.
    pub async fn probe(&self, timeout: Duration) -> Result<bool, Error> {
        self.check_process()?;
        let engine = &self.engine;
        let request = Request::new("print(6 * 7)").image("core").timeout(timeout);
        let plan = resolve(request, &RunLimits::default(), &RunLimits::CEILINGS)?;
        let image = engine.image(&plan.request.image, "").await?;
        let run = Box::pin(run::run(engine, &image, plan)).await?;
        Ok(run.outcome.stdout == "42\n")
    }

    /// Analyses code without running it: what `policy` forbids, and imports that would fail.
    ///
    /// # Errors
    ///
    /// As for [`run`](Self::run).
    pub async fn check(&self, code: &str, policy: &Policy) -> Result<CheckReport, Error> {
        let engine = &self.engine;
        let request = Request::new(code).policy(policy.clone()).image("core");
        let plan = resolve(request, &engine.defaults, &engine.ceilings)?;
        let _turn = engine.turns.take().await?;
        let image = engine.image(&plan.request.image, "").await?;
        run::check(engine, &image, plan).await
    }

    /// Returns the image that a request would start from, and loads or builds it if necessary.
    /// Images are the same on every machine: two runtimes that return the same identity give the
    /// same result for a deterministic request.
    ///
    /// # Errors
    ///
    /// If the image does not exist or cannot be built.
    pub async fn image_of(&self, request: &Request) -> Result<ImageIdentity, Error> {
        self.check_process()?;
        let image = self.engine.image(&request.image, &request.code).await?;
        Ok(ImageIdentity {
            name: image.manifest.name.clone(),
            memory: image.identity.clone(),
            artifact: image.manifest.artifact.clone(),
        })
    }

    /// Compiles `tier` of the Python module, unless the cache has it or a larger tier, so that runs
    /// need not wait for it. Blocks for up to two minutes.
    ///
    /// # Errors
    ///
    /// If the compilation fails, or the cache cannot be written.
    pub fn compile(&self, tier: Tier) -> Result<(), Error> {
        self.check_process()?;
        Ok(self.engine.factory.ensure(tier)?)
    }

    /// Returns the largest tier whose code this runtime has loaded.
    #[must_use]
    pub fn tier(&self) -> Option<Tier> {
        self.engine.factory.tier()
    }

    /// Returns the images that runs start from.
    #[must_use]
    pub fn images(&self) -> Images {
        Images::of(Arc::clone(&self.engine))
    }

    /// Starts a session: an interpreter and its workspace, kept across runs.
    ///
    /// # Errors
    ///
    /// If the options are invalid, there are too many sessions, the initial code fails, or the
    /// engine fails.
    pub async fn session(&self, options: SessionOptions) -> Result<Session, Error> {
        self.sessions.create(options).await
    }

    /// Starts a session from a checkpoint: a path, or [`RestoreOptions`] for a checkpoint from
    /// another source, for mounts, or to keep the old id.
    ///
    /// # Errors
    ///
    /// If the checkpoint is incomplete or of another version, its image does not exist, the mounts
    /// differ, its id is taken, or the engine fails.
    pub async fn restore(&self, checkpoint: impl Into<RestoreOptions>) -> Result<Session, Error> {
        self.sessions.restore(checkpoint.into()).await
    }

    /// Starts a session from the snapshot with this name.
    ///
    /// # Errors
    ///
    /// As for [`Sessions::from_snapshot`].
    pub async fn session_from(&self, snapshot: &str) -> Result<Session, Error> {
        self.sessions.from_snapshot(snapshot).await
    }

    /// Returns the default limits of requests.
    #[must_use]
    pub fn defaults(&self) -> RunLimits {
        self.engine.defaults
    }

    /// Returns the ceilings of the limits of requests.
    #[must_use]
    pub fn ceilings(&self) -> RunLimits {
        self.engine.ceilings
    }

    /// Returns the sessions of this runtime.
    #[must_use]
    pub fn sessions(&self) -> &Sessions {
        &self.sessions
    }

    /// Ends the runtime of a process that is about to exit. Its memory is left to the operating
    /// system, which reclaims it faster than piecewise freeing. A runtime with sessions is dropped
    /// instead.
    pub fn end(self) {
        if self.check_process().is_ok() && self.sessions.list().is_empty() {
            std::mem::forget(self);
        }
    }

    /// Fails in a process that was forked after the runtime was built.
    pub(crate) fn check_process(&self) -> Result<(), Error> {
        self.engine.check_process()
    }

    #[boxed]
    async fn run_in_turn(&self, request: Request) -> Result<Run, Error> {
        let engine = &self.engine;
        let plan = resolve(request, &engine.defaults, &engine.ceilings)?;
        Refusal::unless_empty(unanswerable(&plan.request))?;
        let Some(_turn) = engine.turns.take_unless(plan.request.interrupt.as_ref()).await? else {
            return run::interrupted(engine, plan);
        };
        let image = engine.image(&plan.request.image, &plan.request.code).await?;
        tracing::Span::current().record("image", image.manifest.name.as_str());
        run::run(engine, &image, plan).await
    }
}

/// Returns reasons against a run outside a session: tools or answers that only a session or a
/// deterministic run can use.
fn unanswerable(request: &Request) -> Vec<Reason> {
    if request.deterministic.is_some() {
        return Vec::new();
    }
    let refused = |field, message| Reason::new(field, ReasonKind::Invalid, message);
    let deferred = request.tools.iter().filter(|tool| tool.is_deferred()).map(|tool| {
        let name = tool.name();
        let message =
            format!("{name} is deferred, which only a session or a deterministic run can have");
        refused(Field::Tools, message)
    });
    let answers = (!request.answers.is_empty()).then(|| {
        refused(Field::Answers, "only a deterministic run has its answers beforehand".to_owned())
    });
    deferred.chain(answers).collect()
}

//! The runtime: everything that runs share, and the way in.

mod options;

use std::num::NonZero;
#[cfg(feature = "compile")]
use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use belljar_files::DEFAULT_MEMORY;
pub use options::RuntimeOptions;
use tokio::sync::Semaphore;
use tracing::Instrument;

use crate::api::policy::{Bounds, resolve};
use crate::api::refusal::{Field, Reason, ReasonKind, Refusal};
use crate::api::request::{Policy, Request};
use crate::bakery::{ImageStore, stamp};
use crate::bundle::{Bundle, BundleError};
use crate::cache::Cache;
use crate::error::Error;
use crate::images::{ImageIdentity, Images};
use crate::instance::{Factory, Roots};
use crate::licenses::{self, License};
use crate::memory::Strategy;
use crate::module::{Artifact, Code, CodeError, Codes, Form, HAS_COMPILER, Tier};
#[cfg(feature = "compile")]
use crate::pack::{BundleInfo, BundleOptions, pack};
use crate::progress::{Progress, Silent};
use crate::reactor::Reactor;
use crate::run::{self, CheckReport, Run, next_run, no_files};
use crate::session::{RestoreOptions, Session, SessionBounds, SessionOptions, Sessions};
use crate::shared::{Engine, Makers};
use crate::turns::{Starts, Turns};
use crate::workspace::default_parent;

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
    /// What blocking callers wait on.
    pub(crate) reactor: Arc<Reactor>,
}

/// Builds a [`Runtime`].
#[derive(Clone)]
pub struct RuntimeBuilder {
    cache: Option<PathBuf>,
    wheel: Option<PathBuf>,
    bundle: Option<PathBuf>,
    bundle_hash: Option<String>,
    temp_dir: Option<PathBuf>,
    file_memory: u64,
    progress: Arc<dyn Progress>,
    concurrency: usize,
    queue: usize,
    defaults: Bounds,
    ceilings: Bounds,
    strategy: Strategy,
    form: Form,
    background: bool,
    sessions: SessionBounds,
}

impl Default for RuntimeBuilder {
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(2, NonZero::get);
        Self {
            cache: None,
            wheel: None,
            bundle: None,
            bundle_hash: None,
            temp_dir: None,
            file_memory: DEFAULT_MEMORY,
            progress: Arc::new(Silent),
            concurrency: 4 * cores,
            queue: 1_024,
            defaults: Bounds::default(),
            ceilings: Bounds::CEILINGS,
            strategy: Strategy::default(),
            form: Form::Metered,
            background: false,
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

    /// Runs from the bundle in `dir`, of which nothing is written and in whose place nothing is
    /// downloaded, compiled or baked; `BELLJAR_BUNDLE` does the same where no cache is named. Its
    /// native code is trusted as this program is: see [`bundle_hash`](Self::bundle_hash).
    #[must_use]
    pub fn bundle(mut self, dir: impl Into<PathBuf>) -> Self {
        self.bundle = Some(dir.into());
        self
    }

    /// Demands that the manifest of the bundle has this SHA-256, in hexadecimal, and every file the
    /// hash that the manifest says: all of them are then read when the runtime is built.
    /// `BELLJAR_BUNDLE_HASH` does the same.
    #[must_use]
    pub fn bundle_hash(mut self, sha256: impl Into<String>) -> Self {
        self.bundle_hash = Some(sha256.into());
        self
    }

    /// Has files that memory has no room for go to `dir`, instead of the system's directory for temporary files;
    /// [`Run::keep`] makes its directories there.
    #[must_use]
    pub fn temp_dir(mut self, dir: impl Into<PathBuf>) -> Self {
        self.temp_dir = Some(dir.into());
        self
    }

    /// Keeps at most `bytes` of all sandboxes' files in memory, 256 MiB by default. The rest is in a nameless
    /// file in [`temp_dir`](Self::temp_dir); where none can be made, a write that finds no room fails in the
    /// sandbox with `ENOSPC`.
    #[must_use]
    pub fn file_memory(mut self, bytes: u64) -> Self {
        self.file_memory = bytes;
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

    /// Compiles what the cache lacks on a thread of its own, beginning at once: first the code that a
    /// run without libraries needs, then that for numpy and pandas, then the rest. Without it each is
    /// compiled when a run needs it. For processes that live for minutes.
    #[must_use]
    pub fn background(mut self, compiles: bool) -> Self {
        self.background = compiles;
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

    /// Runs code that counts nothing and that nothing can stop: only to measure what the meter costs.
    #[cfg(feature = "unmetered")]
    #[doc(hidden)]
    #[must_use]
    pub fn unmetered(mut self) -> Self {
        self.form = Form::Unmetered;
        self
    }

    /// Runs code that writes to stderr where a loop of numpy over 32-bit integers overflows.
    #[cfg(test)]
    pub(crate) fn telling_overflows(mut self) -> Self {
        self.form = Form::TellingOverflows;
        self
    }

    /// The images in the cache, without setting anything up before one is to be made.
    ///
    /// # Errors
    ///
    /// When the cache cannot be used.
    pub fn images(&self) -> Result<Images, Error> {
        let builder = self.clone();
        let set_up = move || Ok(builder.clone().build()?.engine);
        if let Some(bundle) = self.open_bundle()? {
            return Ok(Images::in_bundle(bundle, Arc::new(set_up)));
        }
        Ok(Images::before(Cache::find(self.cache.clone())?, Arc::new(set_up)))
    }

    /// Whose work the sandbox contains, and under which licenses, sorted by package. Sets up the
    /// artifact if it is not in the cache, and nothing else.
    ///
    /// # Errors
    ///
    /// When the cache cannot be used, or the artifact cannot be had or read.
    pub fn licenses(&self) -> Result<Vec<License>, Error> {
        if let Some(bundle) = self.open_bundle()? {
            return licenses::read(&Artifact::in_bundle(bundle.root()));
        }
        if !HAS_COMPILER {
            return Err(BundleError::NoCompiler.into());
        }
        let cache = Cache::open(self.cache.clone())?;
        licenses::read(&self.artifact(&cache)?)
    }

    /// Makes a bundle in the directory `to`: what some images need to run on another machine. What
    /// the cache lacks of it is set up first.
    ///
    /// # Errors
    ///
    /// When `to` is there already or cannot be written, an image is not there or cannot be made, or
    /// the code cannot be compiled for the machines that were named.
    #[cfg(feature = "compile")]
    pub fn make_bundle(self, options: &BundleOptions, to: &Path) -> Result<BundleInfo, Error> {
        if let Some(path) = self.bundle_path() {
            let action = "make a bundle";
            return Err(BundleError::Fixed { action, path }.into());
        }
        let cache = Cache::open(self.cache.clone())?;
        let progress = Arc::clone(&self.progress);
        pack(&self.build()?.engine, &cache, options, to, &*progress)
    }

    /// The bundle that was named here or by the environment.
    fn bundle_path(&self) -> Option<PathBuf> {
        let named = || {
            let value = std::env::var_os("BELLJAR_BUNDLE").filter(|v| !v.is_empty())?;
            self.cache.is_none().then(|| PathBuf::from(value))
        };
        self.bundle.clone().or_else(named)
    }

    fn open_bundle(&self) -> Result<Option<Arc<Bundle>>, Error> {
        let Some(path) = self.bundle_path() else {
            return Ok(None);
        };
        let named = || std::env::var("BELLJAR_BUNDLE_HASH").ok().filter(|hash| !hash.is_empty());
        let hash = self.bundle_hash.clone().or_else(named);
        Ok(Some(Arc::new(Bundle::open(&path, &stamp(), hash.as_deref())?)))
    }

    fn artifact(&self, cache: &Cache) -> Result<Artifact, Error> {
        let wheel = self.wheel.clone().or_else(|| {
            std::env::var_os("BELLJAR_WHEEL").filter(|v| !v.is_empty()).map(PathBuf::from)
        });
        Ok(Artifact::ensure(cache, wheel.as_deref(), &*self.progress)?)
    }

    /// Makes the runtime. On an empty cache it gets the Python wheel and unpacks it. Native code is
    /// compiled, and images are made, when a run first needs them, or [`Runtime::compile`] is called.
    ///
    /// # Errors
    ///
    /// When the cache cannot be used, the artifact cannot be had, or code that is there cannot be
    /// loaded.
    pub fn build(self) -> Result<Runtime, Error> {
        let started = Instant::now();
        let (factory, images, artifact) = match self.open_bundle()? {
            Some(bundle) => self.unpacked(bundle)?,
            None => self.set_up()?,
        };
        let temp_dir = self.temp_dir.unwrap_or_else(default_parent);
        let engine = Arc::new(Engine {
            factory,
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
            sessions: Sessions::new(Arc::clone(&engine), temp_dir, self.sessions),
            engine,
            reactor: Arc::default(),
        })
    }
}

/// Compiles all tiers, the smallest first, for as long as anybody has the engine.
fn compile_later(engine: &Arc<Engine>) {
    let engine = Arc::downgrade(engine);
    let work = move || {
        for tier in Tier::EVERY {
            let Some(engine) = engine.upgrade() else {
                return;
            };
            if let Err(error) = engine.factory.ensure_beforehand(tier) {
                // A run that needs it says so to its caller.
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

/// What makes instances, and what they start from.
type Parts = (Factory, ImageStore, Artifact);

impl RuntimeBuilder {
    /// From the cache, in which what is missing is made.
    fn set_up(&self) -> Result<Parts, Error> {
        if !HAS_COMPILER {
            return Err(BundleError::NoCompiler.into());
        }
        let cache = Cache::open(self.cache.clone())?;
        let artifact = self.artifact(&cache)?;
        let codes = Codes::new(cache.clone(), artifact.clone(), self.strategy, self.form)?;
        let progress = Arc::clone(&self.progress);
        let factory = Factory::new(codes, self.idle(), progress)?;
        let progress = Arc::clone(&self.progress);
        let images = ImageStore::new(cache, artifact.clone(), self.strategy, progress);
        Ok((factory, images, artifact))
    }

    /// From a bundle.
    fn unpacked(&self, bundle: Arc<Bundle>) -> Result<Parts, Error> {
        let code =
            Code::open(&bundle.code(), bundle.manifest().tier, self.strategy).map_err(|error| {
                match error {
                    CodeError::Load(source) => Error::from(BundleError::Code {
                        path: bundle.root().to_owned(),
                        source,
                    }),
                    error => error.into(),
                }
            })?;
        let artifact = Artifact::in_bundle(bundle.root());
        let left_out = &bundle.manifest().left_out;
        let factory = Factory::of(code, left_out, self.idle())?;
        let progress = Arc::clone(&self.progress);
        let images = ImageStore::in_bundle(bundle, artifact.clone(), self.strategy, progress);
        Ok((factory, images, artifact))
    }

    /// Memories that are kept for reuse.
    fn idle(&self) -> usize {
        self.concurrency.clamp(MIN_IDLE, MAX_IDLE)
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
        let id = next_run();
        let span = tracing::info_span!("run", id, image = tracing::field::Empty);
        // On the heap: the future of a run is 16 KiB, and its callers move theirs.
        Box::pin(self.run_in_turn(request)).instrument(span).await
    }

    /// Runs a line of code beside the queue, and says whether the result is right: whether this runtime works,
    /// however many runs wait for their turn. It counts against no bound, so callers limit how often they ask.
    ///
    /// # Errors
    ///
    /// When the engine fails.
    pub async fn probe(&self, timeout: Duration) -> Result<bool, Error> {
        self.check_process()?;
        let engine = &self.engine;
        let request = Request::new("print(6 * 7)").image("core").timeout(timeout);
        let plan = resolve(request, &engine.defaults, &engine.ceilings)?;
        let image = engine.image(&plan.request.image, "").await?;
        let run = Box::pin(run::run(engine, &image, plan)).await?;
        Ok(run.outcome.stdout == "42\n")
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
        let image = engine.image(&plan.request.image, "").await?;
        run::check(engine, &image, plan).await
    }

    /// Which image a request would start from, loaded or made if it was not there. Images are the same on
    /// every machine: two runtimes that tell the same do the same with a deterministic request.
    ///
    /// # Errors
    ///
    /// When there is no such image, or it cannot be made.
    pub async fn image_of(&self, request: &Request) -> Result<ImageIdentity, Error> {
        self.check_process()?;
        let image = self.engine.image(&request.image, &request.code).await?;
        Ok(ImageIdentity {
            name: image.manifest.name.clone(),
            memory: image.identity.clone(),
            artifact: image.manifest.artifact.clone(),
        })
    }

    /// Compiles `tier` of the Python module, unless it or a larger one is in the cache, so that no run
    /// has to wait for it. It blocks, for up to two minutes.
    ///
    /// # Errors
    ///
    /// When it cannot be compiled, or the cache cannot be written.
    pub fn compile(&self, tier: Tier) -> Result<(), Error> {
        self.check_process()?;
        Ok(self.engine.factory.ensure(tier)?)
    }

    /// The largest tier whose code this runtime has loaded.
    #[must_use]
    pub fn tier(&self) -> Option<Tier> {
        self.engine.factory.tier()
    }

    /// The images that runs start from.
    #[must_use]
    pub fn images(&self) -> Images {
        Images::of(Arc::clone(&self.engine))
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

    /// Starts a session from a checkpoint: a path, or [`RestoreOptions`] for one that comes from
    /// elsewhere, sees directories of the host, or is to have its old id.
    ///
    /// # Errors
    ///
    /// When it is not a whole checkpoint of this version, the image that it needs is not there,
    /// other directories are mounted than it sees, its id is taken, or the engine fails.
    pub async fn restore(&self, checkpoint: impl Into<RestoreOptions>) -> Result<Session, Error> {
        self.sessions.restore(checkpoint.into()).await
    }

    /// Starts a session from a snapshot that was kept under that name.
    ///
    /// # Errors
    ///
    /// As for [`Sessions::from_snapshot`].
    pub async fn session_from(&self, snapshot: &str) -> Result<Session, Error> {
        self.sessions.from_snapshot(snapshot).await
    }

    /// The limits of requests that name none.
    #[must_use]
    pub fn defaults(&self) -> Bounds {
        self.engine.defaults
    }

    /// The most that a request may ask for.
    #[must_use]
    pub fn ceilings(&self) -> Bounds {
        self.engine.ceilings
    }

    /// All sessions of this runtime.
    #[must_use]
    pub fn sessions(&self) -> &Sessions {
        &self.sessions
    }

    /// Ends the runtime of a process that is about to end as well: leaves its memory to the system, which takes
    /// it back faster than it is freed piece by piece. One that has sessions is dropped.
    pub fn end(self) {
        if self.check_process().is_ok() && self.sessions.list().is_empty() {
            std::mem::forget(self);
        }
    }

    /// Fails in a process that was forked from the one that built it.
    pub(crate) fn check_process(&self) -> Result<(), Error> {
        self.engine.check_process()
    }

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

/// Reasons against a run outside of a session: what nobody could answer, or would be asked again.
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

//! Code: the module compiled for this host and engine, cached as a native file.
#![expect(
    unsafe_code,
    reason = "loading native code is unsafe by nature; the file's seal is checked first"
)]

use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use belljar_memory::{Strategy, without_holes};
use belljar_passes::{PassError, Targets, Tier};
use wasmtime::{Engine, Module};

use super::split::{Split, SplitError, split};
use super::{Artifact, PINS, compiler, config};
use crate::artifact::cache::{Cache, CacheError, create_sealed, seal};
use crate::util::cause::Cause;
use crate::util::error_code::{self, Coded};
use crate::util::hint::Hint;
use crate::util::parallel::{Beforehand, apart};
use crate::util::progress::{Progress, Stage, Step};

/// The compiled module cannot be made or loaded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CodeError {
    /// wasmtime does not support this configuration on this host.
    #[error("wasmtime cannot be configured on this machine")]
    Engine(#[source] Cause),
    /// A pass cannot change the module.
    #[error(transparent)]
    Pass(Cause),
    /// The module cannot be split.
    #[error(transparent)]
    Split(Cause),
    /// The module cannot be compiled.
    #[error("the Python module cannot be compiled")]
    Compile(#[source] Cause),
    /// The compiled module cannot be loaded.
    #[error("the compiled Python module cannot be loaded")]
    Load(#[source] Cause),
    /// The cache directory is unusable.
    #[error(transparent)]
    Cache(#[from] CacheError),
}

impl From<PassError> for CodeError {
    fn from(error: PassError) -> Self {
        Self::Pass(Cause::new(error))
    }
}

impl From<SplitError> for CodeError {
    fn from(error: SplitError) -> Self {
        Self::Split(Cause::new(error))
    }
}

impl Coded for CodeError {
    fn code(&self) -> error_code::Code {
        match self {
            Self::Engine(_) => error_code::Code::ModuleEngine,
            Self::Pass(_) => error_code::Code::ModulePass,
            Self::Split(_) => error_code::Code::ModuleSplit,
            Self::Compile(_) => error_code::Code::ModuleCompile,
            Self::Load(_) => error_code::Code::ModuleLoad,
            Self::Cache(e) => e.code(),
        }
    }
}

impl Hint for CodeError {
    fn hint(&self) -> Option<String> {
        match self {
            Self::Cache(e) => e.hint(),
            _ => Some("`belljar doctor` shows the problem and how to fix it".into()),
        }
    }
}

/// The compiled module, with its engine.
#[derive(Clone)]
pub(crate) struct Code {
    pub engine: Engine,
    pub module: Module,
    /// Tier of the code.
    pub tier: Tier,
}

impl Code {
    /// Loads the code of a bundle.
    pub(crate) fn open(path: &Path, tier: Tier, strategy: Strategy) -> Result<Self, CodeError> {
        let engine = config::engine(strategy).map_err(|e| CodeError::Engine(Cause::new(e)))?;
        // SAFETY: the caller has chosen to trust the bundle, and everyone who can write to it, with
        // native code, and may have required the hash of its manifest, which contains the hash of
        // this file. wasmtime itself rejects another version, configuration or set of CPU features.
        let module = unsafe { deserialize(&engine, path)? };
        Ok(Self {
            module: module.map_err(|e| CodeError::Load(Cause::new(e)))?,
            engine,
            tier,
        })
    }

    /// Loads the code of an extension in a bundle, for instances of this code.
    pub(crate) fn open_extension(&self, path: &Path) -> Result<Module, CodeError> {
        // SAFETY: as in `open`; the caller has also checked this file's hash.
        let module = unsafe { deserialize(&self.engine, path)? };
        module.map_err(|e| CodeError::Load(Cause::new(e)))
    }
}

/// Urgency of a request for code.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Need {
    /// A run or a set-up waits for it.
    Now,
    /// No caller waits yet: other work on the machine takes precedence.
    Later,
}

/// How the module is changed before it is compiled.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Form {
    Metered,
    /// Without the meter; it cannot be stopped.
    #[cfg(feature = "unmetered")]
    Unmetered,
    /// Metered, and numpy reports overflows of 32-bit integers.
    #[cfg(test)]
    TellingOverflows,
    /// Metered, and the host counts calls.
    #[cfg(test)]
    CountingCalls,
    /// Metered, and open for extensions.
    Open,
}

impl Form {
    /// Returns the changed code of `tier`.
    pub(super) fn wasm_of(self, artifact: &Artifact, tier: Tier) -> Result<Vec<u8>, CodeError> {
        match self {
            Self::Metered => Ok(belljar_passes::on_code(wasm_of(artifact, tier)?)?),
            Self::Open => {
                let module = belljar_passes::open_for_extensions(&read(artifact)?)?;
                let module = belljar_passes::on_module(module, tier)?;
                Ok(belljar_passes::on_code(split(&module)?.code)?)
            }
            #[cfg(feature = "unmetered")]
            Self::Unmetered => wasm_of(artifact, tier),
            #[cfg(test)]
            Self::TellingOverflows => {
                let module = belljar_passes::before_profile(read(artifact)?, tier)?;
                let module = belljar_passes::tell_overflows(&module)?;
                Ok(belljar_passes::on_code(split(&module)?.code)?)
            }
            #[cfg(test)]
            Self::CountingCalls => {
                let module = belljar_passes::before_profile(read(artifact)?, tier)?;
                let module = belljar_passes::count_calls(&module)?;
                Ok(belljar_passes::on_code(split(&module)?.code)?)
            }
        }
    }
}

/// Compiles native code, and stores it in the cache.
#[derive(Clone)]
pub(crate) struct Codes {
    cache: Cache,
    artifact: Artifact,
    engine: Engine,
    form: Form,
    /// Code being compiled before a run needs it, by tier.
    beforehand: Arc<[Beforehand; Tier::EVERY.len()]>,
}

impl Codes {
    pub(crate) fn new(
        cache: Cache,
        artifact: Artifact,
        strategy: Strategy,
        form: Form,
    ) -> Result<Self, CodeError> {
        Ok(Self {
            cache,
            artifact,
            engine: config::engine(strategy).map_err(|e| CodeError::Engine(Cause::new(e)))?,
            form,
            beforehand: Arc::default(),
        })
    }

    /// Returns the same for code that is open for extensions.
    pub(crate) fn open(&self) -> Self {
        Self {
            form: Form::Open,
            ..self.clone()
        }
    }

    /// Returns what extensions can be linked with.
    pub(crate) fn targets(&self) -> Result<Targets, CodeError> {
        Ok(Targets::of(&read(&self.artifact)?)?)
    }

    /// Stores a linked extension, and returns its SHA-256.
    pub(crate) fn keep_extension(&self, linked: &[u8]) -> Result<String, CodeError> {
        let sha256 = seal::hash_bytes(linked);
        self.cache.dir(EXTENSIONS)?;
        let path = self.cache.path(EXTENSIONS).join(format!("{sha256}.wasm"));
        let _lock = self.cache.lock(EXTENSIONS, || ())?;
        create_sealed(&path, |file| std::io::Write::write_all(file, linked))?;
        Ok(sha256)
    }

    /// Loads the native code of a linked extension, and compiles it first if necessary. Returns
    /// `None` if the cache does not have the extension.
    pub(crate) fn extension(&self, sha256: &str) -> Result<Option<Module>, CodeError> {
        let path = self.extension_code(sha256);
        // Without a lock, a file whose seal is still missing would be removed as damaged.
        if seal::check(&path).is_ok()
            && let Some(module) = self.load_module(&path)?
        {
            return Ok(Some(module));
        }
        let _lock = self.cache.lock(EXTENSIONS, || ())?;
        if let Some(module) = self.load_module(&path)? {
            return Ok(Some(module));
        }
        let Some(linked) = self.linked_extension(sha256)? else {
            return Ok(None);
        };
        let native = apart(|| {
            let metered = belljar_passes::on_extension(&linked)?;
            compiler::compile(&self.engine, &metered).map_err(|e| CodeError::Compile(Cause::new(e)))
        })?;
        create_sealed(&path, |file| std::io::Write::write_all(file, &native))?;
        self.load_module(&path)
    }

    /// Reads a linked extension. Returns `None` if the cache does not have it.
    pub(crate) fn linked_extension(&self, sha256: &str) -> Result<Option<Vec<u8>>, CodeError> {
        let source = self.cache.path(EXTENSIONS).join(format!("{sha256}.wasm"));
        let Ok(linked) = fs::read(&source) else {
            return Ok(None);
        };
        // The manifest of a sealed image names the hash.
        if seal::hash_bytes(&linked) != sha256 {
            seal::remove(&source)?;
            return Ok(None);
        }
        Ok(Some(linked))
    }

    /// Returns the file of the native code of a linked extension. Its name depends on what changes
    /// the extension after it is linked: the meter, and what affects native code.
    pub(crate) fn extension_code(&self, sha256: &str) -> PathBuf {
        let mut hasher = DefaultHasher::new();
        belljar_passes::versions().hash(&mut hasher);
        belljar_passes::link_version().hash(&mut hasher);
        compiler::compatibility(&self.engine).hash(&mut hasher);
        let name = format!("{sha256}-{:016x}.cwasm", hasher.finish());
        self.cache.path(EXTENSIONS).join(name)
    }

    /// Whether the cache has all code that is open for extensions, and that of these.
    pub(crate) fn has_open<'a>(&self, mut linked: impl Iterator<Item = &'a str>) -> bool {
        seal::check(&self.open().path(Tier::All)).is_ok()
            && linked.all(|sha256| seal::check(&self.extension_code(sha256)).is_ok())
    }

    /// Loads the native code of `tier`, if it is in the cache.
    pub(crate) fn find(&self, tier: Tier) -> Result<Option<Code>, CodeError> {
        self.load(tier, &self.path(tier))
    }

    /// Loads the native code of `tier` from the cache, and compiles it first if necessary.
    pub(crate) fn ensure(
        &self,
        tier: Tier,
        need: Need,
        progress: &dyn Progress,
    ) -> Result<Code, CodeError> {
        let path = self.path(tier);
        if let Some(code) = self.load(tier, &path)? {
            return Ok(code);
        }
        let waiting = || {
            progress.begin(Stage::Waiting, "");
            if need == Need::Now {
                self.beforehand[tier as usize].hurry();
            }
        };
        let _lock = self.cache.lock(&format!("code{}", suffix(tier)), waiting)?;
        if let Some(code) = self.load(tier, &path)? {
            return Ok(code);
        }
        let _step = Step::begin(progress, Stage::Compile, tier.name());
        let native = self.compile(tier, need)?;
        self.cache.dir(DIRECTORY)?;
        create_sealed(&path, |file| std::io::Write::write_all(file, &native))?;
        drop(native);
        self.load(tier, &path)?.ok_or_else(|| {
            CodeError::Cache(CacheError::Tampered {
                path,
                reason: "it changed while it was being written",
            })
        })
    }

    /// Returns the file of the native code of `tier`.
    pub(crate) fn path(&self, tier: Tier) -> PathBuf {
        path_for(&self.cache, &self.engine, self.form, tier)
    }

    fn compile(&self, tier: Tier, need: Need) -> Result<Vec<u8>, CodeError> {
        if !compiler::IS_HERE {
            return compiler::compile(&self.engine, &[])
                .map_err(|e| CodeError::Compile(Cause::new(e)));
        }
        let work = || {
            let code = self.form.wasm_of(&self.artifact, tier)?;
            let started = Instant::now();
            let native = compiler::compile(&self.engine, &code);
            tracing::debug!(%tier, elapsed = ?started.elapsed(), "compiled the module");
            native.map_err(|e| CodeError::Compile(Cause::new(e)))
        };
        match need {
            Need::Now => apart(work),
            Need::Later => self.beforehand[tier as usize].run(work),
        }
    }

    /// Loads `path`. Removes it and returns `None` if it was changed.
    fn load(&self, tier: Tier, path: &Path) -> Result<Option<Code>, CodeError> {
        Ok(self.load_module(path)?.map(|module| Code {
            engine: self.engine.clone(),
            module,
            tier,
        }))
    }

    /// Does the same for any module.
    fn load_module(&self, path: &Path) -> Result<Option<Module>, CodeError> {
        match seal::check(path) {
            Ok(()) => {}
            Err(CacheError::Tampered { .. }) => {
                tracing::debug!(path = %path.display(), "no usable code in the cache");
                seal::remove(path)?;
                return Ok(None);
            }
            Err(e) => return Err(e.into()),
        }
        // SAFETY: `Engine::precompile_module` made the file on this machine: its seal has the
        // SHA-256 from the time of writing, in a directory that only this user can write. wasmtime
        // itself rejects another version, configuration or set of CPU features.
        match unsafe { deserialize(&self.engine, path)? } {
            Ok(module) => Ok(Some(module)),
            Err(error) => {
                tracing::warn!(%error, "the compiled module is for another engine; making it again");
                seal::remove(path)?;
                Ok(None)
            }
        }
    }
}

/// Removes linked extensions that are not `used`, with their native code: those in `removed` at
/// once, and others after a day, because the image that uses them may not be written yet.
pub(crate) fn remove_extensions(
    cache: &Cache,
    used: &[String],
    removed: &[String],
) -> Result<(), CacheError> {
    let directory = cache.path(EXTENSIONS);
    if !directory.is_dir() {
        return Ok(());
    }
    let _lock = cache.lock(EXTENSIONS, || ())?;
    for entry in fs::read_dir(&directory).map_err(CacheError::io("list", &directory))? {
        let entry = entry.map_err(CacheError::io("list", &directory))?;
        let path = entry.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let is_of = |all: &[String]| all.iter().any(|sha256| name.starts_with(sha256));
        let written = entry.metadata().and_then(|metadata| metadata.modified());
        let is_old = || {
            let age = written.ok().and_then(|written| written.elapsed().ok());
            age.is_some_and(|age| age > Duration::from_hours(24))
        };
        let is_file = name.ends_with(".wasm") || name.ends_with(".cwasm");
        if is_file && !is_of(used) && (is_of(removed) || is_old()) {
            seal::remove(&path)?;
        }
    }
    Ok(())
}

/// Loads native code, mapped if possible, so that processes share it.
///
/// # Safety
///
/// As for [`Module::deserialize_file`]: wasmtime made the file, and it does not change.
unsafe fn deserialize(
    engine: &Engine,
    path: &Path,
) -> Result<wasmtime::Result<Module>, CacheError> {
    let file = open(path).map_err(CacheError::io("open", path))?;
    let file = without_holes(file).map_err(CacheError::io("fill the holes of", path))?;
    // SAFETY: as the caller says.
    let module = unsafe { Module::deserialize_open_file(engine, file) };
    if !cfg!(windows) || module.is_ok() {
        return Ok(module);
    }
    // Some file systems do not permit mapping files as code, nor does wine. Any other error recurs
    // below.
    let bytes = fs::read(path).map_err(CacheError::io("read", path))?;
    // SAFETY: as the caller says.
    Ok(unsafe { Module::deserialize(engine, bytes) })
}

#[cfg(not(windows))]
fn open(path: &Path) -> std::io::Result<File> {
    File::open(path)
}

/// Opens a file to be mapped as code, and prevents changes meanwhile.
#[cfg(windows)]
fn open(path: &Path) -> std::io::Result<File> {
    use std::os::windows::fs::OpenOptionsExt;
    use windows_sys::Win32::Foundation::{GENERIC_EXECUTE, GENERIC_READ};
    const SHARED_FOR_READING: u32 = 1;
    let mut options = File::options();
    options.access_mode(GENERIC_READ | GENERIC_EXECUTE).share_mode(SHARED_FOR_READING);
    options.read(true).open(path)
}

/// Returns the changed code of `tier`, not metered yet.
fn wasm_of(artifact: &Artifact, tier: Tier) -> Result<Vec<u8>, CodeError> {
    Ok(split(&belljar_passes::on_module(read(artifact)?, tier)?)?.code)
}

/// Reads the artifact's module.
fn read(artifact: &Artifact) -> Result<Vec<u8>, CodeError> {
    let path = artifact.module();
    Ok(fs::read(&path).map_err(CacheError::io("read", &path))?)
}

/// Returns the initial memory of the artifact's module.
pub(crate) fn first_memory(artifact: &Artifact) -> Result<Split, CodeError> {
    let mut split = split(&read(artifact)?)?;
    belljar_passes::on_memory(&mut split.memory)?;
    Ok(split)
}

/// Returns the file of the native code of `tier` for this machine.
pub(crate) fn code_file(cache: &Cache, tier: Tier) -> Result<PathBuf, CodeError> {
    let engine =
        config::engine(Strategy::default()).map_err(|e| CodeError::Engine(Cause::new(e)))?;
    Ok(path_for(cache, &engine, Form::Metered, tier))
}

/// Directory in the cache.
const DIRECTORY: &str = "code";
/// Directory of linked extensions and their native code.
const EXTENSIONS: &str = "extensions";

/// The name depends on everything that affects the native code: the module, the tier, the passes,
/// and wasmtime's version, configuration, target and CPU features, which its compatibility hash
/// covers.
fn path_for(cache: &Cache, engine: &Engine, form: Form, tier: Tier) -> PathBuf {
    let mut hasher = DefaultHasher::new();
    // Where this is the only form, its hash is empty: the name is the same in all builds.
    if form != Form::Metered {
        form.hash(&mut hasher);
    }
    belljar_passes::versions().hash(&mut hasher);
    compiler::compatibility(engine).hash(&mut hasher);
    if let Some(version) = belljar_passes::tier_version(tier) {
        version.hash(&mut hasher);
    }
    if form == Form::Open {
        belljar_passes::link_version().hash(&mut hasher);
    }
    let module = &PINS.files.module.sha256[..16];
    let name = format!("{module}-{:016x}{}.cwasm", hasher.finish(), suffix(tier));
    cache.path(DIRECTORY).join(name)
}

/// Returns the suffix of the name of a smaller tier's code.
fn suffix(tier: Tier) -> String {
    match tier {
        Tier::All => String::new(),
        tier => format!("-{tier}"),
    }
}

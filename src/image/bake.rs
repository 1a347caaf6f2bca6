//! Bakes an image: boots an instance, runs a recipe in it, and saves its memory.

mod compile;
mod extensions;
mod immortal;
mod inittab;
mod interrupt;
mod packages;
mod stack;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use belljar_files::{DEFAULT_MEMORY, Packed};

use super::error::{BakeError, MissingCode};
use super::recipe::{BOOTSTRAP, MODULES, Recipe};
use crate::api::policy::{Plan, RunLimits, resolve};
use crate::api::request::{Capture, Deterministic, Request, RequestLimits};
use crate::artifact::PINS;
use crate::artifact::cache::{Cache, create_private_dir};
use crate::artifact::image::{Extension, Image, InterruptAddresses, Manifest, Replaced, Reserved};
use crate::guest::interpreter::{Interpreter, Observed, Task};
use crate::guest::{RunHost, RunOrder, StatusKind};
use crate::sandbox::calls::Toolset;
use crate::sandbox::{
    Answer, Audience, Budget, Ended, Factory, Host, InstanceError, Library, Missing, Options, RUN,
    Roots, Turn, limits,
};
use crate::util::progress::{Progress, Stage, Step};

pub(super) use compile::Compiler;
pub(super) use extensions::NativeModule;
pub use packages::{BuiltPackage, PackageBuilder};
pub(super) use packages::{
    Files, LockedPackage, Shop, StoredRecipe, are_here, are_packed, check_files, check_names,
    fetch, fetch_wheels, native_modules, open, pack, package_file, package_name, read_lock, remove,
};

/// The build of one image.
pub(super) struct Order<'a> {
    pub recipe: &'a Recipe,
    pub base: &'a Image,
    /// Key of everything that the image depends on.
    pub key: String,
    /// All packages, with those of the bases.
    pub packages: &'a [LockedPackage],
    /// Native modules of the packages that `base` does not have.
    pub native: &'a [NativeModule],
    /// Packages of the library that they replace.
    pub replaced: &'a [Replaced],
    /// Recipes of the image's bases, if `base` is not yet made by them.
    pub beneath: &'a [&'a Recipe],
    /// The packages in packed form.
    pub packed: Option<Arc<Packed>>,
    pub cache: &'a Cache,
    /// The library that guests read.
    pub library: Library,
    pub progress: &'a dyn Progress,
}

impl Order<'_> {
    /// Whether the base is the unmodified interpreter.
    fn is_first(&self) -> bool {
        self.base.manifest.base.is_none() && self.base.manifest.interrupt.is_none()
    }
}

/// Runs the recipe and returns the image's manifest and memory. Blocks.
pub(super) fn bake(factory: &Factory, order: &Order<'_>) -> Result<(Manifest, Vec<u8>), BakeError> {
    let _step = Step::begin(order.progress, Stage::Bake, &order.recipe.name);
    let work = || {
        tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .map_err(BakeError::System)?
            .block_on(follow(factory, order))
    };
    // On its own thread, because the caller's may belong to an asynchronous runtime.
    let baked = std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("belljar-bake".into());
        let baking = thread.spawn_scoped(scope, work).map_err(BakeError::System)?;
        baking.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    });
    // If this fails, the next build of the image removes it.
    let _ = std::fs::remove_dir_all(workshop(order));
    baked
}

/// Returns the directory for the workspace of a build.
fn workshop(order: &Order<'_>) -> PathBuf {
    order.cache.path("baking").join(&order.recipe.name)
}

/// Performs the steps of the recipe.
async fn follow(factory: &Factory, order: &Order<'_>) -> Result<(Manifest, Vec<u8>), BakeError> {
    let mut oven = Oven::open(factory, order)?;
    // Before the runner is loaded, which imports modules that native ones replace.
    let linked = extensions::link(&mut oven, factory, order).await?;
    if order.is_first() {
        oven.boot().await?;
        oven.hide(order.replaced).await?;
    } else if order.base.packages.is_some() {
        oven.turn("finding packages", LOOK_AGAIN).await?;
    }
    for base in order.beneath {
        oven.run_own(|_, _| "base", &base.import_code()).await?;
        oven.turn("preparing", INSTALL).await?;
        if !base.warm_up.is_empty() {
            oven.run_own(|_, _| "base", &base.warm_up).await?;
        }
    }
    oven.run_own(Recipe::part_of_import_code, &order.recipe.import_code()).await?;
    oven.turn("preparing", INSTALL).await?;
    if !order.recipe.warm_up.is_empty() {
        oven.run_own(|_, _| "warm_up", &order.recipe.warm_up).await?;
    }
    let interrupt = interrupt::find(&mut oven).await?;
    oven.rehearse().await?;
    oven.turn("sealing", SEAL).await?;
    let reserved = oven.reserve().await?;
    oven.capture(order, interrupt, reserved, linked)
}

/// Applies the runner's patches to modules imported since.
const INSTALL: &str = "__import__('_belljar').install()";
/// Forgets what the importer has found in the base's packages: the directories of the image's have
/// the same times.
const LOOK_AGAIN: &str = "import sys as _sys
for _path in list(_sys.path_importer_cache):
    if _path.startswith('/packages'):
        del _sys.path_importer_cache[_path]
__import__('_frozen_importlib_external')._NamespacePath._epoch += 1
if 'importlib.metadata' in _sys.modules:
    _sys.modules['importlib.metadata'].MetadataPathFinder.invalidate_caches()
_sys = _path = None
del _sys, _path
";
/// Makes the host tell CPython the size of its stack.
const DEEPEN: &str = "__import__('_host').call(b'k')";
/// Clears state that would not survive; the host checks for open descriptors itself.
const SEAL: &str = "__import__('_belljar').seal() and None";

/// The environment in which every image boots.
const ENVIRONMENT: &str = "import os as _os
_os.environ.clear()
_os.environ.update(HOME='/tmp', TMPDIR='/tmp', PYTHONTZPATH='', MPLCONFIGDIR='/tmp',
                   LANG='C.UTF-8', USER='sandbox')
_os.chdir('/workspace')
del _os
";

/// An interpreter that runs a recipe.
struct Oven<'a> {
    interpreter: Interpreter,
    recipe: &'a Recipe,
    observation: Arc<Mutex<interrupt::Observation>>,
    /// What the guest told about its objects.
    told: Arc<Mutex<Vec<u8>>>,
}

impl<'a> Oven<'a> {
    fn open(factory: &Factory, order: &'a Order<'_>) -> Result<Self, BakeError> {
        // Files of a process that was killed: this process holds the image's lock.
        let dir = workshop(order);
        let _ = std::fs::remove_dir_all(&dir);
        create_private_dir(&dir)?;
        let image = Image {
            packages: order.packed.clone(),
            ..order.base.clone()
        };
        let files = Roots::new(dir, DEFAULT_MEMORY, order.library.clone())
            .and_then(|roots| roots.files(&[], image.packages.as_ref()));
        let mut files = files.map_err(|errno| InstanceError::start(errno.into()))?;
        files.set_limits(limits(1 << 30, 10_000));
        let (observation, told) = (Arc::default(), Arc::default());
        let front = |run| {
            Box::new(Front {
                run,
                observation: Arc::clone(&observation),
                told: Arc::clone(&told),
            }) as Box<dyn Host>
        };
        let options = Options {
            image: &image,
            links: !order.native.is_empty(),
            files: &files,
            aliases: &[],
            mounts: &[],
            memory: 2 << 30,
            // Clock and random numbers are fixed, so that the same recipe gives the same image.
            deterministic: Some(&Deterministic::default()),
            kept: None,
        };
        Ok(Self {
            interpreter: Interpreter::start_behind(factory, &options, front)?,
            recipe: order.recipe,
            observation,
            told,
        })
    }

    /// Loads the runner into a new interpreter.
    async fn boot(&mut self) -> Result<(), BakeError> {
        self.turn("booting", ENVIRONMENT).await?;
        self.turn("loading the runner", BOOTSTRAP).await?;
        self.turn("setting the limits of the stack", DEEPEN).await
    }

    /// Hides packages of the library, before anything imports them.
    async fn hide(&mut self, replaced: &[Replaced]) -> Result<(), BakeError> {
        if replaced.is_empty() {
            return Ok(());
        }
        let names: Vec<_> = replaced.iter().map(|one| (&one.package, &one.modules)).collect();
        let names = serde_json::to_string(&names).map_err(|e| BakeError::System(e.into()))?;
        self.turn("hiding packages", &format!("__import__('_belljar').hide({names})")).await
    }

    /// Runs a turn, which fails if it writes to standard error.
    async fn turn(&mut self, step: &'static str, source: &str) -> Result<(), BakeError> {
        let turn = Turn::Source(source);
        let driven = self.interpreter.drive(turn, &budget(None), OUTPUT).await?;
        let output = self.interpreter.take_stderr();
        match driven.ended {
            Ended::Returned(0) if output.text.is_empty() => Ok(()),
            Ended::Missing(missing) => Err(self.lacks(missing)),
            ended => Err(self.failed(step, format!("{}{ended:?}", output.text))),
        }
    }

    /// Runs the runner's code like a user's code.
    async fn run(&mut self, step: &'static str, code: &str) -> Result<(), BakeError> {
        match self.attempt(code).await? {
            None => Ok(()),
            Some(failure) => Err(self.failed(step, failure.output)),
        }
    }

    /// Runs code of the recipe in the same way; `part_of` returns the part of the recipe that
    /// contains a line.
    async fn run_own(
        &mut self,
        part_of: impl FnOnce(&Recipe, Option<u64>) -> &'static str,
        code: &str,
    ) -> Result<(), BakeError> {
        match self.attempt(code).await? {
            None => Ok(()),
            Some(failure) => Err(BakeError::RecipeCode {
                image: self.recipe.name.clone(),
                part: part_of(self.recipe, failure.line),
                output: failure.output,
            }),
        }
    }

    async fn attempt(&mut self, code: &str) -> Result<Option<Failure>, BakeError> {
        let observed = self.observe(code, None).await?;
        if let Ended::Missing(missing) = &observed.driven.ended {
            return Err(self.lacks(missing.clone()));
        }
        let transcript = observed.transcript;
        let output = observed.stderr.text;
        let line = transcript.status.as_ref().and_then(|status| status.line);
        let output = match transcript.status {
            Some(status) if status.status == StatusKind::Ok && transcript.ended => {
                let mut warnings = transcript.warnings;
                if !matches!(observed.driven.ended, Ended::Returned(_)) {
                    warnings.push(format!("{:?}", observed.driven.ended));
                }
                if warnings.is_empty() {
                    return Ok(None);
                }
                warnings.join("\n")
            }
            Some(status) if output.is_empty() => status.message.unwrap_or_default(),
            Some(_) => output,
            None => format!("{output}the interpreter gave no answer"),
        };
        Ok(Some(Failure { line, output }))
    }

    /// Runs a request with default settings, so that the runner has read what it needs for similar
    /// runs.
    async fn rehearse(&mut self) -> Result<(), BakeError> {
        let observed = self.observe_request(Request::new("pass"), None).await?;
        match observed.driven.ended {
            Ended::Missing(missing) => Err(self.lacks(missing)),
            _ if observed.transcript.ended => Ok(()),
            ended => Err(self.failed("rehearsing", format!("{}{ended:?}", observed.stderr.text))),
        }
    }

    /// Runs code like a user's code.
    async fn observe(&mut self, code: &str, fuel: Option<u64>) -> Result<Observed, BakeError> {
        let request = Request {
            limits: RequestLimits {
                timeout: Some(LONGEST),
                ..RequestLimits::default()
            },
            capture: Capture {
                table_rows: Some(5),
                ..Capture::default()
            },
            deterministic: Some(Deterministic::default()),
            ..Request::new(code)
        };
        self.observe_request(request, fuel).await
    }

    async fn observe_request(
        &mut self,
        request: Request,
        fuel: Option<u64>,
    ) -> Result<Observed, BakeError> {
        let plan: Plan = resolve(request, &RunLimits::default(), &RunLimits::CEILINGS)?;
        let task = Task {
            order: RunOrder::new(&plan, [0; 32], false),
            // The memory prepared for runs does not exist yet.
            turn: Turn::Source(RUN),
            stdin: Vec::new(),
            output: OUTPUT,
            audience: Audience::default(),
            tools: Toolset::default(),
            interrupt: None,
            budget: budget(fuel),
            started: Instant::now(),
        };
        Ok(self.interpreter.run(task).await?)
    }

    fn lacks(&self, missing: Missing) -> BakeError {
        BakeError::Missing {
            image: self.recipe.name.clone(),
            missing: MissingCode(missing),
        }
    }

    fn failed(&self, step: &'static str, output: String) -> BakeError {
        BakeError::Python {
            image: self.recipe.name.clone(),
            step,
            output,
        }
    }

    /// Allocates zeroed memory of the guest.
    async fn allocate(&mut self, length: u32, deadline: Instant) -> Result<u32, BakeError> {
        let allocated = self.interpreter.instance().allocate(length, deadline).await?;
        let none = || self.failed("allocating", "the interpreter has no memory left".into());
        allocated.ok_or_else(none)
    }

    /// Copies bytes into memory that the guest allocates, and returns their address.
    async fn put(&mut self, bytes: &[u8], deadline: Instant) -> Result<u32, BakeError> {
        let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        let at = self.allocate(length, deadline).await?;
        self.interpreter.instance().write(at, bytes)?;
        Ok(at)
    }

    /// Reserves memory for the start of every run.
    async fn reserve(&mut self) -> Result<Reserved, BakeError> {
        let deadline = Instant::now() + LONGEST;
        let run_source = self.put(RUN.as_bytes(), deadline).await?;
        let answer = self.allocate(ANSWER_BYTES, deadline).await?;
        Ok(Reserved {
            run_source,
            answer,
            answer_bytes: ANSWER_BYTES,
        })
    }

    /// Takes the interpreter's memory, if no files are open.
    fn capture(
        mut self,
        order: &Order<'_>,
        interrupt: InterruptAddresses,
        reserved: Reserved,
        linked: Vec<Extension>,
    ) -> Result<(Manifest, Vec<u8>), BakeError> {
        let files = self.interpreter.instance().files();
        let open = files.open_files().filter(|(_, open)| !open.given);
        let open: Vec<i32> = open.map(|(number, _)| number.cast_signed()).collect();
        if !open.is_empty() {
            return Err(BakeError::OpenFiles {
                image: order.recipe.name.clone(),
                open,
            });
        }
        let manifest = Manifest {
            name: order.recipe.name.clone(),
            base: Some(order.recipe.base.clone()),
            description: order.recipe.description.clone(),
            imports: order.recipe.imports.clone(),
            packages: order.packages.iter().map(LockedPackage::pin).collect(),
            package_file: package_name(order.packages),
            artifact: PINS.files.module.sha256.clone(),
            recipe: order.key.clone(),
            stack_pointer: self.interpreter.instance().stack_pointer(),
            interrupt: Some(interrupt),
            reserved: Some(reserved),
            extensions: [order.base.manifest.extensions.clone(), linked].concat(),
            replaced: order.replaced.to_vec(),
        };
        Ok((manifest, self.interpreter.instance().memory().to_vec()))
    }
}

/// The failure of code.
struct Failure {
    line: Option<u64>,
    output: String,
}

/// Size of the memory for a run's order: enough for code of several hundred lines.
const ANSWER_BYTES: u32 = 32 << 10;

/// Time limit of a recipe's code.
const LONGEST: Duration = Duration::from_mins(10);

/// Maximum size of each of its output streams, in bytes.
const OUTPUT: u64 = 1 << 20;

/// Returns the limits of a turn of the build.
fn budget(fuel: Option<u64>) -> Budget {
    Budget {
        deadline: Instant::now() + LONGEST,
        fuel,
        grace: Duration::from_mins(1),
        grace_fuel: 4_000_000_000,
    }
}

/// Answers frames during a build, in addition to the host's side of a run: sends the runner's
/// sources, observes the guest's memory to find the interrupt, and makes objects immortal.
struct Front {
    run: RunHost,
    observation: Arc<Mutex<interrupt::Observation>>,
    told: Arc<Mutex<Vec<u8>>>,
}

impl Host for Front {
    fn answer(&mut self, frame: &[u8], memory: &[u8]) -> Answer {
        match frame {
            b"l" => {
                let modules = serde_json::json!({ "modules": MODULES });
                Answer::Bytes(modules.to_string().into_bytes())
            }
            [b'i', letter] => {
                let observation = self.observation.lock();
                observation.unwrap_or_else(PoisonError::into_inner).note(*letter, memory);
                Answer::Bytes(Vec::new())
            }
            b"k" => stack::words(memory).map_or(Answer::Refused, Answer::Words),
            [b'g', addresses @ ..] => {
                let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
                addresses.clone_into(&mut told);
                Answer::Bytes(Vec::new())
            }
            [b'y', addresses @ ..] => {
                immortal::words(addresses, memory).map_or(Answer::Refused, Answer::Words)
            }
            _ => self.run.answer(frame, memory),
        }
    }
}

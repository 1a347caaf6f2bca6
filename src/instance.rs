//! An image made live: a store, its limits, its system interface and its door.

mod clock;
pub(crate) mod control;
mod descriptors;
mod door;
mod drive;
mod input;
mod interrupt;
mod keep;
mod output;
mod quota;
mod relay;
mod roots;
mod wasi;

use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use wasmtime::{InstancePre, Linker, Memory, ResourceLimiter, Store, TypedFunc, Val};
use wasmtime_wasi::p1::WasiP1Ctx;
use wasmtime_wasi::{FsPerms, WasiCtxBuilder};

pub(crate) use clock::{RunningClock, SeededBytes, SteppingClock};
pub(crate) use control::{Control, StopReason};
pub(crate) use descriptors::Descriptor;
pub(crate) use door::{Answer, Host};
pub(crate) use drive::{Budget, Driven, Ended, RUN, Turn};
pub(crate) use input::Input;
pub(crate) use keep::Kept;
pub(crate) use output::{Output, Sink};
pub use output::{OutputWatcher, Stream};
pub(crate) use quota::Quota;
pub(crate) use roots::WORKSPACE_PATH;

use self::roots::{MountPoint, TEMPORARY_FD, WORKSPACE_FD};
use crate::blame::{self, Coded};
use crate::hint::Hint;
use crate::image::{Image, InterruptAddresses};
use crate::memory::{Creator, MemoryError, Pool, Slot, Source, Tracker};
use crate::module::{Artifact, Code, PAGE, PINS, STACK_POINTER};
use crate::workspace::{Tree, Workspace};

/// A sandbox could not be started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InstanceError {
    /// wasmtime refused to make the instance.
    #[error("cannot start a sandbox")]
    Start(#[source] wasmtime::Error),
    /// A directory that the guest should see cannot be opened.
    #[error("cannot open {path} for a sandbox", path = path.display())]
    Directory {
        /// The directory.
        path: PathBuf,
        /// Why.
        source: wasmtime::Error,
    },
    /// A file that the interpreter had open cannot be opened again.
    #[error("cannot open {path} again, which the interpreter had open")]
    Reopen {
        /// Its path in the sandbox.
        path: String,
    },
    /// There is no memory for it.
    #[error(transparent)]
    Memory(#[from] MemoryError),
}

impl Coded for InstanceError {
    fn code(&self) -> blame::Code {
        match self {
            Self::Start(_) => blame::Code::InstanceStart,
            Self::Directory { .. } => blame::Code::InstanceDirectory,
            Self::Reopen { .. } => blame::Code::InstanceReopen,
            Self::Memory(_) => blame::Code::Memory,
        }
    }
}

impl Hint for InstanceError {
    fn hint(&self) -> Option<String> {
        match self {
            Self::Directory { .. } => Some("mounted directories must exist and be readable".into()),
            Self::Reopen { .. } => Some("mount what was mounted when it was opened".into()),
            Self::Start(_) | Self::Memory(_) => None,
        }
    }
}

/// Makes instances; one for each runtime.
pub(crate) struct Factory {
    code: Code,
    ready: InstancePre<State>,
    artifact: Artifact,
    pool: Arc<Pool>,
}

/// What one instance is given.
pub(crate) struct Setup<'a> {
    pub workspace: &'a Workspace,
    /// Host directories and the guest paths, without their first `/`, where they are seen.
    pub mounts: Vec<(PathBuf, String)>,
    pub stdin: Arc<Input>,
    pub stdout: Arc<Sink>,
    pub stderr: Arc<Sink>,
    pub control: Arc<Control>,
    pub host: Box<dyn Host>,
    /// Bytes of memory above the image.
    pub memory: u64,
    /// Bytes and files in the workspace.
    pub quota: (u64, u64),
    pub repeatable: Option<(SteppingClock, SeededBytes)>,
    /// For how long a guest that is kept between runs has lived; `None` for one that is not.
    pub lived: Option<Duration>,
}

/// What the host keeps for a guest.
pub(crate) struct State {
    wasi: WasiP1Ctx,
    limiter: Limiter,
    pub quota: Quota,
    mounts: Vec<MountPoint>,
    pub host: Box<dyn Host>,
    frames: u64,
    /// Guest memory that stands ready for the first answer, and its length.
    answer: Option<(u32, u32)>,
    control: Arc<Control>,
    clock: Option<SteppingClock>,
    random: Option<SeededBytes>,
    /// What the guest knows of files, where that must be repeatable.
    files: Option<wasi::Files>,
    /// The monotonic clock, unless it must be repeatable.
    running: RunningClock,
}

/// A live sandbox.
pub(crate) struct Instance {
    store: Store<State>,
    memory: Memory,
    stack_pointer: wasmtime::Global,
    turn: TypedFunc<(u32, u32), u32>,
    allocate: TypedFunc<u32, u32>,
    interrupt: Option<interrupt::Handle>,
    /// Where the source of a run's turn stands.
    run_source: Option<u32>,
    /// How its memory differs from its image. It is dropped after the memory, which may show pages
    /// that it holds.
    tracker: Tracker,
}

impl Factory {
    /// Links the code to its host functions. At most `idle` memories are kept for reuse.
    pub(crate) fn new(code: Code, artifact: Artifact, idle: usize) -> Result<Self, InstanceError> {
        let mut linker = Linker::new(&code.engine);
        wasi::add_to_linker(&mut linker).map_err(InstanceError::Start)?;
        door::add_to_linker(&mut linker).map_err(InstanceError::Start)?;
        let ready = linker.instantiate_pre(&code.module).map_err(InstanceError::Start)?;
        Ok(Self {
            code,
            ready,
            artifact,
            pool: Pool::new(idle),
        })
    }

    /// Makes `image` live.
    pub(crate) fn start(&self, image: &Image, setup: Setup<'_>) -> Result<Instance, InstanceError> {
        let image_bytes = image.memory.len();
        let lasts = setup.lived.is_some();
        let state = self.state(setup, image_bytes)?;
        let mut store = Store::new(&self.code.engine, state);
        store.limiter(|state| &mut state.limiter);
        // Nothing is metered before the first turn.
        store.set_fuel(u64::MAX).map_err(InstanceError::Start)?;

        let slot = match &image.memory {
            Source::Mapped(backing) if lasts => Some(Slot::lasting(backing)?),
            Source::Mapped(backing) => Some(self.pool.acquire(backing)?),
            Source::Copied(_) => None,
        };
        let tracker = Tracker::new(&image.memory, slot.as_ref().and_then(Slot::extent));
        let made = Creator::provide(slot, || at_once(self.ready.instantiate_async(&mut store)));
        Instance::of(store, made.map_err(InstanceError::Start)?, image, tracker)
            .map_err(InstanceError::Start)
    }

    fn state(&self, setup: Setup<'_>, image_bytes: usize) -> Result<State, InstanceError> {
        let roots = vec![
            (WORKSPACE_FD, Tree::new(setup.workspace.root())),
            (TEMPORARY_FD, Tree::new(setup.workspace.temporary())),
        ];
        let (bytes, files) = setup.quota;
        // One that is kept counts from nothing every time that it is brought back.
        let there = setup.lived.map_or_else(|| setup.workspace.before(), |_| (0, 0));
        let quota = Quota::new(roots, bytes, files, there);
        let running = setup.lived.map(RunningClock::after);
        let wasi = self.wasi(&setup, running)?;
        let (clock, random) = setup.repeatable.unzip();
        Ok(State {
            wasi,
            limiter: Limiter::new(image_bytes, setup.memory),
            quota,
            mounts: MountPoint::of(setup.mounts.iter().map(|(_, name)| name.as_str())),
            host: setup.host,
            frames: 0,
            answer: None,
            control: setup.control,
            files: clock.as_ref().map(|clock| wasi::Files::new(clock.peek(true))),
            clock,
            random,
            // wasmtime-wasi's monotonic clock counts from the making of the context.
            running: running.unwrap_or_default(),
        })
    }

    fn wasi(
        &self,
        setup: &Setup<'_>,
        running: Option<RunningClock>,
    ) -> Result<WasiP1Ctx, InstanceError> {
        let mut builder = WasiCtxBuilder::new();
        builder
            .allow_blocking_current_thread(true)
            .args(&[&PINS.abi.argv0])
            .stdin(input::InputHandle(Arc::clone(&setup.stdin)))
            .stdout(output::SinkStream(Arc::clone(&setup.stdout)))
            .stderr(output::SinkStream(Arc::clone(&setup.stderr)));
        if let Some((clock, _)) = &setup.repeatable {
            builder.wall_clock(clock.clone()).monotonic_clock(clock.clone());
        } else if let Some(clock) = running {
            builder.monotonic_clock(clock);
        }
        let mut open =
            |path: &Path, guest: &str, perms| match builder.preopened_dir(path, guest, perms) {
                Ok(_) => Ok(()),
                Err(source) => Err(InstanceError::Directory {
                    path: path.to_owned(),
                    source,
                }),
            };
        let own = [
            (self.artifact.library(), FsPerms::ReadOnly),
            (self.artifact.font_data(), FsPerms::ReadOnly),
            (setup.workspace.root(), FsPerms::ReadWrite),
            (setup.workspace.temporary(), FsPerms::ReadWrite),
            (self.artifact.empty_root(), FsPerms::ReadOnly),
        ];
        for ((host, perms), guest) in own.into_iter().zip(roots::OWN.iter()) {
            open(&host, guest, perms)?;
        }
        for (host, guest) in &setup.mounts {
            open(host, guest, FsPerms::ReadOnly)?;
        }
        Ok(builder.build_p1())
    }
}

/// The result of an instantiation. Ours has nothing to wait for: the limiter answers at once, and
/// the module has no start function.
fn at_once<T>(instantiation: impl Future<Output = wasmtime::Result<T>>) -> wasmtime::Result<T> {
    match pin!(instantiation).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(made) => made,
        Poll::Pending => Err(wasmtime::format_err!("an instantiation waited for something")),
    }
}

impl State {
    /// What the guest's clock says.
    fn now(&self, realtime: bool) -> Duration {
        match &self.clock {
            Some(clock) => clock.peek(realtime),
            None if realtime => std::time::SystemTime::now()
                .duration_since(std::time::UNIX_EPOCH)
                .unwrap_or_default(),
            None => self.running.elapsed(),
        }
    }
}

impl Instance {
    fn of(
        mut store: Store<State>,
        made: wasmtime::Instance,
        image: &Image,
        tracker: Tracker,
    ) -> wasmtime::Result<Self> {
        let missing = |what| move || wasmtime::format_err!("the module exports no {what}");
        let memory = made.get_memory(&mut store, "memory").ok_or_else(missing("memory"))?;
        let missing_pages = image.memory.len().saturating_sub(memory.data_size(&store)) / PAGE;
        if missing_pages > 0 {
            memory.grow(&mut store, missing_pages as u64)?;
        }
        if let Source::Copied(bytes) = &image.memory {
            memory.write(&mut store, 0, bytes)?;
        }
        let stack_pointer =
            made.get_global(&mut store, STACK_POINTER).ok_or_else(missing("stack pointer"))?;
        stack_pointer.set(&mut store, Val::I32(image.manifest.stack_pointer))?;
        let turn = made.get_typed_func(&mut store, "turn")?;
        let allocate = made.get_typed_func(&mut store, "host_alloc")?;
        let interrupt = image
            .manifest
            .interrupt
            .and_then(|addresses| interrupt::Handle::new(&memory, &store, addresses));
        let reserved = image.manifest.reserved;
        let state = store.data_mut();
        state.limiter.armed = true;
        state.answer = reserved.map(|r| (r.answer, r.answer_bytes));
        Ok(Self {
            store,
            memory,
            stack_pointer,
            turn,
            allocate,
            interrupt,
            run_source: reserved.map(|r| r.run_source),
            tracker,
        })
    }

    pub(crate) fn state(&self) -> &State {
        self.store.data()
    }

    /// Sets where to write for a soft interrupt.
    pub(crate) fn set_interrupt(&mut self, addresses: InterruptAddresses) {
        self.interrupt = interrupt::Handle::new(&self.memory, &self.store, addresses);
    }

    /// The guest's memory.
    pub(crate) fn memory(&self) -> &[u8] {
        self.memory.data(&self.store)
    }

    /// The stack pointer, which is at rest between turns.
    pub(crate) fn stack_pointer(&mut self) -> i32 {
        self.stack_pointer.get(&mut self.store).i32().unwrap_or_default()
    }

    /// The most bytes that the memory had above its image.
    pub(crate) fn memory_peak(&self) -> u64 {
        self.state().limiter.peak
    }

    /// Whether the guest was refused memory.
    pub(crate) fn memory_refused(&self) -> bool {
        self.state().limiter.refused
    }
}

/// Bounds the guest's memory and notes what it asked for.
#[derive(Debug)]
struct Limiter {
    image: usize,
    max: usize,
    peak: u64,
    refused: bool,
    /// Growing to the image's size is not the guest's doing.
    armed: bool,
}

/// The heap of wasm exceptions may become this large, in bytes.
const MAX_EXCEPTIONS: usize = 16 << 20;

impl Limiter {
    fn new(image: usize, above: u64) -> Self {
        Self {
            image,
            max: image.saturating_add(usize::try_from(above).unwrap_or(usize::MAX)),
            peak: 0,
            refused: false,
            armed: false,
        }
    }
}

impl ResourceLimiter for Limiter {
    fn memory_growing(
        &mut self,
        current: usize,
        desired: usize,
        _maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        if !self.armed {
            return Ok(true);
        }
        if current < self.image {
            // Not the linear memory, which is never smaller than its image: the exceptions' heap.
            return Ok(desired <= MAX_EXCEPTIONS);
        }
        if desired > self.max {
            self.refused = true;
            return Ok(false);
        }
        self.peak = self.peak.max((desired - self.image) as u64);
        Ok(true)
    }

    fn table_growing(
        &mut self,
        current: usize,
        desired: usize,
        _maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        Ok(!self.armed || desired <= current)
    }
}

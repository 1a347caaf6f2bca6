//! A live instance of an image: a store, its limits, its system interface and its door.

pub(crate) mod calls;
mod capture;
mod clock;
mod codecs;
pub(crate) mod control;
#[cfg(test)]
pub(crate) mod counted_calls;
mod door;
mod drive;
#[cfg(feature = "escape")]
mod escape;
mod extensions;
mod factory;
mod fuel;
mod interrupt;
mod memory_limiter;
mod missing_code;
mod output;
mod preopens;
mod recorder;
mod relay;
mod reply;
mod state;
mod stdin;
mod sync;
mod wasi;

use std::path::PathBuf;

use belljar_memory::{MemoryError, Source, Tracker};
use wasmtime::{Memory, Store, TypedFunc, Val};

pub(crate) use capture::Kept;
pub(crate) use clock::{Resolution, SeededBytes, SteppingClock};
#[cfg(feature = "fuzzing")]
pub(crate) use codecs::answer_frame as convert_frame;
pub(crate) use control::{Control, StopReason};
pub(crate) use door::{Answer, Host};
pub(crate) use drive::{Budget, Driven, Ended, RUN, Turn};
pub(crate) use factory::{Factory, Options, Setup};
pub(crate) use missing_code::Missing;
pub(crate) use output::{Output, Sink};
pub(crate) use preopens::{
    Library, PACKAGES_PATH, Roots, TEMPORARY_PATH, WORKSPACE_PATH, is_of_host, limits, mount_paths,
};
pub(crate) use recorder::{Audience, List, Recorder};
pub(crate) use stdin::Input;
pub(crate) use wasi::Descriptor;

use self::state::State;
use crate::artifact::image::{Image, InterruptAddresses};
use crate::artifact::{CodeError, PAGE, STACK_POINTER};
use crate::util::cause::Cause;
use crate::util::error_code::{self, Coded};
use crate::util::hint::Hint;

/// A sandbox could not be started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InstanceError {
    /// wasmtime could not create the instance.
    #[error("cannot start a sandbox")]
    Start(#[source] Cause),
    /// A mount of the sandbox cannot be opened.
    #[error("cannot open {path} for a sandbox", path = path.display())]
    Directory {
        /// The directory.
        path: PathBuf,
        /// Cause of the failure.
        source: Cause,
    },
    /// A file that the interpreter had open cannot be reopened.
    #[error("cannot reopen {path}, which the interpreter had open")]
    Reopen {
        /// Path of the file in the sandbox.
        path: String,
    },
    /// The task of the sandbox cannot be encoded.
    #[error("cannot encode the task of a sandbox")]
    Order(#[source] Cause),
    /// No native code is available for the sandbox.
    #[error(transparent)]
    Code(#[from] CodeError),
    /// No memory is available for the sandbox.
    #[error(transparent)]
    Memory(#[from] MemoryError),
}

impl InstanceError {
    pub(crate) fn start(error: wasmtime::Error) -> Self {
        Self::Start(Cause::new(error))
    }
}

impl Coded for InstanceError {
    fn code(&self) -> error_code::Code {
        match self {
            Self::Start(_) | Self::Order(_) => error_code::Code::InstanceStart,
            Self::Directory { .. } => error_code::Code::InstanceDirectory,
            Self::Reopen { .. } => error_code::Code::InstanceReopen,
            Self::Code(e) => e.code(),
            Self::Memory(_) => error_code::Code::Memory,
        }
    }
}

impl Hint for InstanceError {
    fn hint(&self) -> Option<String> {
        match self {
            Self::Directory { source, .. } => Some(
                source
                    .lacks_descriptors()
                    .unwrap_or_else(|| "mounted directories must exist and be readable".into()),
            ),
            Self::Reopen { .. } => {
                Some("mount the directories that were mounted when it was opened".into())
            }
            Self::Code(e) => e.hint(),
            Self::Memory(e) => e.hint(),
            Self::Start(_) | Self::Order(_) => None,
        }
    }
}

/// A live sandbox.
pub(crate) struct Instance {
    store: Store<State>,
    main: wasmtime::Instance,
    memory: Memory,
    stack_pointer: wasmtime::Global,
    counter: fuel::Counter,
    turn: TypedFunc<(u32, u32), u32>,
    allocate: TypedFunc<u32, u32>,
    interrupt: Option<interrupt::Handle>,
    /// Address of the source of a run's turn.
    run_source: Option<u32>,
    /// Differences of the memory from its image. It is dropped after the memory, which may map its
    /// pages.
    tracker: Tracker,
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
        let counter = fuel::Counter::of(&made, &mut store)?;
        counter.begin(&mut store, drive::SLICE)?;
        let turn = made.get_typed_func(&mut store, "turn")?;
        let allocate = made.get_typed_func(&mut store, "host_alloc")?;
        let interrupt = image
            .manifest
            .interrupt
            .and_then(|addresses| interrupt::Handle::new(&memory, &store, addresses));
        for extension in &*image.extensions {
            extensions::instantiate(&mut store, &made, extension)?;
        }
        let reserved = image.manifest.reserved;
        let state = store.data_mut();
        state.limiter.armed = true;
        state.answer = reserved.map(|r| (r.answer, r.answer_bytes));
        Ok(Self {
            store,
            main: made,
            memory,
            stack_pointer,
            counter,
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

    /// Sets the addresses for soft interrupts.
    pub(crate) fn set_interrupt(&mut self, addresses: InterruptAddresses) {
        self.interrupt = interrupt::Handle::new(&self.memory, &self.store, addresses);
    }

    /// Returns the guest's memory.
    pub(crate) fn memory(&self) -> &[u8] {
        self.memory.data(&self.store)
    }

    /// Returns the stack pointer, which is constant between turns.
    pub(crate) fn stack_pointer(&mut self) -> i32 {
        self.stack_pointer.get(&mut self.store).i32().unwrap_or_default()
    }

    /// Returns the guest's clock in a deterministic run.
    pub(crate) fn repeatable_clock(&self) -> Option<&SteppingClock> {
        self.state().clock.as_ref()
    }

    /// Returns the peak size of the memory above its image, in bytes.
    pub(crate) fn memory_peak(&self) -> u64 {
        self.state().limiter.peak
    }

    /// Whether the guest was refused memory.
    pub(crate) fn memory_refused(&self) -> bool {
        self.state().limiter.refused
    }
}

//! Creates instances.

use std::cmp::Reverse;
use std::path::Path;
use std::pin::pin;
use std::sync::{Arc, PoisonError, RwLock};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use belljar_files::Files;
use belljar_memory::{Pool, Slot, Source, Tracker};
use belljar_passes::Tier;
use wasmtime::{InstancePre, Linker, Store};
use wasmtime_wasi::p1::WasiP1Ctx;
use wasmtime_wasi::{FsPerms, WasiCtxBuilder};

use super::capture::Kept;
use super::clock::{Resolution, RunningClock, SeededBytes, SteppingClock};
use super::control::Control;
use super::door::{self, Host};
use super::fuel::{self, Meter};
use super::memory_limiter::Limiter;
use super::missing_code::{self, Held};
use super::output::{self, Sink};
use super::preopens;
use super::recorder::Recorder;
use super::state::State;
use super::stdin::{self, Input};
use super::{Instance, InstanceError, wasi};
use crate::api::request::{Deterministic, Mount};
use crate::artifact::image::Image;
use crate::artifact::{Code, Codes, Need, PINS};
use crate::memory::Creator;
use crate::sandbox::calls::Calls;
use crate::util::cause::Cause;
use crate::util::progress::{Progress, Silent};

/// Creates instances; one factory per runtime.
pub(crate) struct Factory {
    /// Source of larger tiers of code, if available.
    codes: Option<Codes>,
    /// Top-level modules that the library omits.
    left_out: Arc<[String]>,
    /// The largest code loaded. It is only replaced by larger code.
    linked: Place,
    /// The same for images with extensions: code with exports and room for them.
    open: Place,
    pool: Arc<Pool>,
    /// Of guests' clocks.
    resolution: Resolution,
    progress: Arc<dyn Progress>,
}

type Place = RwLock<Option<Arc<Linked>>>;

/// Code linked to its host functions.
struct Linked {
    code: Code,
    ready: InstancePre<State>,
}

impl Linked {
    fn new(code: Code) -> Result<Self, InstanceError> {
        let mut linker = Linker::new(&code.engine);
        wasi::add_to_linker(&mut linker).map_err(InstanceError::start)?;
        door::add_to_linker(&mut linker).map_err(InstanceError::start)?;
        fuel::add_to_linker(&mut linker).map_err(InstanceError::start)?;
        missing_code::add_to_linker(&mut linker, code.tier).map_err(InstanceError::start)?;
        #[cfg(test)]
        super::counted_calls::add_to_linker(&mut linker).map_err(InstanceError::start)?;
        let ready = linker.instantiate_pre(&code.module).map_err(InstanceError::start)?;
        Ok(Self { code, ready })
    }
}

/// Settings for an interpreter's whole life.
pub(crate) struct Options<'a> {
    pub image: &'a Image,
    /// Whether extensions are to be linked, although the image may not contain any yet.
    pub links: bool,
    /// Initial files, with their limits.
    pub files: &'a Files,
    /// Host directories that the guest can read.
    pub mounts: &'a [Mount],
    /// Additional paths of the workspace.
    pub aliases: &'a [String],
    /// Limit on memory above the image, in bytes.
    pub memory: u64,
    /// Deterministic clocks and random numbers, if requested.
    pub deterministic: Option<&'a Deterministic>,
    /// State to resume from later, for an interpreter that is kept between runs.
    pub kept: Option<&'a Kept>,
}

/// Streams, stop switch and door of one instance.
pub(crate) struct Setup {
    pub stdin: Arc<Input>,
    pub stdout: Arc<Sink>,
    pub stderr: Arc<Sink>,
    pub control: Arc<Control>,
    pub recorder: Arc<Recorder>,
    pub calls: Arc<Calls>,
    pub host: Box<dyn Host>,
}

impl Options<'_> {
    /// Iterates over the mounts and their paths in the guest.
    fn read_only(&self) -> impl Iterator<Item = (&Path, String)> {
        let hosts = self.mounts.iter().map(|mount| mount.host.as_path());
        hosts.zip(preopens::mount_paths(self.mounts))
    }

    /// Returns the deterministic clock and random numbers, at their current position.
    fn repeatable(&self) -> Option<(SteppingClock, SeededBytes)> {
        let d = self.deterministic?;
        let clock = SteppingClock::new(d.epoch, d.step_ns);
        clock.advance(self.kept.map_or(Duration::ZERO, |kept| kept.lived));
        let blocks = self.kept.map_or(0, |kept| kept.random_blocks);
        Some((clock, SeededBytes::from_block(d.seed, blocks)))
    }
}

impl Factory {
    /// Loads all code if the cache has it. At most `idle` memories are kept for reuse.
    pub(crate) fn new(
        codes: Codes,
        idle: usize,
        progress: Arc<dyn Progress>,
    ) -> Result<Self, InstanceError> {
        let all = codes.find(Tier::All)?;
        let linked = all.map(Linked::new).transpose()?.map(Arc::new);
        Ok(Self {
            codes: Some(codes),
            left_out: Arc::default(),
            linked: RwLock::new(linked),
            open: RwLock::default(),
            pool: Pool::new(idle),
            resolution: Resolution::FULL,
            progress,
        })
    }

    /// Uses fixed code, some of it `open` for extensions, and a library without the top-level
    /// modules in `left_out`.
    pub(crate) fn of(
        code: Option<Code>,
        open: Option<Code>,
        left_out: &[String],
        idle: usize,
    ) -> Result<Self, InstanceError> {
        let linked = |code: Option<Code>| {
            Ok::<_, InstanceError>(RwLock::new(code.map(Linked::new).transpose()?.map(Arc::new)))
        };
        Ok(Self {
            codes: None,
            left_out: left_out.into(),
            linked: linked(code)?,
            open: linked(open)?,
            pool: Pool::new(idle),
            resolution: Resolution::FULL,
            progress: Arc::new(Silent),
        })
    }

    /// Sets how finely guests see time.
    pub(crate) fn with_resolution(mut self, resolution: Resolution) -> Self {
        self.resolution = resolution;
        self
    }

    /// Returns the tier of the loaded code.
    pub(crate) fn tier(&self) -> Option<Tier> {
        self.tier_of(false).or_else(|| self.tier_of(true))
    }

    /// Returns the loaded code that is open for extensions.
    pub(crate) fn open_code(&self) -> Option<Code> {
        self.linked(true).map(|linked| linked.code.clone())
    }

    /// Returns the tier of the loaded code, or of that which is open for extensions.
    pub(crate) fn tier_of(&self, open: bool) -> Option<Tier> {
        self.linked(open).map(|linked| linked.code.tier)
    }

    /// Whether the code of `tier` is loaded, or no other code is available.
    pub(crate) fn suffices(&self, tier: Tier) -> bool {
        self.suffices_of(tier, false)
    }

    /// The same, or for code that is open for extensions.
    pub(crate) fn suffices_of(&self, tier: Tier, open: bool) -> bool {
        self.codes.is_none() || self.tier_of(open) >= Some(tier)
    }

    /// Loads the code of `tier`: all code if the cache has it by now, otherwise this tier, compiled
    /// if necessary. Blocks for up to two minutes. Does nothing if no other code is available.
    pub(crate) fn ensure(&self, tier: Tier) -> Result<(), InstanceError> {
        self.obtain(tier, Need::Now, false)
    }

    /// Does the same before a run needs it, on fewer processors.
    pub(crate) fn ensure_beforehand(&self, tier: Tier) -> Result<(), InstanceError> {
        self.obtain(tier, Need::Later, false)
    }

    /// The same, or for code that is open for extensions.
    pub(crate) fn ensure_of(&self, tier: Tier, open: bool) -> Result<(), InstanceError> {
        self.obtain(tier, Need::Now, open)
    }

    /// Returns the source of code, if any is available.
    pub(crate) fn codes(&self) -> Option<&Codes> {
        self.codes.as_ref()
    }

    fn obtain(&self, tier: Tier, need: Need, open: bool) -> Result<(), InstanceError> {
        let Some(codes) = &self.codes else {
            return Ok(());
        };
        if self.suffices_of(tier, open) {
            return Ok(());
        }
        let codes = &if open { codes.open() } else { codes.clone() };
        let mut larger = Tier::EVERY.into_iter().rev().filter(|&larger| larger > tier);
        let found = larger.find_map(|larger| codes.find(larger).transpose()).transpose()?;
        let code = match found {
            Some(code) => code,
            None => codes.ensure(tier, need, &*self.progress)?,
        };
        let new = Arc::new(Linked::new(code)?);
        let mut linked = self.place(open).write().unwrap_or_else(PoisonError::into_inner);
        if linked.as_ref().is_none_or(|old| new.code.tier > old.code.tier) {
            *linked = Some(new);
        }
        Ok(())
    }

    fn place(&self, open: bool) -> &Place {
        if open { &self.open } else { &self.linked }
    }

    fn linked(&self, open: bool) -> Option<Arc<Linked>> {
        self.place(open).read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Starts an instance of an image.
    pub(crate) fn start(
        &self,
        options: &Options<'_>,
        setup: Setup,
    ) -> Result<Instance, InstanceError> {
        let image = options.image;
        let open = options.links || image.is_native();
        let linked = self
            .linked(open)
            .ok_or_else(|| InstanceError::start(wasmtime::format_err!("no code was loaded")))?;
        let held = Held {
            tier: linked.code.tier,
            open,
            left_out: Arc::clone(&self.left_out),
            grows: self.codes.is_some(),
        };
        let state = self.state(options, setup, held)?;
        let mut store = Store::new(&linked.code.engine, state);
        store.limiter(|state| &mut state.limiter);

        let slot = match &image.memory {
            Source::Mapped(backing) if options.kept.is_some() => Some(self.pool.lasting(backing)?),
            Source::Mapped(backing) => Some(self.pool.acquire(backing)?),
            Source::Copied(_) => None,
        };
        let tracker = Tracker::new(&image.memory, slot.as_ref().and_then(Slot::extent));
        let made = Creator::provide(slot, || at_once(linked.ready.instantiate_async(&mut store)));
        Instance::of(store, made.map_err(InstanceError::start)?, image, tracker)
            .map_err(InstanceError::start)
    }

    fn state(
        &self,
        options: &Options<'_>,
        setup: Setup,
        held: Held,
    ) -> Result<State, InstanceError> {
        let repeatable = options.repeatable();
        let lived = options.kept.map_or(Duration::ZERO, |kept| kept.lived);
        let running = RunningClock::after(lived, self.resolution);
        let wasi = wasi_context(
            options,
            &setup,
            repeatable.as_ref().map(|(clock, _)| clock),
            (self.resolution, running),
        )?;
        let (clock, random) = repeatable.unzip();
        let mut files = options.files.clone();
        files.set_distinct_times(clock.is_some());
        let mut aliases = options.aliases.to_vec();
        // Longest first, because an alias may be below another.
        aliases.sort_by_key(|alias| Reverse(alias.len()));
        Ok(State {
            wasi,
            limiter: Limiter::new(options.image.memory.len(), options.memory),
            began: files.version(),
            files,
            hosts: wasi::Hosts::new(preopens::mount_paths(options.mounts)),
            aliases,
            host: setup.host,
            frames: 0,
            answer: None,
            control: setup.control,
            recorder: setup.recorder,
            calls: setup.calls,
            meter: Meter::default(),
            held,
            shown: clock.as_ref().map(|clock| wasi::Shown::new(clock.peek(true))),
            clock,
            random,
            running,
            resolution: self.resolution,
        })
    }
}

/// Creates the context for wasmtime-wasi: streams, clocks and mounts.
fn wasi_context(
    options: &Options<'_>,
    setup: &Setup,
    repeatable: Option<&SteppingClock>,
    (wall, running): (Resolution, RunningClock),
) -> Result<WasiP1Ctx, InstanceError> {
    let mut builder = WasiCtxBuilder::new();
    builder
        .allow_blocking_current_thread(true)
        .args(&[&PINS.abi.argv0])
        .stdin(stdin::InputHandle(Arc::clone(&setup.stdin)))
        .stdout(output::SinkStream(Arc::clone(&setup.stdout)))
        .stderr(output::SinkStream(Arc::clone(&setup.stderr)));
    if let Some(clock) = repeatable {
        builder.wall_clock(clock.clone()).monotonic_clock(clock.clone());
    } else {
        builder.wall_clock(wall).monotonic_clock(running);
    }
    for (path, guest) in options.read_only() {
        let opened = builder.preopened_dir(path, guest, FsPerms::ReadOnly);
        opened.map(drop).map_err(|source| InstanceError::Directory {
            path: path.to_owned(),
            source: Cause::new(source),
        })?;
    }
    Ok(builder.build_p1())
}

/// Returns the result of an instantiation, which never waits: the limiter answers at once, and the
/// module has no start function.
pub(super) fn at_once<T>(
    instantiation: impl Future<Output = wasmtime::Result<T>>,
) -> wasmtime::Result<T> {
    match pin!(instantiation).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(made) => made,
        Poll::Pending => Err(wasmtime::format_err!("an instantiation waited for something")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instantiation_that_waits_is_an_error() {
        assert_eq!(at_once(std::future::ready(Ok(7))).unwrap(), 7);
        assert!(
            at_once(std::future::ready(wasmtime::Result::<()>::Err(wasmtime::format_err!("no"))))
                .is_err()
        );
        let mut polls = 0;
        let waits = std::future::poll_fn(|context| {
            polls += 1;
            context.waker().wake_by_ref();
            Poll::<wasmtime::Result<()>>::Pending
        });
        let error = at_once(waits).unwrap_err();
        assert!(error.to_string().contains("waited"), "{error}");
        assert_eq!(polls, 1);
    }
}

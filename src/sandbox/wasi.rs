//! The system interface of a guest.
//!
//! The guest's files are a tree in memory ([`belljar_files::Files`]): no path that a guest names is
//! resolved on the host. Only mounts are directories of the host; wasmtime-wasi serves these
//! read-only, and the streams, the clocks and the arguments.

mod descriptors;
mod deterministic;
mod guest_memory;
mod host_files;
mod paths;
mod poll_random;

use belljar_files::{Errno, World};
use wasmtime::{Caller, Extern, Linker};
use wasmtime_wasi::p1::wasi_snapshot_preview1::WasiSnapshotPreview1;
use wiggle::GuestMemory;

pub(super) use self::deterministic::Shown;
use self::guest_memory::Answer;
pub(crate) use self::host_files::Descriptor;
pub(super) use self::host_files::Hosts;
use super::State;
use super::clock::{Resolution, SeededBytes, SteppingClock, today};
use crate::limits::MAX_COPIED;

const MODULE: &str = "wasi_snapshot_preview1";

// Error numbers of WASI preview 1.
const SUCCESS: i32 = 0;
const ACCES: i32 = 2;
const BADF: i32 = 8;
const FAULT: i32 = 21;
const ILSEQ: i32 = 25;
const INVAL: i32 = 28;
const IO: i32 = 29;
const MFILE: i32 = 33;
const NOTDIR: i32 = 54;
const OVERFLOW: i32 = 61;
const PERM: i32 = 63;
const XDEV: i32 = 75;

/// Adds all system functions that the module imports.
pub(super) fn add_to_linker(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    wasmtime_wasi::p1::add_to_linker_async(linker, |state| &mut state.wasi)?;
    linker.allow_shadowing(true);
    descriptors::add_to_linker(linker)?;
    paths::add_to_linker(linker)?;
    poll_random::add_to_linker(linker)?;
    linker.allow_shadowing(false);
    Ok(())
}

/// Returns the guest's memory and state, after yielding to other tasks if necessary.
async fn enter<'a>(
    caller: &'a mut Caller<'_, State>,
) -> wasmtime::Result<(&'a mut [u8], &'a mut State)> {
    let Some(Extern::Memory(memory)) = caller.get_export("memory") else {
        wasmtime::bail!("the guest has no memory");
    };
    let control = caller.data().control.clone();
    control.breathe().await;
    let (bytes, state) = memory.data_and_store_mut(caller);
    state.wasi.set_hostcall_fuel(MAX_COPIED);
    Ok((bytes, state))
}

/// Wraps the memory for wasmtime-wasi.
fn guest(memory: &mut [u8]) -> GuestMemory<'_> {
    GuestMemory::Unshared(memory)
}

/// Converts an answer to the result of a call.
#[expect(
    clippy::unnecessary_wraps,
    reason = "functions of the linker return it"
)]
fn returned(answer: Answer) -> wasmtime::Result<i32> {
    Ok(answer.err().unwrap_or(SUCCESS))
}

/// Returns the error number of a call on the guest's own files.
fn errno(error: Errno) -> i32 {
    i32::from(error.raw())
}

/// The guest's clock and random numbers, for its files.
pub(super) struct Outside<'a> {
    clock: Option<&'a SteppingClock>,
    resolution: Resolution,
    random: Option<&'a mut SeededBytes>,
}

impl World for Outside<'_> {
    fn now(&mut self) -> u64 {
        let now = match self.clock {
            Some(clock) => clock.peek(true),
            None => self.resolution.round(today()),
        };
        u64::try_from(now.as_nanos()).unwrap_or(u64::MAX)
    }

    fn random(&mut self, into: &mut [u8]) -> bool {
        fill(self.random.as_deref_mut(), into)
    }
}

/// Fills `target` with random bytes, derived from the seed if there is one. Returns false if the
/// system gives none.
fn fill(seeded: Option<&mut SeededBytes>, target: &mut [u8]) -> bool {
    match seeded {
        Some(seeded) => {
            seeded.fill(target);
            true
        }
        None => getrandom::fill(target).is_ok(),
    }
}

impl State {
    /// Returns the guest's own files, and the clock and random numbers that their calls need.
    fn own(&mut self) -> (&mut belljar_files::Files, Outside<'_>) {
        let outside = Outside {
            clock: self.clock.as_ref(),
            resolution: self.resolution,
            random: self.random.as_mut(),
        };
        (&mut self.files, outside)
    }
}

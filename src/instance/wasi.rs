//! The system interface of a guest: wasmtime-wasi's, with what it leaves to us added.
//!
//! wasmtime-wasi does the work and keeps the guest inside its directories. The functions below
//! stand before it where a limit has to be kept (bytes, files, descriptors, depth), where a
//! mounted directory has to be found, and where a guest sleeps.

mod bytes;
mod devices;
mod paths;
mod reads;
mod repeatable;
mod waiting;
mod writes;

use wasmtime::{Caller, Extern, Linker};
use wasmtime_wasi::p1::wasi_snapshot_preview1::{self as p1, WasiSnapshotPreview1};
use wiggle::GuestMemory;

pub(super) use self::devices::Device;
pub(super) use self::repeatable::Files;
use super::State;
use crate::limits::MAX_COPIED;

const MODULE: &str = "wasi_snapshot_preview1";

/// A directory's file type.
pub(super) const DIRECTORY: u8 = 3;

// Error numbers of WASI preview 1.
pub(super) const SUCCESS: i32 = 0;
const ACCES: i32 = 2;
const BADF: i32 = 8;
const EXIST: i32 = 20;
const FAULT: i32 = 21;
const INVAL: i32 = 28;
const IO: i32 = 29;
const MFILE: i32 = 33;
const NAMETOOLONG: i32 = 37;
const NOSPC: i32 = 51;
const NOTDIR: i32 = 54;
const OVERFLOW: i32 = 61;
const NOTCAPABLE: i32 = 76;

/// Adds everything that the module imports from its system.
pub(super) fn add_to_linker(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    wasmtime_wasi::p1::add_to_linker_async(linker, |state| &mut state.wasi)?;
    linker.allow_shadowing(true);
    writes::add_to_linker(linker)?;
    reads::add_to_linker(linker)?;
    paths::add_to_linker(linker)?;
    add_descriptors(linker)?;
    devices::add_to_linker(linker)?;
    waiting::add_to_linker(linker)?;
    repeatable::add_to_linker(linker)?;
    linker.allow_shadowing(false);
    Ok(())
}

/// The guest's memory and state, at once, after giving way to others if it is time to.
async fn enter<'a>(
    caller: &'a mut Caller<'_, State>,
) -> wasmtime::Result<(GuestMemory<'a>, &'a mut State)> {
    let Some(Extern::Memory(memory)) = caller.get_export("memory") else {
        wasmtime::bail!("the guest has no memory");
    };
    let control = caller.data().control.clone();
    control.breathe().await;
    let (bytes, state) = memory.data_and_store_mut(caller);
    state.wasi.set_hostcall_fuel(MAX_COPIED);
    Ok((GuestMemory::Unshared(bytes), state))
}

fn add_descriptors(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    linker.func_wrap_async(MODULE, "fd_close", |mut caller, (fd,): (i32,)| {
        Box::new(async move {
            let (mut memory, state) = enter(&mut caller).await?;
            let result = p1::fd_close(&mut state.wasi, &mut memory, fd).await?;
            if result == SUCCESS {
                state.quota.closed(fd);
                state.devices.remove(&fd);
            }
            Ok(result)
        })
    })?;
    linker.func_wrap_async(MODULE, "fd_renumber", |mut caller, (from, to): (i32, i32)| {
        Box::new(async move {
            let (mut memory, state) = enter(&mut caller).await?;
            let result = p1::fd_renumber(&mut state.wasi, &mut memory, from, to).await?;
            if result == SUCCESS && from != to {
                state.quota.renumbered(from, to);
                state.devices.remove(&to);
                if let Some(device) = state.devices.remove(&from) {
                    state.devices.insert(to, device);
                }
            }
            Ok(result)
        })
    })?;
    Ok(())
}

//! Reading and syncing: bounded in time, and of no consequence for the disk.

use wasmtime::Linker;
use wasmtime_wasi::p1::wasi_snapshot_preview1 as p1;

use super::{MODULE, SUCCESS, State, enter};

pub(super) fn add_to_linker(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    linker.func_wrap_async(
        MODULE,
        "fd_read",
        |mut caller, (fd, iovs, count, out): (i32, i32, i32, i32)| {
            Box::new(async move {
                let (mut memory, state) = enter(&mut caller).await?;
                if let Some(done) = state.read_device(&mut memory, (fd, iovs, count), out) {
                    return Ok(done);
                }
                p1::fd_read(&mut state.wasi, &mut memory, fd, iovs, count, out).await
            })
        },
    )?;
    linker.func_wrap_async(
        MODULE,
        "fd_pread",
        |mut caller, (fd, iovs, count, offset, out): (i32, i32, i32, i64, i32)| {
            Box::new(async move {
                let (mut memory, state) = enter(&mut caller).await?;
                if let Some(done) = state.read_device(&mut memory, (fd, iovs, count), out) {
                    return Ok(done);
                }
                p1::fd_pread(&mut state.wasi, &mut memory, fd, iovs, count, offset, out).await
            })
        },
    )?;
    // A workspace does not outlive the machine: waiting for its disk would only cost time.
    for name in ["fd_sync", "fd_datasync"] {
        linker.func_wrap(MODULE, name, |_: i32| SUCCESS)?;
    }
    linker.func_wrap(MODULE, "fd_advise", |_: i32, _: i64, _: i64, _: i32| SUCCESS)?;
    Ok(())
}

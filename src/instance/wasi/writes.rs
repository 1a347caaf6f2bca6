//! Writing: bytes are counted before they reach the disk.

use wasmtime::Linker;
use wasmtime_wasi::p1::wasi_snapshot_preview1 as p1;
use wiggle::GuestMemory;

use super::bytes::read_u32;
use super::{FAULT, IO, MODULE, NOSPC, SUCCESS, State, enter};

const FDFLAG_APPEND: u8 = 1;

pub(super) fn add_to_linker(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    linker.func_wrap_async(
        MODULE,
        "fd_write",
        |mut caller, (fd, iovs, count, out): (i32, i32, i32, i32)| {
            Box::new(async move {
                let (mut memory, state) = enter(&mut caller).await?;
                if let Some(done) = state.write_device(&mut memory, (fd, iovs, count), out) {
                    return Ok(done);
                }
                // A guest may have closed its output and opened a file under that number.
                let is_stream = state.quota.is_stream(fd);
                if !is_stream {
                    let Some(length) = first_length(&memory, iovs, count) else {
                        return Ok(FAULT);
                    };
                    let start = state.write_start(fd).await;
                    if let Some(refused) = state.allow_growth(fd, start, length).await {
                        return Ok(refused);
                    }
                }
                let wrote = p1::fd_write(&mut state.wasi, &mut memory, fd, iovs, count, out).await;
                if is_stream && let Some(watched) = state.watched() {
                    watched.await;
                }
                wrote
            })
        },
    )?;
    linker.func_wrap_async(
        MODULE,
        "fd_pwrite",
        |mut caller, (fd, iovs, count, offset, out): (i32, i32, i32, i64, i32)| {
            Box::new(async move {
                let (mut memory, state) = enter(&mut caller).await?;
                if let Some(done) = state.write_device(&mut memory, (fd, iovs, count), out) {
                    return Ok(done);
                }
                let Some(length) = first_length(&memory, iovs, count) else {
                    return Ok(FAULT);
                };
                if let Some(refused) = state.allow_growth(fd, offset.cast_unsigned(), length).await
                {
                    return Ok(refused);
                }
                p1::fd_pwrite(&mut state.wasi, &mut memory, fd, iovs, count, offset, out).await
            })
        },
    )?;
    linker.func_wrap_async(
        MODULE,
        "fd_filestat_set_size",
        |mut caller, (fd, size): (i32, i64)| {
            Box::new(async move {
                let (mut memory, state) = enter(&mut caller).await?;
                if let Some(refused) = state.refuse_device(fd) {
                    return Ok(refused);
                }
                if let Some(refused) = state.allow_growth(fd, size.cast_unsigned(), 0).await {
                    return Ok(refused);
                }
                p1::fd_filestat_set_size(&mut state.wasi, &mut memory, fd, size).await
            })
        },
    )?;
    linker.func_wrap_async(
        MODULE,
        "fd_allocate",
        |mut caller, (fd, offset, length): (i32, i64, i64)| {
            Box::new(async move {
                let (mut memory, state) = enter(&mut caller).await?;
                if let Some(refused) = state.refuse_device(fd) {
                    return Ok(refused);
                }
                let (start, more) = (offset.cast_unsigned(), length.cast_unsigned());
                if let Some(refused) = state.allow_growth(fd, start, more).await {
                    return Ok(refused);
                }
                p1::fd_allocate(&mut state.wasi, &mut memory, fd, offset, length)
            })
        },
    )?;
    Ok(())
}

impl State {
    /// Where the next write to a descriptor begins.
    async fn write_start(&mut self, fd: i32) -> u64 {
        let mut scratch = [0; 32];
        let mut memory = GuestMemory::Unshared(&mut scratch);
        if p1::fd_fdstat_get(&mut self.wasi, &mut memory, fd, 0).await.is_ok_and(|e| e == SUCCESS)
            && scratch[2] & FDFLAG_APPEND != 0
        {
            return self.file_size(fd).await.map_or(0, |(size, _)| size);
        }
        let mut memory = GuestMemory::Unshared(&mut scratch);
        match p1::fd_tell(&mut self.wasi, &mut memory, fd, 0) {
            Ok(SUCCESS) => u64::from_le_bytes(scratch[..8].try_into().unwrap_or_default()),
            _ => 0,
        }
    }

    /// Refuses a write of `length` bytes at `start` that would take the files over their bound.
    async fn allow_growth(&mut self, fd: i32, start: u64, length: u64) -> Option<i32> {
        let Some(end) = start.checked_add(length).filter(|e| *e <= self.quota.max_bytes()) else {
            return Some(NOSPC);
        };
        let size = self.file_size(fd).await.map_or(0, |(size, _)| size);
        let growth = end.saturating_sub(size);
        if growth == 0 {
            self.quota.touch();
            return None;
        }
        if self.quota.grow(growth) {
            return None;
        }
        let orphans = self.orphans().await;
        match self.quota.measure(orphans) {
            Ok(()) if self.quota.grow(growth) => None,
            Ok(()) => Some(NOSPC),
            Err(_) => Some(IO),
        }
    }

    /// Bytes of files that are open but have no name any more.
    async fn orphans(&mut self) -> u64 {
        let mut bytes: u64 = 0;
        for fd in self.quota.open_descriptors() {
            if let Some((size, 0)) = self.file_size(fd).await {
                bytes = bytes.saturating_add(size);
            }
        }
        bytes
    }

    /// Size and number of names of an open file.
    async fn file_size(&mut self, fd: i32) -> Option<(u64, u64)> {
        let mut scratch = [0; 64];
        let mut memory = GuestMemory::Unshared(&mut scratch);
        match p1::fd_filestat_get(&mut self.wasi, &mut memory, fd, 0).await {
            Ok(SUCCESS) => {
                let word = |at: usize| scratch[at..at + 8].try_into().map(u64::from_le_bytes).ok();
                Some((word(32)?, word(24)?))
            }
            _ => None,
        }
    }
}

/// The length of the first buffer that is not empty: what one call writes at most.
fn first_length(memory: &GuestMemory<'_>, iovs: i32, count: i32) -> Option<u64> {
    for index in 0..count.max(0) {
        let at = iovs.checked_add(index.checked_mul(8)?)?.checked_add(4)?;
        match read_u32(memory, at)? {
            0 => {}
            length => return Some(u64::from(length)),
        }
    }
    Some(0)
}

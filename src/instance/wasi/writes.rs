//! Writing: bytes are counted before they reach the disk.

use std::collections::HashSet;

use wasmtime::Linker;
use wasmtime_wasi::p1::wasi_snapshot_preview1 as p1;
use wiggle::GuestMemory;

use super::bytes::first_buffer;
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
                    let Some((_, length)) = first_buffer(&memory, iovs, count) else {
                        return Ok(FAULT);
                    };
                    let start = state.write_start(fd, None).await;
                    if let Some(refused) = state.allow_growth(fd, start, length.into()).await {
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
                let Some((_, length)) = first_buffer(&memory, iovs, count) else {
                    return Ok(FAULT);
                };
                let start = state.write_start(fd, Some(offset.cast_unsigned())).await;
                if let Some(refused) = state.allow_growth(fd, start, length.into()).await {
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
    /// Where a write to a descriptor begins that names an offset, or continues where the last ended.
    /// A file that was opened to append to is written at its end, whatever the offset.
    async fn write_start(&mut self, fd: i32, offset: Option<u64>) -> u64 {
        let mut scratch = [0; 32];
        let mut memory = GuestMemory::Unshared(&mut scratch);
        if p1::fd_fdstat_get(&mut self.wasi, &mut memory, fd, 0).await.is_ok_and(|e| e == SUCCESS)
            && scratch[2] & FDFLAG_APPEND != 0
        {
            return self.file_size(fd).await;
        }
        if let Some(offset) = offset {
            return offset;
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
        let size = self.file_size(fd).await;
        let growth = end.saturating_sub(size);
        if growth == 0 {
            self.quota.touch();
            return None;
        }
        if self.quota.grow(growth) {
            return None;
        }
        match self.measure_files().await {
            Ok(()) if self.quota.grow(growth) => None,
            Ok(()) => Some(NOSPC),
            Err(_) => Some(IO),
        }
    }

    /// Whether another file or directory may be made, if need be after measuring again.
    pub(super) async fn may_create(&mut self) -> std::io::Result<bool> {
        if self.quota.create() {
            return Ok(true);
        }
        self.measure_files().await?;
        Ok(self.quota.create())
    }

    /// Counts the bytes and files of the guest's directories again, with open files that have no
    /// name. It blocks, for as long as there are files.
    pub(in crate::instance) async fn measure_files(&mut self) -> std::io::Result<()> {
        // A file may be open under several numbers. Where files have no numbers, each counts.
        let (mut files, mut nameless) = (HashSet::new(), 0_u64);
        for fd in self.quota.open_descriptors() {
            if let Some(File {
                size,
                names: 0,
                number,
            }) = self.look_at_file(fd).await
                && (number == 0 || files.insert(number))
            {
                nameless = nameless.saturating_add(size);
            }
        }
        self.quota.measure(nameless)
    }

    async fn file_size(&mut self, fd: i32) -> u64 {
        self.look_at_file(fd).await.map_or(0, |file| file.size)
    }

    async fn look_at_file(&mut self, fd: i32) -> Option<File> {
        let mut scratch = [0; 64];
        let mut memory = GuestMemory::Unshared(&mut scratch);
        match p1::fd_filestat_get(&mut self.wasi, &mut memory, fd, 0).await {
            Ok(SUCCESS) => {
                let word = |at: usize| scratch[at..at + 8].try_into().map(u64::from_le_bytes).ok();
                Some(File {
                    number: word(8)?,
                    names: word(24)?,
                    size: word(32)?,
                })
            }
            _ => None,
        }
    }
}

/// An open file.
struct File {
    /// Its number in its file system.
    number: u64,
    /// How many names it has.
    names: u64,
    size: u64,
}

//! System calls on descriptors. A descriptor is either the guest's own file or directory, or
//! foreign: a stream or host file with a wasmtime-wasi descriptor.

use belljar_files::{Errno, FdFlags, Files, Kind, SetTimes, Whence};
use wasmtime::Linker;
use wasmtime_wasi::p1::wasi_snapshot_preview1 as p1;

use super::guest_memory::{Answer, Buffers, bytes_mut, write};
use super::{
    BADF, INVAL, MODULE, NOTDIR, Outside, PERM, SUCCESS, State, enter, errno, guest, returned,
};
use crate::limits::{MAX_DEVICE_READ, MAX_MOVED};

pub(super) fn add_to_linker(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    add_reading(linker)?;
    add_writing(linker)?;
    add_places(linker)?;
    add_status(linker)?;
    add_numbers(linker)
}

fn add_reading(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    linker.func_wrap_async(
        MODULE,
        "fd_read",
        |mut caller, (fd, iovs, count, out): (i32, i32, i32, i32)| {
            Box::new(async move {
                let (memory, state) = enter(&mut caller).await?;
                match state.foreign(fd) {
                    Some(host) => {
                        let memory = &mut guest(memory);
                        p1::fd_read(&mut state.wasi, memory, host, iovs, count, out).await
                    }
                    None => returned(state.read(memory, (fd, iovs, count), None, out)),
                }
            })
        },
    )?;
    linker.func_wrap_async(
        MODULE,
        "fd_pread",
        |mut caller, (fd, iovs, count, offset, out): (i32, i32, i32, i64, i32)| {
            Box::new(async move {
                let (memory, state) = enter(&mut caller).await?;
                if let Some(host) = state.foreign(fd) {
                    let memory = &mut guest(memory);
                    return p1::fd_pread(&mut state.wasi, memory, host, iovs, count, offset, out)
                        .await;
                }
                let at = Some(offset.cast_unsigned());
                returned(state.read(memory, (fd, iovs, count), at, out))
            })
        },
    )?;
    linker.func_wrap_async(
        MODULE,
        "fd_readdir",
        |mut caller, (fd, buffer, size, cookie, out): (i32, i32, i32, i64, i32)| {
            Box::new(async move {
                let (memory, state) = enter(&mut caller).await?;
                match state.foreign(fd) {
                    Some(host) => state.list_host(memory, host, (buffer, size), cookie, out).await,
                    None => returned(state.list(memory, fd, (buffer, size), cookie, out)),
                }
            })
        },
    )?;
    Ok(())
}

fn add_writing(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    linker.func_wrap_async(
        MODULE,
        "fd_write",
        |mut caller, (fd, iovs, count, out): (i32, i32, i32, i32)| {
            Box::new(async move {
                let (memory, state) = enter(&mut caller).await?;
                let Some(host) = state.foreign(fd) else {
                    return returned(state.write(memory, (fd, iovs, count), None, out));
                };
                let memory = &mut guest(memory);
                let wrote = p1::fd_write(&mut state.wasi, memory, host, iovs, count, out).await;
                if let Some(watched) = state.watched() {
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
                let (memory, state) = enter(&mut caller).await?;
                if let Some(host) = state.foreign(fd) {
                    let memory = &mut guest(memory);
                    return p1::fd_pwrite(&mut state.wasi, memory, host, iovs, count, offset, out)
                        .await;
                }
                let at = Some(offset.cast_unsigned());
                returned(state.write(memory, (fd, iovs, count), at, out))
            })
        },
    )?;
    linker.func_wrap_async(
        MODULE,
        "fd_filestat_set_size",
        |mut caller, (fd, size): (i32, i64)| {
            Box::new(async move {
                let (_, state) = enter(&mut caller).await?;
                returned(state.change(fd, |files, fd, outside| {
                    files.fd_filestat_set_size(fd, size.cast_unsigned(), outside)
                }))
            })
        },
    )?;
    linker.func_wrap_async(MODULE, "fd_allocate", |mut caller, (fd, _, _): (i32, i64, i64)| {
        Box::new(async move {
            let (_, state) = enter(&mut caller).await?;
            returned(state.change(fd, |files, fd, _| files.fd_allocate(fd)))
        })
    })?;
    linker.func_wrap_async(
        MODULE,
        "fd_filestat_set_times",
        |mut caller, (fd, accessed, modified, flags): (i32, i64, i64, i32)| {
            Box::new(async move {
                let (_, state) = enter(&mut caller).await?;
                returned(times(accessed, modified, flags).and_then(|times| {
                    state.change(fd, |files, fd, outside| {
                        files.fd_filestat_set_times(fd, times, outside)
                    })
                }))
            })
        },
    )?;
    // A guest's writes do not outlive the process, so waiting for a disk would be pointless.
    for name in ["fd_sync", "fd_datasync"] {
        linker.func_wrap(MODULE, name, |_: i32| SUCCESS)?;
    }
    linker.func_wrap(MODULE, "fd_advise", |_: i32, _: i64, _: i64, _: i32| SUCCESS)?;
    Ok(())
}

/// Converts the times that a guest sets.
pub(super) fn times(accessed: i64, modified: i64, flags: i32) -> Answer<SetTimes> {
    let flags = u16::try_from(flags).map_err(|_| INVAL)?;
    SetTimes::from_raw(accessed.cast_unsigned(), modified.cast_unsigned(), flags).map_err(errno)
}

fn add_places(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    linker.func_wrap_async(
        MODULE,
        "fd_seek",
        |mut caller, (fd, offset, whence, out): (i32, i64, i32, i32)| {
            Box::new(async move {
                let (memory, state) = enter(&mut caller).await?;
                if let Some(host) = state.foreign(fd) {
                    let memory = &mut guest(memory);
                    return p1::fd_seek(&mut state.wasi, memory, host, offset, whence, out).await;
                }
                let mut seek = |state: &mut State| {
                    let whence = u8::try_from(whence).map_err(|_| INVAL)?;
                    let whence = Whence::from_raw(whence).map_err(errno)?;
                    let at = state.files.fd_seek(fd.cast_unsigned(), offset, whence);
                    write(memory, out, &at.map_err(errno)?.to_le_bytes())
                };
                returned(seek(state))
            })
        },
    )?;
    linker.func_wrap_async(MODULE, "fd_tell", |mut caller, (fd, out): (i32, i32)| {
        Box::new(async move {
            let (memory, state) = enter(&mut caller).await?;
            if let Some(host) = state.foreign(fd) {
                return p1::fd_tell(&mut state.wasi, &mut guest(memory), host, out);
            }
            let at = state.files.fd_tell(fd.cast_unsigned()).map_err(errno);
            returned(at.and_then(|at| write(memory, out, &at.to_le_bytes())))
        })
    })?;
    Ok(())
}

fn add_status(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    linker.func_wrap_async(MODULE, "fd_fdstat_get", |mut caller, (fd, out): (i32, i32)| {
        Box::new(async move {
            let (memory, state) = enter(&mut caller).await?;
            if let Some(host) = state.foreign(fd) {
                return p1::fd_fdstat_get(&mut state.wasi, &mut guest(memory), host, out).await;
            }
            let status = state.files.fd_fdstat_get(fd.cast_unsigned()).map_err(errno);
            returned(status.and_then(|status| write(memory, out, &status.to_bytes())))
        })
    })?;
    linker.func_wrap_async(
        MODULE,
        "fd_fdstat_set_flags",
        |mut caller, (fd, flags): (i32, i32)| {
            Box::new(async move {
                let (memory, state) = enter(&mut caller).await?;
                if let Some(host) = state.foreign(fd) {
                    return p1::fd_fdstat_set_flags(
                        &mut state.wasi,
                        &mut guest(memory),
                        host,
                        flags,
                    );
                }
                let flags = FdFlags(u16::try_from(flags).unwrap_or(u16::MAX));
                let set = state.files.fd_fdstat_set_flags(fd.cast_unsigned(), flags);
                returned(set.map_err(errno))
            })
        },
    )?;
    linker.func_wrap_async(MODULE, "fd_filestat_get", |mut caller, (fd, out): (i32, i32)| {
        Box::new(async move {
            let (memory, state) = enter(&mut caller).await?;
            if let Some(host) = state.foreign(fd) {
                let memory = &mut guest(memory);
                let result = p1::fd_filestat_get(&mut state.wasi, memory, host, out).await?;
                return Ok(state.show(memory, out, result));
            }
            let status = state.files.fd_filestat_get(fd.cast_unsigned()).map_err(errno);
            returned(status.and_then(|status| write(memory, out, &status.to_bytes())))
        })
    })?;
    Ok(())
}

fn add_numbers(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    linker.func_wrap_async(MODULE, "fd_close", |mut caller, (fd,): (i32,)| {
        Box::new(async move {
            let (_, state) = enter(&mut caller).await?;
            match state.files.fd_close(fd.cast_unsigned()) {
                Ok(None) => Ok(SUCCESS),
                Ok(Some(host)) => state.close_host(host).await,
                Err(error) => Ok(errno(error)),
            }
        })
    })?;
    linker.func_wrap_async(MODULE, "fd_renumber", |mut caller, (from, to): (i32, i32)| {
        Box::new(async move {
            let (_, state) = enter(&mut caller).await?;
            match state.files.fd_renumber(from.cast_unsigned(), to.cast_unsigned()) {
                Ok(None) => Ok(SUCCESS),
                Ok(Some(host)) => state.close_host(host).await,
                Err(error) => Ok(errno(error)),
            }
        })
    })?;
    // The C library asks for them once, before an image is built.
    linker.func_wrap_async(MODULE, "fd_prestat_get", |mut caller, (fd, out): (i32, i32)| {
        Box::new(async move {
            let (memory, state) = enter(&mut caller).await?;
            let name = state.files.preopen(fd.cast_unsigned()).ok_or(BADF);
            returned(name.and_then(|name| {
                let length = name.len() as u64;
                write(memory, out, &(length << 32).to_le_bytes())
            }))
        })
    })?;
    linker.func_wrap_async(
        MODULE,
        "fd_prestat_dir_name",
        |mut caller, (fd, to, length): (i32, i32, i32)| {
            Box::new(async move {
                let (memory, state) = enter(&mut caller).await?;
                let name = state.files.preopen(fd.cast_unsigned()).ok_or(NOTDIR);
                let fits = |name: &&str| name.len() <= length.cast_unsigned() as usize;
                returned(name.and_then(|name| {
                    let name = Some(name).filter(fits).ok_or(INVAL)?;
                    write(memory, to, name.as_bytes())
                }))
            })
        },
    )?;
    Ok(())
}

impl State {
    /// Returns the wasmtime-wasi descriptor of the guest's `fd`, if it is foreign.
    pub(super) fn foreign(&self, fd: i32) -> Option<i32> {
        let tag = self.files.foreign(fd.cast_unsigned())?;
        i32::try_from(tag).ok()
    }

    /// Applies a change to the guest's own file; foreign files cannot be changed.
    fn change(
        &mut self,
        fd: i32,
        change: impl FnOnce(&mut Files, u32, &mut Outside<'_>) -> Result<(), Errno>,
    ) -> Answer {
        if self.foreign(fd).is_some() {
            return Err(PERM);
        }
        let (files, mut outside) = self.own();
        change(files, fd.cast_unsigned(), &mut outside).map_err(errno)
    }

    /// Returns how many bytes one call moves: no other task runs on the thread meanwhile.
    fn most(&self, fd: i32) -> u32 {
        let status = self.files.fd_fdstat_get(fd.cast_unsigned());
        match status {
            Ok(status) if status.kind == Kind::CharacterDevice => MAX_DEVICE_READ,
            _ => MAX_MOVED,
        }
    }

    fn read(
        &mut self,
        memory: &mut [u8],
        buffers: (i32, i32, i32),
        at: Option<u64>,
        out: i32,
    ) -> Answer {
        self.transfer(memory, buffers, at, out, |files, fd, into, at, outside| match at {
            None => files.fd_read(fd, into, outside),
            Some(at) => files.fd_pread(fd, into, at, outside),
        })
    }

    fn write(
        &mut self,
        memory: &mut [u8],
        buffers: (i32, i32, i32),
        at: Option<u64>,
        out: i32,
    ) -> Answer {
        self.transfer(memory, buffers, at, out, |files, fd, data, at, outside| match at {
            None => files.fd_write(fd, data, outside),
            Some(at) => files.fd_pwrite(fd, data, at, outside),
        })
    }

    /// Moves bytes between a file and the guest's buffers, at offset `at` or at the descriptor's
    /// position.
    fn transfer(
        &mut self,
        memory: &mut [u8],
        (fd, iovs, count): (i32, i32, i32),
        at: Option<u64>,
        out: i32,
        one: impl Fn(&mut Files, u32, &mut [u8], Option<u64>, &mut Outside<'_>) -> Result<usize, Errno>,
    ) -> Answer {
        let buffers = Buffers::of(iovs, count, self.most(fd))?;
        let (files, mut outside) = self.own();
        let moved = buffers.each(memory, |bytes, before| {
            let at = at.map(|at| at.checked_add(before).ok_or(INVAL)).transpose()?;
            one(files, fd.cast_unsigned(), bytes, at, &mut outside).map_err(errno)
        })?;
        write(memory, out, &moved.to_le_bytes())
    }

    fn list(
        &mut self,
        memory: &mut [u8],
        fd: i32,
        (buffer, size): (i32, i32),
        cookie: i64,
        out: i32,
    ) -> Answer {
        let into = bytes_mut(memory, buffer, size.cast_unsigned())?;
        let used = self.files.fd_readdir(fd.cast_unsigned(), into, cookie.cast_unsigned());
        let used = used.map_err(errno)? as u32;
        write(memory, out, &used.to_le_bytes())
    }
}

//! System calls on paths. A path leads to the guest's own files, or into a read-only mount of a
//! host directory.

use belljar_files::{Errno, FdFlags, Files, OFlags, OpenOptions};
use wasmtime::Linker;
use wasmtime_wasi::p1::wasi_snapshot_preview1 as p1;

use super::descriptors::times;
use super::guest_memory::{Answer, bytes, read, read_u32, text, write};
use super::host_files::{RESULT, RESULT_END, scratch};
use super::{
    ACCES, INVAL, MODULE, Outside, PERM, SUCCESS, State, XDEV, enter, errno, guest, returned,
};
use crate::sandbox::preopens::{ROOT_FD, WORKSPACE_FD};

const FOLLOW: i32 = 1;
/// Flags of `path_open` that change files.
const OFLAGS_CHANGE: i32 = 1 | 4 | 8;
const RIGHT_WRITE: i64 = 1 << 6;

// File types, as `path_filestat_get` reports them.
const DIRECTORY: u8 = 3;
const REGULAR: u8 = 4;
const SYMLINK: u8 = 7;

/// A path in the guest's memory, and the descriptor that it is relative to.
type Named = (i32, i32, i32);

/// Target of a path.
enum Place<'m> {
    /// The guest's own files: a descriptor and the path relative to it.
    Own(u32, &'m str),
    /// A directory of the host: its wasmtime-wasi descriptor, and the path relative to it, which is
    /// empty for the directory itself.
    Host(i32, String),
}

pub(super) fn add_to_linker(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    linker.func_wrap_async(
        MODULE,
        "path_open",
        |mut caller,
         (fd, look, path, length, oflags, rights, _, flags, out): (
            i32,
            i32,
            i32,
            i32,
            i32,
            i64,
            i64,
            i32,
            i32,
        )| {
            Box::new(async move {
                let (memory, state) = enter(&mut caller).await?;
                let opened = match state.find(memory, (fd, path, length), look & FOLLOW != 0) {
                    Err(error) => return Ok(error),
                    Ok(Place::Host(dir, path)) => {
                        let how = (look, oflags, rights, flags);
                        match state.open_host((dir, &path), how).await? {
                            Ok(number) => number,
                            Err(error) => return Ok(error),
                        }
                    }
                    Ok(Place::Own(fd, path)) => {
                        let (Ok(oflags), Ok(flags)) = (u16::try_from(oflags), u16::try_from(flags))
                        else {
                            return Ok(INVAL);
                        };
                        let options = OpenOptions {
                            follow: look & FOLLOW != 0,
                            oflags: OFlags(oflags),
                            rights: rights.cast_unsigned(),
                            flags: FdFlags(flags),
                        };
                        let (files, mut outside) = state.own();
                        let opened = files.path_open(fd, path, options, &mut outside);
                        match opened {
                            Ok(number) => number,
                            Err(error) => return Ok(errno(error)),
                        }
                    }
                };
                returned(write(memory, out, &opened.to_le_bytes()))
            })
        },
    )?;
    add_lookups(linker)?;
    add_changes(linker)
}

/// The functions that read a path.
fn add_lookups(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    linker.func_wrap_async(
        MODULE,
        "path_filestat_get",
        |mut caller, (fd, look, path, length, out): (i32, i32, i32, i32, i32)| {
            Box::new(async move {
                let (memory, state) = enter(&mut caller).await?;
                match state.find(memory, (fd, path, length), look & FOLLOW != 0) {
                    Err(error) => Ok(error),
                    Ok(Place::Host(dir, path)) => {
                        let status = state.host_status((dir, &path), look).await?;
                        returned(status.and_then(|status| write(memory, out, &status)))
                    }
                    Ok(Place::Own(fd, path)) => {
                        let status = state.files.path_filestat_get(fd, look & FOLLOW != 0, path);
                        let status = status.map_err(errno).map(|status| status.to_bytes());
                        returned(status.and_then(|status| write(memory, out, &status)))
                    }
                }
            })
        },
    )?;
    linker.func_wrap_async(
        MODULE,
        "path_readlink",
        |mut caller, (fd, path, length, to, to_length, out): (i32, i32, i32, i32, i32, i32)| {
            Box::new(async move {
                let (memory, state) = enter(&mut caller).await?;
                let answer = |memory: &mut [u8], target: &[u8]| {
                    let target = &target[..target.len().min(to_length.cast_unsigned() as usize)];
                    write(memory, to, target)?;
                    write(memory, out, &(target.len() as u32).to_le_bytes())
                };
                match state.find(memory, (fd, path, length), false) {
                    Err(error) => Ok(error),
                    Ok(Place::Host(dir, path)) => {
                        let target = state.host_link((dir, &path)).await?;
                        returned(target.and_then(|target| answer(memory, &target)))
                    }
                    Ok(Place::Own(fd, path)) => {
                        let target = state.files.path_readlink(fd, path).map_err(errno);
                        returned(target.and_then(|target| answer(memory, target.as_bytes())))
                    }
                }
            })
        },
    )?;
    Ok(())
}

/// The functions that change a path. None of them affects the host.
fn add_changes(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    linker.func_wrap_async(
        MODULE,
        "path_create_directory",
        |mut caller, (fd, path, length): (i32, i32, i32)| {
            Box::new(async move {
                let (memory, state) = enter(&mut caller).await?;
                returned(state.change_at(memory, (fd, path, length), |files, fd, path, outside| {
                    files.path_create_directory(fd, path, outside)
                }))
            })
        },
    )?;
    linker.func_wrap_async(
        MODULE,
        "path_remove_directory",
        |mut caller, (fd, path, length): (i32, i32, i32)| {
            Box::new(async move {
                let (memory, state) = enter(&mut caller).await?;
                returned(state.change_at(memory, (fd, path, length), |files, fd, path, outside| {
                    files.path_remove_directory(fd, path, outside)
                }))
            })
        },
    )?;
    linker.func_wrap_async(
        MODULE,
        "path_unlink_file",
        |mut caller, (fd, path, length): (i32, i32, i32)| {
            Box::new(async move {
                let (memory, state) = enter(&mut caller).await?;
                returned(state.change_at(memory, (fd, path, length), |files, fd, path, outside| {
                    files.path_unlink_file(fd, path, outside)
                }))
            })
        },
    )?;
    linker.func_wrap_async(
        MODULE,
        "path_symlink",
        |mut caller, (old, old_length, fd, path, length): (i32, i32, i32, i32, i32)| {
            Box::new(async move {
                let (memory, state) = enter(&mut caller).await?;
                returned(text(memory, old, old_length).and_then(|target| {
                    let named = (fd, path, length);
                    state.change_at(memory, named, |files, fd, path, outside| {
                        files.path_symlink(target, fd, path, outside)
                    })
                }))
            })
        },
    )?;
    linker.func_wrap_async(
        MODULE,
        "path_filestat_set_times",
        |mut caller,
         (fd, look, path, length, accessed, modified, flags): (
            i32,
            i32,
            i32,
            i32,
            i64,
            i64,
            i32,
        )| {
            Box::new(async move {
                let (memory, state) = enter(&mut caller).await?;
                returned(times(accessed, modified, flags).and_then(|times| {
                    let named = (fd, path, length);
                    state.change_at(memory, named, |files, fd, path, outside| {
                        files.path_filestat_set_times(fd, look & FOLLOW != 0, path, times, outside)
                    })
                }))
            })
        },
    )?;
    linker.func_wrap_async(
        MODULE,
        "path_link",
        |mut caller,
         (fd, look, path, length, to_fd, to_path, to_length): (
            i32,
            i32,
            i32,
            i32,
            i32,
            i32,
            i32,
        )| {
            Box::new(async move {
                let (memory, state) = enter(&mut caller).await?;
                let (from, to) = ((fd, path, length), (to_fd, to_path, to_length));
                returned(state.change_both(memory, from, to, |files, from, to, outside| {
                    files.path_link((from.0, look & FOLLOW != 0, from.1), to, outside)
                }))
            })
        },
    )?;
    linker.func_wrap_async(
        MODULE,
        "path_rename",
        |mut caller,
         (fd, path, length, to_fd, to_path, to_length): (i32, i32, i32, i32, i32, i32)| {
            Box::new(async move {
                let (memory, state) = enter(&mut caller).await?;
                let (from, to) = ((fd, path, length), (to_fd, to_path, to_length));
                returned(state.change_both(memory, from, to, |files, from, to, outside| {
                    files.path_rename(from, to, outside)
                }))
            })
        },
    )?;
    Ok(())
}

impl State {
    /// Resolves a path, or returns an error number.
    fn find<'m>(
        &self,
        memory: &'m [u8],
        (fd, path, length): Named,
        follow: bool,
    ) -> Answer<Place<'m>> {
        let mut path = text(memory, path, length)?;
        if let Some(host) = self.foreign(fd) {
            return Ok(Place::Host(host, path.to_owned()));
        }
        let mut fd = fd;
        if fd == ROOT_FD
            && let Some(rest) = self.aliases.iter().find_map(|alias| below(path, &alias[1..]))
        {
            (fd, path) = (WORKSPACE_FD, if rest.is_empty() { "." } else { rest });
        }
        let fd = fd.cast_unsigned();
        match self.files.portal(fd, follow, path) {
            Some((number, rest)) => {
                let (number, rest) = self.hosts.deepest(number, rest);
                Ok(Place::Host(i32::try_from(number).map_err(|_| INVAL)?, rest))
            }
            None => Ok(Place::Own(fd, path)),
        }
    }

    /// Applies a change to a path, unless it is in a mount.
    fn change_at(
        &mut self,
        memory: &[u8],
        named: Named,
        change: impl FnOnce(&mut Files, u32, &str, &mut Outside<'_>) -> Result<(), Errno>,
    ) -> Answer {
        match self.find(memory, named, false)? {
            Place::Host(..) => Err(PERM),
            Place::Own(fd, path) => {
                let (files, mut outside) = self.own();
                change(files, fd, path, &mut outside).map_err(errno)
            }
        }
    }

    /// Applies a change to two paths, neither of which may be in a mount.
    fn change_both(
        &mut self,
        memory: &[u8],
        from: Named,
        to: Named,
        change: impl FnOnce(&mut Files, (u32, &str), (u32, &str), &mut Outside<'_>) -> Result<(), Errno>,
    ) -> Answer {
        match (self.find(memory, from, false)?, self.find(memory, to, false)?) {
            (Place::Own(fd, path), Place::Own(to_fd, to_path)) => {
                let (files, mut outside) = self.own();
                change(files, (fd, path), (to_fd, to_path), &mut outside).map_err(errno)
            }
            (Place::Host(..), Place::Host(..)) => Err(PERM),
            _ => Err(XDEV),
        }
    }

    /// Opens a host file for reading.
    async fn open_host(
        &mut self,
        (dir, path): (i32, &str),
        how: (i32, i32, i64, i32),
    ) -> wasmtime::Result<Answer<u32>> {
        let (look, oflags, rights, _) = how;
        if oflags & OFLAGS_CHANGE != 0 || rights & RIGHT_WRITE != 0 {
            return Ok(Err(PERM));
        }
        // Opening a named pipe or a device of the host could block the host.
        if let Ok(status) = self.raw_status((dir, path), look).await?
            && !matches!(status[16], DIRECTORY | REGULAR | SYMLINK)
        {
            return Ok(Err(ACCES));
        }
        let number = match self.wasi_open(dir, path, how).await? {
            Ok(number) => number,
            Err(error) => return Ok(Err(error)),
        };
        match self.opened_host(number, (dir, path), rights) {
            Ok(number) => Ok(Ok(number)),
            Err(error) => {
                let memory = &mut guest(&mut []);
                p1::fd_close(&mut self.wasi, memory, number.cast_signed()).await?;
                Ok(Err(error))
            }
        }
    }

    /// Returns the status of a host file, as shown to the guest.
    async fn host_status(
        &mut self,
        at: (i32, &str),
        look: i32,
    ) -> wasmtime::Result<Answer<[u8; RESULT]>> {
        let mut status = match self.raw_status(at, look).await? {
            Ok(status) => status,
            Err(error) => return Ok(Err(error)),
        };
        let shown = self.show(&mut guest(&mut status), 0, SUCCESS);
        Ok(if shown == SUCCESS {
            Ok(status)
        } else {
            Err(shown)
        })
    }

    async fn raw_status(
        &mut self,
        (dir, path): (i32, &str),
        look: i32,
    ) -> wasmtime::Result<Answer<[u8; RESULT]>> {
        let Some((mut scratch, length)) = scratch(path) else {
            return Ok(Err(INVAL));
        };
        let (wasi, memory) = (&mut self.wasi, &mut guest(&mut scratch));
        let result = p1::path_filestat_get(wasi, memory, dir, look, RESULT_END, length, 0).await?;
        Ok(if result == SUCCESS {
            read(&scratch, 0)
        } else {
            Err(result)
        })
    }

    /// Returns the target of a link on the host.
    async fn host_link(&mut self, (dir, path): (i32, &str)) -> wasmtime::Result<Answer<Vec<u8>>> {
        const ROOM: usize = 4096;
        let Some((mut scratch, length)) = scratch(path) else {
            return Ok(Err(INVAL));
        };
        let to = scratch.len();
        scratch.resize(to + ROOM, 0);
        let (wasi, memory) = (&mut self.wasi, &mut guest(&mut scratch));
        let (at, room, out) = (RESULT_END, i32::try_from(ROOM)?, i32::try_from(to)?);
        let result = p1::path_readlink(wasi, memory, dir, at, length, out, room, 0).await?;
        if result != SUCCESS {
            return Ok(Err(result));
        }
        let found = read_u32(&scratch, 0).and_then(|length| bytes(&scratch, out, length));
        Ok(found.map(<[u8]>::to_vec))
    }
}

/// Returns the part of `path` after `dir`.
fn below<'p>(path: &'p str, dir: &str) -> Option<&'p str> {
    let rest = path.strip_prefix(dir)?;
    (rest.is_empty() || rest.starts_with('/')).then(|| rest.trim_start_matches('/'))
}

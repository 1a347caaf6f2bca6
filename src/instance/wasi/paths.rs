//! Names: directories that are mounted are found, new names are counted, depth is bounded.

use std::borrow::Cow;

use wasmtime::Linker;
use wasmtime_wasi::p1::wasi_snapshot_preview1 as p1;
use wiggle::GuestMemory;

use super::bytes::{offset, read_bytes, read_text, read_u32, write_bytes};
use super::repeatable::NewTimes;
use super::{
    ACCES, DIRECTORY, FAULT, INVAL, MFILE, MODULE, NAMETOOLONG, NOSPC, NOTCAPABLE, SUCCESS, State,
    enter,
};
use crate::instance::quota::Depth;
use crate::instance::roots::{self, ROOT_FD};

// Flags of `path_open`.
const OFLAG_CREATE: i32 = 1;
const OFLAG_TRUNCATE: i32 = 8;
const RIGHT_WRITE: i64 = 1 << 6;

// File types, as `path_filestat_get` reports them.
const REGULAR: u8 = 4;
const SYMLINK: u8 = 7;

/// Adds the functions on paths.
pub(super) fn add_to_linker(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    linker.func_wrap_async(
        MODULE,
        "path_open",
        |mut caller,
         (fd, look, path, length, oflags, rights, inherit, flags, out): (
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
                let (mut memory, state) = enter(&mut caller).await?;
                let at = match state.resolve(&memory, fd, path, length) {
                    Ok(at) => at,
                    Err(errno) => return Ok(errno),
                };
                // What is opened is counted, so its number has to be read again.
                if read_u32(&memory, out).is_none() {
                    return Ok(FAULT);
                }
                if oflags & OFLAG_CREATE != 0 && !at.depth.is_allowed() {
                    return Ok(NAMETOOLONG);
                }
                if !state.quota.may_open() {
                    return Ok(MFILE);
                }
                let wanted = (oflags, rights);
                let named = (at.fd, at.path, at.length);
                if let Some(done) = state.open_device(&mut memory, named, wanted, out).await? {
                    return Ok(done);
                }
                let writes =
                    oflags & (OFLAG_CREATE | OFLAG_TRUNCATE) != 0 || rights & RIGHT_WRITE != 0;
                if writes {
                    state.quota.touch();
                }
                if at.is_mounted && !state.is_plain(&memory, &at, look).await {
                    return Ok(ACCES);
                }
                // With no file left, a file that exists can still be opened.
                let full = oflags & OFLAG_CREATE != 0 && !state.may_create().await?;
                let oflags = if full { oflags & !OFLAG_CREATE } else { oflags };
                let name = read_text(&memory, path, length).unwrap_or_default();
                let name = state.guest_path(fd, &name);
                let dotted = at.enter(&mut memory);
                let result = p1::path_open(
                    &mut state.wasi,
                    &mut memory,
                    at.fd,
                    look,
                    at.path,
                    at.length,
                    oflags,
                    rights,
                    inherit,
                    flags,
                    out,
                )
                .await?;
                at.leave(&mut memory, dotted);
                if result == SUCCESS {
                    let Some(fd) = read_u32(&memory, out) else {
                        return Ok(FAULT);
                    };
                    let depth = state.opened_depth(at.depth, &name);
                    state.quota.opened(fd.cast_signed(), depth, name);
                    if oflags & OFLAG_CREATE != 0 {
                        state.names_changed(result);
                    }
                    if writes {
                        state.written(fd.cast_signed()).await?;
                    }
                } else if full {
                    return Ok(NOSPC);
                }
                Ok(result)
            })
        },
    )?;
    linker.func_wrap_async(
        MODULE,
        "path_create_directory",
        |mut caller, (fd, path, length): (i32, i32, i32)| {
            Box::new(async move {
                let (mut memory, state) = enter(&mut caller).await?;
                let at = match state.resolve(&memory, fd, path, length) {
                    Ok(at) => at,
                    Err(errno) => return Ok(errno),
                };
                if !at.depth.is_allowed() {
                    return Ok(NAMETOOLONG);
                }
                if !state.may_create().await? {
                    return Ok(NOSPC);
                }
                let result = p1::path_create_directory(
                    &mut state.wasi,
                    &mut memory,
                    at.fd,
                    at.path,
                    at.length,
                )
                .await?;
                state.names_changed(result);
                Ok(result)
            })
        },
    )?;
    linker.func_wrap_async(
        MODULE,
        "path_symlink",
        |mut caller, (old, old_length, fd, path, length): (i32, i32, i32, i32, i32)| {
            Box::new(async move {
                let (mut memory, state) = enter(&mut caller).await?;
                let at = match state.resolve(&memory, fd, path, length) {
                    Ok(at) => at,
                    Err(errno) => return Ok(errno),
                };
                if !state.may_create().await? {
                    return Ok(NOSPC);
                }
                state.quota.linked();
                let result = p1::path_symlink(
                    &mut state.wasi,
                    &mut memory,
                    old,
                    old_length,
                    at.fd,
                    at.path,
                    at.length,
                )
                .await?;
                state.names_changed(result);
                Ok(result)
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
                let (mut memory, state) = enter(&mut caller).await?;
                let from = match state.resolve(&memory, fd, path, length) {
                    Ok(from) => from,
                    Err(errno) => return Ok(errno),
                };
                let to = match state.resolve(&memory, to_fd, to_path, to_length) {
                    Ok(to) => to,
                    Err(errno) => return Ok(errno),
                };
                if !state.may_create().await? {
                    return Ok(NOSPC);
                }
                let result = p1::path_link(
                    &mut state.wasi,
                    &mut memory,
                    from.fd,
                    look,
                    from.path,
                    from.length,
                    to.fd,
                    to.path,
                    to.length,
                )
                .await?;
                if let Some(files) = state.files.as_mut().filter(|_| result == SUCCESS) {
                    files.linked();
                }
                state.names_changed(result);
                Ok(result)
            })
        },
    )?;
    linker.func_wrap_async(
        MODULE,
        "path_rename",
        |mut caller,
         (fd, path, length, to_fd, to_path, to_length): (i32, i32, i32, i32, i32, i32)| {
            Box::new(async move {
                let (mut memory, state) = enter(&mut caller).await?;
                let from = match state.resolve(&memory, fd, path, length) {
                    Ok(from) => from,
                    Err(errno) => return Ok(errno),
                };
                let to = match state.resolve(&memory, to_fd, to_path, to_length) {
                    Ok(to) => to,
                    Err(errno) => return Ok(errno),
                };
                state.quota.touch();
                // A tree that moves down takes its descriptors along. Only names below a preopened
                // directory may, for which it can be told how far down the tree reaches.
                let down = to.depth - from.depth;
                let moves_down = down.parts > 0 || !from.depth.is_allowed();
                if moves_down {
                    if !(state.quota.is_preopen(fd) && state.quota.is_preopen(to_fd)) {
                        return Ok(NOTCAPABLE);
                    }
                    let height = state.height(&memory, &from).unwrap_or(Depth::UNKNOWN);
                    if !(to.depth + height).is_allowed() {
                        return Ok(NAMETOOLONG);
                    }
                }
                let moves_down = moves_down && state.is_directory(&memory, &from);
                let replaced = name(&memory, to.path, to.length);
                let replaced = state.last_name(replaced, to.fd).await?;
                let result = p1::path_rename(
                    &mut state.wasi,
                    &mut memory,
                    from.fd,
                    from.path,
                    from.length,
                    to.fd,
                    to.path,
                    to.length,
                )
                .await?;
                if moves_down && result == SUCCESS {
                    state.quota.moved_down(down);
                }
                state.lost(replaced, result);
                state.names_changed(result);
                Ok(result)
            })
        },
    )?;
    add_times(linker)?;
    add_lookups(linker)
}

/// The functions on paths that only have to find mounted directories.
fn add_lookups(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    linker.func_wrap_async(
        MODULE,
        "path_filestat_get",
        |mut caller, (fd, look, path, length, out): (i32, i32, i32, i32, i32)| {
            Box::new(async move {
                let (mut memory, state) = enter(&mut caller).await?;
                let at = match state.resolve(&memory, fd, path, length) {
                    Ok(at) => at,
                    Err(errno) => return Ok(errno),
                };
                let named = (at.fd, at.path, at.length);
                if let Some(done) = state.device_status(&mut memory, named, out) {
                    return Ok(done);
                }
                let dotted = at.enter(&mut memory);
                let result = p1::path_filestat_get(
                    &mut state.wasi,
                    &mut memory,
                    at.fd,
                    look,
                    at.path,
                    at.length,
                    out,
                )
                .await?;
                at.leave(&mut memory, dotted);
                Ok(state.show(&mut memory, out, result))
            })
        },
    )?;
    linker.func_wrap_async(
        MODULE,
        "path_readlink",
        |mut caller, (fd, path, length, to, to_length, out): (i32, i32, i32, i32, i32, i32)| {
            Box::new(async move {
                let (mut memory, state) = enter(&mut caller).await?;
                let at = match state.resolve(&memory, fd, path, length) {
                    Ok(at) => at,
                    Err(errno) => return Ok(errno),
                };
                p1::path_readlink(
                    &mut state.wasi,
                    &mut memory,
                    at.fd,
                    at.path,
                    at.length,
                    to,
                    to_length,
                    out,
                )
                .await
            })
        },
    )?;
    linker.func_wrap_async(
        MODULE,
        "path_unlink_file",
        |mut caller, (fd, path, length): (i32, i32, i32)| {
            Box::new(async move {
                let (mut memory, state) = enter(&mut caller).await?;
                state.quota.touch();
                let (fd, path, length) = state.own(&memory, fd, path, length);
                let removed = state.last_name(name(&memory, path, length), fd).await?;
                let result =
                    p1::path_unlink_file(&mut state.wasi, &mut memory, fd, path, length).await?;
                state.lost(removed, result);
                state.names_changed(result);
                Ok(result)
            })
        },
    )?;
    linker.func_wrap_async(
        MODULE,
        "path_remove_directory",
        |mut caller, (fd, path, length): (i32, i32, i32)| {
            Box::new(async move {
                let (mut memory, state) = enter(&mut caller).await?;
                state.quota.touch();
                let length = without_slashes(&memory, path, length);
                let (fd, path, length) = state.own(&memory, fd, path, length);
                let removed = state.last_name(name(&memory, path, length), fd).await?;
                let result =
                    p1::path_remove_directory(&mut state.wasi, &mut memory, fd, path, length)
                        .await?;
                state.lost(removed, result);
                state.names_changed(result);
                Ok(result)
            })
        },
    )?;
    Ok(())
}

/// The length of a directory's path without the slashes at its end, which POSIX allows there.
fn without_slashes(memory: &GuestMemory<'_>, path: i32, length: i32) -> i32 {
    let text = read_text(memory, path, length).unwrap_or_default();
    let slashes = text.len() - text.trim_end_matches('/').len();
    // A path of nothing else stays what it is.
    if slashes == text.len() {
        length
    } else {
        length.saturating_sub_unsigned(slashes as u32)
    }
}

/// A path in the guest's memory, for the host to use while the guest's is elsewhere.
fn name(memory: &GuestMemory<'_>, path: i32, length: i32) -> Option<Vec<u8>> {
    read_text(memory, path, length).map(|text| text.into_owned().into_bytes())
}

/// Times that are set show that somebody was there.
fn add_times(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    linker.func_wrap_async(
        MODULE,
        "fd_filestat_set_times",
        |mut caller, (fd, accessed, modified, flags): (i32, i64, i64, i32)| {
            Box::new(async move {
                let (mut memory, state) = enter(&mut caller).await?;
                state.quota.touch();
                let result = p1::fd_filestat_set_times(
                    &mut state.wasi,
                    &mut memory,
                    fd,
                    accessed,
                    modified,
                    flags,
                )
                .await?;
                let times = NewTimes {
                    accessed,
                    modified,
                    flags,
                };
                if result == SUCCESS {
                    state.keep_times(fd, 0, None, times).await?;
                }
                Ok(result)
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
                let (mut memory, state) = enter(&mut caller).await?;
                state.quota.touch();
                let (fd, path, length) = state.own(&memory, fd, path, length);
                let result = p1::path_filestat_set_times(
                    &mut state.wasi,
                    &mut memory,
                    fd,
                    look,
                    path,
                    length,
                    accessed,
                    modified,
                    flags,
                )
                .await?;
                let times = NewTimes {
                    accessed,
                    modified,
                    flags,
                };
                if result == SUCCESS {
                    let name = name(&memory, path, length);
                    state.keep_times(fd, look, name, times).await?;
                }
                Ok(result)
            })
        },
    )?;
    Ok(())
}

/// A path after mounted directories were found: which descriptor, and which part of the string.
struct Resolved {
    fd: i32,
    path: i32,
    length: i32,
    depth: Depth,
    /// The path leads into a directory of the host.
    is_mounted: bool,
    /// The path names a mounted directory itself, whose name below its own descriptor is a dot.
    is_mount: bool,
}

impl Resolved {
    /// Writes a dot where the name of a mounted directory stands, and returns what was there.
    fn enter(&self, memory: &mut GuestMemory<'_>) -> Option<[u8; 1]> {
        let saved = read_bytes(memory, self.path).filter(|_| self.is_mount)?;
        write_bytes(memory, self.path, b".")?;
        Some(saved)
    }

    /// Puts the name back.
    fn leave(&self, memory: &mut GuestMemory<'_>, saved: Option<[u8; 1]>) {
        if let Some(saved) = saved {
            write_bytes(memory, self.path, &saved);
        }
    }
}

/// Whether Windows takes a part of a path for something else than its name: the colon for the beginning of a
/// stream beside a file's content, which no list shows, and the backslash for a slash.
fn is_read_otherwise(path: &str) -> bool {
    path.contains([':', '\\'])
}

impl State {
    /// Finds the mounted directory that a path below the guest's root leads into, or says why there is none.
    fn resolve(
        &self,
        memory: &GuestMemory<'_>,
        fd: i32,
        path: i32,
        length: i32,
    ) -> Result<Resolved, i32> {
        let text = read_text(memory, path, length).ok_or(FAULT)?;
        if cfg!(windows) && is_read_otherwise(&text) {
            return Err(INVAL);
        }
        let mut resolved = Resolved {
            fd,
            path,
            length,
            depth: self.depth(fd, &text),
            is_mounted: false,
            is_mount: false,
        };
        let mounts = if fd == ROOT_FD {
            self.mounts.as_slice()
        } else {
            &[]
        };
        let found = mounts.iter().find_map(|mount| Some((mount, mount.inside(&text)?)));
        if let Some((mount, inner)) = found {
            resolved.fd = mount.fd;
            resolved.is_mounted = mount.is_mounted();
            if !resolved.is_mounted {
                resolved.depth = self.depth(mount.fd, inner);
            }
            if inner.is_empty() {
                resolved.is_mount = true;
                resolved.length = 1;
            } else {
                let skipped = u32::try_from(text.len() - inner.len()).map_err(|_| FAULT)?;
                resolved.path = offset(path, skipped).ok_or(FAULT)?;
                resolved.length = length.wrapping_sub_unsigned(skipped);
            }
        }
        Ok(resolved)
    }

    /// The path of something in the workspace from there, by whichever of its paths it is named; any
    /// other as it is.
    fn own(&self, memory: &GuestMemory<'_>, fd: i32, path: i32, length: i32) -> (i32, i32, i32) {
        match self.resolve(memory, fd, path, length) {
            Ok(at) if !at.is_mounted && !at.is_mount => (at.fd, at.path, at.length),
            _ => (fd, path, length),
        }
    }

    /// Whether a path leads to a file or a directory, or nowhere: opening a named pipe or a device
    /// of the host could block it.
    async fn is_plain(&mut self, memory: &GuestMemory<'_>, at: &Resolved, look: i32) -> bool {
        const ROOM: i32 = 64;
        let path = if at.is_mount {
            Some(Cow::Borrowed("."))
        } else {
            read_text(memory, at.path, at.length)
        };
        let Some(path) = path else {
            return true;
        };
        let mut scratch = vec![0; ROOM as usize];
        scratch.extend_from_slice(path.as_bytes());
        let length = i32::try_from(path.len()).unwrap_or(i32::MAX);
        let mut bytes = GuestMemory::Unshared(&mut scratch);
        let look =
            p1::path_filestat_get(&mut self.wasi, &mut bytes, at.fd, look, ROOM, length, 0).await;
        !matches!(look, Ok(SUCCESS)) || matches!(scratch[16], DIRECTORY | REGULAR | SYMLINK)
    }

    /// How deep a name below a descriptor lies, wherever links lead on the way to it.
    fn depth(&self, fd: i32, text: &str) -> Depth {
        let told = self.quota.depth(fd) + Depth::of(text);
        let inner = text.trim_end_matches('/');
        if !self.quota.has_links() || !inner.contains('/') {
            return told;
        }
        let path = self.guest_path(fd, inner);
        let (parent, last) = path.rsplit_once('/').unwrap_or_default();
        match self.real_depth(parent) {
            Some(parent) => (parent + Depth::of(last)).max(told),
            // Then there is nothing; or a directory was moved after it had been opened.
            None if self.quota.is_preopen(fd) => told,
            None => Depth::UNKNOWN,
        }
    }

    /// How deep something lies that was opened by an absolute path, which looked as deep as `told`.
    pub(in crate::instance) fn opened_depth(&self, told: Depth, path: &str) -> Depth {
        if !self.quota.has_links() {
            return told;
        }
        self.real_depth(path).map_or(told, |real| real.max(told))
    }

    /// How deep something lies in a directory that can be written, by its absolute path.
    fn real_depth(&self, path: &str) -> Option<Depth> {
        let (root, inner) = roots::split(path, &self.mounts);
        match self.quota.root(root) {
            Some(tree) => Some(Depth::of(&tree.real(inner)?)),
            // Nothing is made there.
            None => Some(Depth::default()),
        }
    }

    fn is_directory(&self, memory: &GuestMemory<'_>, at: &Resolved) -> bool {
        let path = read_text(memory, at.path, at.length);
        path.zip(self.quota.root(at.fd)).is_some_and(|(path, tree)| tree.is_directory(&path))
    }

    /// How far down the tree at a path below a preopened directory reaches.
    fn height(&self, memory: &GuestMemory<'_>, at: &Resolved) -> Option<Depth> {
        let path = read_text(memory, at.path, at.length)?;
        let (parts, bytes) = self.quota.root(at.fd)?.height(&path)?;
        Some(Depth { parts, bytes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_windows_reads_otherwise_is_no_name() {
        for path in ["a:b", "dir/a:$DATA", "c:", "..\\a", "a\\"] {
            assert!(is_read_otherwise(path), "{path}");
        }
        assert!(!is_read_otherwise("dir/a b.txt") && !is_read_otherwise("../ä"));
    }
}

//! The few devices that programs expect everywhere: `/dev/null`, `/dev/zero`, `/dev/urandom`.
//!
//! None of them is a file of the host. The guest's number stands for an open directory, its empty
//! root, which keeps it from being given away again; whatever is done with the number is done here.

use wasmtime::Linker;
use wasmtime_wasi::p1::wasi_snapshot_preview1 as p1;
use wiggle::GuestMemory;

use super::bytes::{first_buffer, read_text, read_u32, write_bytes};
use super::{BADF, EXIST, FAULT, INVAL, IO, MFILE, MODULE, NOTDIR, SUCCESS, State, enter};
use crate::instance::quota::Depth;
use crate::instance::roots::ROOT_FD;
use crate::limits::MAX_DEVICE_READ;

const CHARACTER_DEVICE: u8 = 2;
const DIRECTORY_FLAG: i32 = 2;
const CREATE_NEW: i32 = 1 | 4;

const RIGHT_READ: i64 = 1 << 1;
const RIGHT_WRITE: i64 = 1 << 6;
/// Seeking, telling, flags and status: without the first two it would be a terminal.
const OTHER_RIGHTS: i64 = (1 << 2) | (1 << 3) | (1 << 5) | (1 << 21);

/// A device by what is read from it. All of them swallow what is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Null,
    Zero,
    Random,
}

/// An open device.
#[derive(Clone, Copy, Debug)]
pub(in crate::instance) struct Device {
    kind: Kind,
    reads: bool,
    writes: bool,
}

impl Kind {
    /// The device with that path below the guest's root.
    fn at(path: &str) -> Option<Self> {
        let mut parts = path.split('/').filter(|part| !matches!(*part, "" | "."));
        let (dir, name) = (parts.next()?, parts.next()?);
        match (dir, name, parts.next(), path.ends_with('/')) {
            ("dev", "null", None, false) => Some(Self::Null),
            ("dev", "zero", None, false) => Some(Self::Zero),
            ("dev", "urandom" | "random", None, false) => Some(Self::Random),
            _ => None,
        }
    }

    fn path(self) -> &'static str {
        match self {
            Self::Null => "/dev/null",
            Self::Zero => "/dev/zero",
            Self::Random => "/dev/urandom",
        }
    }

    /// Its status as WASI lays it out: the type, one name, no size and no times.
    fn status(self) -> [u8; 64] {
        let mut status = [0; 64];
        status[8] = self as u8 + 1;
        status[16] = CHARACTER_DEVICE;
        status[24] = 1;
        status
    }
}

impl Device {
    /// The absolute path of the device.
    pub(in crate::instance) fn path(self) -> &'static str {
        self.kind.path()
    }

    /// The rights that the guest has on it.
    pub(in crate::instance) fn rights(self) -> u64 {
        let read = if self.reads { RIGHT_READ } else { 0 };
        let write = if self.writes { RIGHT_WRITE } else { 0 };
        (read | write).cast_unsigned()
    }

    /// The device with that absolute path, opened with these rights.
    pub(in crate::instance) fn opened(path: &str, rights: u64) -> Option<Self> {
        Some(Self {
            kind: Kind::at(path)?,
            reads: rights.cast_signed() & RIGHT_READ != 0,
            writes: rights.cast_signed() & RIGHT_WRITE != 0,
        })
    }

    fn flags(self) -> [u8; 24] {
        let rights = self.rights() | OTHER_RIGHTS.cast_unsigned();
        let mut flags = [0; 24];
        flags[0] = CHARACTER_DEVICE;
        flags[8..16].copy_from_slice(&rights.to_le_bytes());
        flags
    }
}

impl State {
    /// Opens the device that a path below the guest's root leads to; `None` where it is no device.
    pub(super) async fn open_device(
        &mut self,
        memory: &mut GuestMemory<'_>,
        (fd, path, length): (i32, i32, i32),
        (oflags, rights): (i32, i64),
        out: i32,
    ) -> wasmtime::Result<Option<i32>> {
        if fd != ROOT_FD {
            return Ok(None);
        }
        let text = read_text(memory, path, length).unwrap_or_default();
        let Some(device) = Device::opened(&text, rights.cast_unsigned()) else {
            return Ok(None);
        };
        if oflags & DIRECTORY_FLAG != 0 {
            return Ok(Some(NOTDIR));
        }
        if oflags & CREATE_NEW == CREATE_NEW {
            return Ok(Some(EXIST));
        }
        if !self.quota.may_open() {
            return Ok(Some(MFILE));
        }
        let mut scratch = *b"....\0\0\0\0";
        let mut held = GuestMemory::Unshared(&mut scratch);
        let wasi = &mut self.wasi;
        let result =
            p1::path_open(wasi, &mut held, ROOT_FD, 0, 0, 1, DIRECTORY_FLAG, 0, 0, 0, 4).await?;
        if result != SUCCESS {
            return Ok(Some(result));
        }
        let number = read_u32(&held, 4).unwrap_or_default();
        self.quota.opened(number.cast_signed(), Depth::default(), device.path().to_owned());
        self.devices.insert(number.cast_signed(), device);
        let told = write_bytes(memory, out, &number.to_le_bytes());
        Ok(Some(told.map_or(FAULT, |()| SUCCESS)))
    }

    /// Tells the status of the device at a path, if there is one.
    pub(super) fn device_status(
        &self,
        memory: &mut GuestMemory<'_>,
        (fd, path, length): (i32, i32, i32),
        out: i32,
    ) -> Option<i32> {
        let text = read_text(memory, path, length).filter(|_| fd == ROOT_FD)?;
        let status = Kind::at(&text)?.status();
        Some(write_bytes(memory, out, &status).map_or(FAULT, |()| SUCCESS))
    }

    /// Reads from a descriptor, if it is a device.
    pub(super) fn read_device(
        &mut self,
        memory: &mut GuestMemory<'_>,
        (fd, iovs, count): (i32, i32, i32),
        out: i32,
    ) -> Option<i32> {
        let device = self.devices.get(&fd).copied()?;
        if !device.reads {
            return Some(BADF);
        }
        let Some((at, length)) = first_buffer(memory, iovs, count) else {
            return Some(FAULT);
        };
        let length = length.min(MAX_DEVICE_READ);
        let read = match device.kind {
            Kind::Null => 0,
            Kind::Zero => {
                if write_bytes(memory, at, &vec![0; length as usize]).is_none() {
                    return Some(FAULT);
                }
                length
            }
            Kind::Random => {
                let mut bytes = vec![0; length as usize];
                if !self.fill_at_random(&mut bytes) {
                    return Some(IO);
                }
                if write_bytes(memory, at, &bytes).is_none() {
                    return Some(FAULT);
                }
                length
            }
        };
        let told = write_bytes(memory, out, &read.to_le_bytes());
        Some(told.map_or(FAULT, |()| SUCCESS))
    }

    /// Swallows what is written to a descriptor, if it is a device.
    pub(super) fn write_device(
        &self,
        memory: &mut GuestMemory<'_>,
        (fd, iovs, count): (i32, i32, i32),
        out: i32,
    ) -> Option<i32> {
        let device = self.devices.get(&fd)?;
        if !device.writes {
            return Some(BADF);
        }
        let written = first_buffer(memory, iovs, count).map(|(_, length)| length);
        let told = written.and_then(|length| write_bytes(memory, out, &length.to_le_bytes()));
        Some(told.map_or(FAULT, |()| SUCCESS))
    }

    /// What a device answers where a file would have its size or its place changed.
    pub(super) fn refuse_device(&self, fd: i32) -> Option<i32> {
        self.devices.contains_key(&fd).then_some(INVAL)
    }
}

/// Adds the functions on descriptors in which nothing but a device is special.
pub(super) fn add_to_linker(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    linker.func_wrap_async(MODULE, "fd_fdstat_get", |mut caller, (fd, out): (i32, i32)| {
        Box::new(async move {
            let (mut memory, state) = enter(&mut caller).await?;
            if let Some(device) = state.devices.get(&fd) {
                let told = write_bytes(&mut memory, out, &device.flags());
                return Ok(told.map_or(FAULT, |()| SUCCESS));
            }
            p1::fd_fdstat_get(&mut state.wasi, &mut memory, fd, out).await
        })
    })?;
    linker.func_wrap_async(
        MODULE,
        "fd_fdstat_set_flags",
        |mut caller, (fd, flags): (i32, i32)| {
            Box::new(async move {
                let (mut memory, state) = enter(&mut caller).await?;
                if state.devices.contains_key(&fd) {
                    return Ok(SUCCESS);
                }
                p1::fd_fdstat_set_flags(&mut state.wasi, &mut memory, fd, flags)
            })
        },
    )?;
    linker.func_wrap_async(
        MODULE,
        "fd_seek",
        |mut caller, (fd, offset, whence, out): (i32, i64, i32, i32)| {
            Box::new(async move {
                let (mut memory, state) = enter(&mut caller).await?;
                if state.devices.contains_key(&fd) {
                    return Ok(start(&mut memory, out));
                }
                p1::fd_seek(&mut state.wasi, &mut memory, fd, offset, whence, out).await
            })
        },
    )?;
    linker.func_wrap_async(MODULE, "fd_tell", |mut caller, (fd, out): (i32, i32)| {
        Box::new(async move {
            let (mut memory, state) = enter(&mut caller).await?;
            if state.devices.contains_key(&fd) {
                return Ok(start(&mut memory, out));
            }
            p1::fd_tell(&mut state.wasi, &mut memory, fd, out)
        })
    })?;
    Ok(())
}

/// A device is always at its start.
fn start(memory: &mut GuestMemory<'_>, out: i32) -> i32 {
    write_bytes(memory, out, &0u64.to_le_bytes()).map_or(FAULT, |()| SUCCESS)
}

impl State {
    /// The status of a descriptor, if it is a device.
    pub(super) fn open_device_status(
        &self,
        memory: &mut GuestMemory<'_>,
        fd: i32,
        out: i32,
    ) -> Option<i32> {
        let status = self.devices.get(&fd)?.kind.status();
        Some(write_bytes(memory, out, &status).map_or(FAULT, |()| SUCCESS))
    }
}

#[cfg(test)]
mod tests {
    use super::Kind;

    #[test]
    fn paths() {
        assert_eq!(Kind::at("dev/null"), Some(Kind::Null));
        assert_eq!(Kind::at("/dev//./zero"), Some(Kind::Zero));
        assert_eq!(Kind::at("dev/random"), Some(Kind::Random));
        for other in ["", "dev", "dev/", "null", "dev/null/", "dev/null/x", "x/dev/null", "dev/tty"]
        {
            assert_eq!(Kind::at(other), None, "{other}");
        }
        for kind in [Kind::Null, Kind::Zero, Kind::Random] {
            assert_eq!(Kind::at(kind.path()), Some(kind));
        }
    }
}

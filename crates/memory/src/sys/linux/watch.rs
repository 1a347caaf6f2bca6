//! Lets Linux record which pages of a mapping are written (`userfaultfd`, asynchronous write
//! protection: Linux 6.7 and later). A write calls no handler; the record is in the page table,
//! where [`super::pagemap::written_pages`] reads it.
#![expect(unsafe_code, reason = "userfaultfd has no safe wrapper")]

use std::ops::Range;
use std::os::fd::OwnedFd;

use rustix::ioctl;
use rustix::mm::{UserfaultfdFlags, userfaultfd};

use super::process::PerProcess;

const API_VERSION: u64 = 0xaa;
const WP_UNPOPULATED: u64 = 1 << 13;
const WP_ASYNC: u64 = 1 << 15;
const REGISTER_WRITE_PROTECTION: u64 = 1 << 1;
const PROTECT: u64 = 1 << 0;

/// Argument that opens the interface, as in `linux/userfaultfd.h`.
#[repr(C)]
struct Api {
    version: u64,
    features: u64,
    ioctls: u64,
}

/// Argument that registers a range.
#[repr(C)]
struct Register {
    start: u64,
    length: u64,
    mode: u64,
    ioctls: u64,
}

/// Argument that protects a range.
#[repr(C)]
struct WriteProtect {
    start: u64,
    length: u64,
    mode: u64,
}

/// Watches `range`, page-aligned memory of this process, until it is unmapped. Watching it again
/// has no effect. Returns whether it succeeded.
pub(crate) fn watch(range: Range<usize>) -> bool {
    let Some(watcher) = watcher() else {
        return false;
    };
    let mut argument = Register {
        start: range.start as u64,
        length: range.len() as u64,
        mode: REGISTER_WRITE_PROTECTION,
        ioctls: 0,
    };
    // SAFETY: the opcode matches the argument's layout. Asynchronous protection changes neither the
    // contents of memory nor the access to it.
    unsafe { ioctl::ioctl(watcher, ioctl::Updater::<REGISTER, _>::new(&mut argument)) }.is_ok()
}

/// Write-protects all of `range`, which must be watched, including absent pages. Returns whether it
/// succeeded.
pub(crate) fn protect(range: Range<usize>) -> bool {
    write_protect(range, PROTECT)
}

/// Removes the write protection of `range`, which must be watched. Returns whether it succeeded.
pub(super) fn unprotect(range: Range<usize>) -> bool {
    write_protect(range, 0)
}

fn write_protect(range: Range<usize>, mode: u64) -> bool {
    let Some(watcher) = watcher() else {
        return false;
    };
    let mut argument = WriteProtect {
        start: range.start as u64,
        length: range.len() as u64,
        mode,
    };
    // SAFETY: the opcode matches the argument's layout. Asynchronous protection changes neither the
    // contents of memory nor the access to it.
    unsafe { ioctl::ioctl(watcher, ioctl::Updater::<WRITE_PROTECT, _>::new(&mut argument)) }.is_ok()
}

const API: ioctl::Opcode = ioctl::opcode::read_write::<Api>(0xaa, 0x3f);
const REGISTER: ioctl::Opcode = ioctl::opcode::read_write::<Register>(0xaa, 0x00);
const WRITE_PROTECT: ioctl::Opcode = ioctl::opcode::read_write::<WriteProtect>(0xaa, 0x06);

/// Returns this process's watcher; `None` if the kernel lacks it or denies access. An inherited
/// watcher would watch the parent's memory.
fn watcher() -> Option<&'static OwnedFd> {
    static WATCHER: PerProcess<Option<OwnedFd>> = PerProcess::new();
    WATCHER.get_or_init(open).as_ref()
}

fn open() -> Option<OwnedFd> {
    /// Restricts the watcher to faults of user code, which unprivileged processes may request.
    const USER_MODE_ONLY: UserfaultfdFlags = UserfaultfdFlags::from_bits_retain(1);
    // SAFETY: the descriptor stays in this module, which only watches this process's own memory.
    let watcher = unsafe { userfaultfd(UserfaultfdFlags::CLOEXEC | USER_MODE_ONLY) }.ok()?;
    let mut argument = Api {
        version: API_VERSION,
        features: WP_ASYNC | WP_UNPOPULATED,
        ioctls: 0,
    };
    // SAFETY: the opcode matches the argument's layout.
    unsafe { ioctl::ioctl(&watcher, ioctl::Updater::<API, _>::new(&mut argument)) }.ok()?;
    Some(watcher)
}

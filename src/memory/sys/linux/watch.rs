//! Has Linux note which pages of a mapping are written (`userfaultfd`, asynchronous write
//! protection: Linux 6.7 and later). Nobody is called on a write; the note is in the page table,
//! where [`super::pagemap::written_pages`] finds it.
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

/// The argument with which the interface is opened, as `linux/userfaultfd.h` lays it out.
#[repr(C)]
struct Api {
    version: u64,
    features: u64,
    ioctls: u64,
}

/// The argument that registers a range.
#[repr(C)]
struct Register {
    start: u64,
    length: u64,
    mode: u64,
    ioctls: u64,
}

/// The argument that protects a range.
#[repr(C)]
struct WriteProtect {
    start: u64,
    length: u64,
    mode: u64,
}

/// Watches `range`, page-aligned memory of this process, until it is unmapped. To watch it again
/// changes nothing. Returns whether it could be done.
pub(in crate::memory) fn watch(range: Range<usize>) -> bool {
    let Some(watcher) = watcher() else {
        return false;
    };
    let mut argument = Register {
        start: range.start as u64,
        length: range.len() as u64,
        mode: REGISTER_WRITE_PROTECTION,
        ioctls: 0,
    };
    // SAFETY: the opcode goes with the argument's layout. Asynchronous protection changes neither
    // what is in memory nor who may access it.
    unsafe { ioctl::ioctl(watcher, ioctl::Updater::<REGISTER, _>::new(&mut argument)) }.is_ok()
}

/// Protects all of `range`, which is watched, also where there is nothing yet. Returns whether it
/// could be done.
pub(in crate::memory) fn protect(range: Range<usize>) -> bool {
    write_protect(range, PROTECT)
}

/// Protects nothing of `range` any more, which is watched. Returns whether it could be done.
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
    // SAFETY: the opcode goes with the argument's layout. Asynchronous protection changes neither
    // what is in memory nor who may access it.
    unsafe { ioctl::ioctl(watcher, ioctl::Updater::<WRITE_PROTECT, _>::new(&mut argument)) }.is_ok()
}

const API: ioctl::Opcode = ioctl::opcode::read_write::<Api>(0xaa, 0x3f);
const REGISTER: ioctl::Opcode = ioctl::opcode::read_write::<Register>(0xaa, 0x00);
const WRITE_PROTECT: ioctl::Opcode = ioctl::opcode::read_write::<WriteProtect>(0xaa, 0x06);

/// This process's watcher; `None` where the kernel has none or does not let us. One that was
/// inherited watches the parent's memory.
fn watcher() -> Option<&'static OwnedFd> {
    static WATCHER: PerProcess<Option<OwnedFd>> = PerProcess::new();
    WATCHER.get_or_init(open).as_ref()
}

fn open() -> Option<OwnedFd> {
    /// Only faults of user code: what an unprivileged process may ask for.
    const USER_MODE_ONLY: UserfaultfdFlags = UserfaultfdFlags::from_bits_retain(1);
    // SAFETY: the descriptor stays in this module, which only watches this process's own memory.
    let watcher = unsafe { userfaultfd(UserfaultfdFlags::CLOEXEC | USER_MODE_ONLY) }.ok()?;
    let mut argument = Api {
        version: API_VERSION,
        features: WP_ASYNC | WP_UNPOPULATED,
        ioctls: 0,
    };
    // SAFETY: the opcode goes with the argument's layout.
    unsafe { ioctl::ioctl(&watcher, ioctl::Updater::<API, _>::new(&mut argument)) }.ok()?;
    Some(watcher)
}

//! Capabilities: root's rights, one by one.
#![expect(unsafe_code, reason = "capabilities have no wrapper in `libc`")]

use super::threads;
use crate::plan::Lockdown;
use crate::status::LockdownError;

// `CAP_DAC_OVERRIDE`, `CAP_DAC_READ_SEARCH` and `CAP_KILL`.
const ANY_FILE: u64 = 1 << 1 | 1 << 2;
const ANY_SIGNAL: u64 = 1 << 5;

/// `_LINUX_CAPABILITY_VERSION_3`: sets of 64 bits, in two halves.
const VERSION: u32 = 0x2008_0522;
/// Effective, permitted and inheritable; of the low half and of the high one.
type Sets = [u32; 6];

/// Gives up all capabilities of all threads, except those with which root uses files that were
/// named and belong to others. Landlock holds these to the named files.
pub(super) fn give_up(plan: &Lockdown) -> Result<(), LockdownError> {
    let kept = if plan.ends_children {
        ANY_FILE | ANY_SIGNAL
    } else {
        ANY_FILE
    };
    // Usual processes have none, and their threads need not be stopped.
    match sets() {
        Ok(sets) if sets == masked(sets, kept) => Ok(()),
        _ => threads::drop_capabilities(kept),
    }
}

/// Leaves the calling thread these capabilities at most, and returns an `errno` or 0. It runs in a
/// signal handler.
pub(super) fn keep(kept: u64) -> i32 {
    let sets = match sets() {
        Ok(sets) => masked(sets, kept),
        Err(errno) => return errno,
    };
    let header = [VERSION, 0];
    // SAFETY: the kernel reads a header and, in this version, six words.
    if unsafe { libc::syscall(libc::SYS_capset, header.as_ptr(), sets.as_ptr()) } == 0 {
        0
    } else {
        threads::errno()
    }
}

/// The capabilities of the calling thread, or an `errno`.
fn sets() -> Result<Sets, i32> {
    let (mut header, mut sets) = ([VERSION, 0], Sets::default());
    // SAFETY: the kernel reads and writes a header and, in this version, writes six words.
    let done = unsafe { libc::syscall(libc::SYS_capget, header.as_mut_ptr(), sets.as_mut_ptr()) };
    if done == 0 {
        Ok(sets)
    } else {
        Err(threads::errno())
    }
}

fn masked(sets: Sets, kept: u64) -> Sets {
    let halves = [kept as u32, (kept >> 32) as u32];
    std::array::from_fn(|at| sets[at] & halves[at / 3])
}

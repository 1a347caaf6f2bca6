//! Settings of the process: no new privileges, no core file, no tracing by the same user.
#![expect(unsafe_code, reason = "`prctl` has no safe wrapper")]

use std::io;

use crate::status::LockdownError;

/// Gives both up. The filter denies the calls that would undo it. The first setting belongs to the
/// calling thread; the others set it before they restrict themselves.
pub(super) fn give_up() -> Result<(), LockdownError> {
    set("no_new_privs", libc::PR_SET_NO_NEW_PRIVS, 1)?;
    set("not being dumpable", libc::PR_SET_DUMPABLE, 0)
}

fn set(what: &'static str, option: i32, value: libc::c_ulong) -> Result<(), LockdownError> {
    let zero: libc::c_ulong = 0;
    // SAFETY: these options take numbers only.
    if unsafe { libc::prctl(option, value, zero, zero, zero) } == 0 {
        return Ok(());
    }
    Err(LockdownError::Setting {
        what,
        source: io::Error::last_os_error(),
    })
}

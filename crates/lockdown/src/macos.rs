//! macOS: its sandbox, known as Seatbelt.
#![expect(unsafe_code, reason = "the system's C functions have no safe wrapper")]

use std::ffi::{CStr, CString, c_char, c_int};
use std::io;
use std::ptr;

use crate::plan::Lockdown;
use crate::seatbelt;
use crate::status::{LockdownError, Status, Support};

const NAME: &str = "Seatbelt, which was compiled and never tried";

// Of `sandbox.h`, which is in the system's library. Apple calls both deprecated and names no other
// way for programs that are not bundles. Without flags, the first argument is a profile's text.
unsafe extern "C" {
    fn sandbox_init(profile: *const c_char, flags: u64, error: *mut *mut c_char) -> c_int;
    fn sandbox_free_error(error: *mut c_char);
}

pub(crate) fn support() -> Support {
    Support {
        landlock: None,
        seccomp: false,
        other: Some(NAME),
    }
}

pub(crate) fn apply(plan: &Lockdown) -> Status {
    let mut failures = Vec::new();
    let profile = seatbelt::profile(plan, listens(), &mut failures);
    let other = match hold(profile) {
        Ok(()) => Some(NAME),
        Err(error) => {
            failures.push(LockdownError::Setting {
                what: "the sandbox of macOS",
                source: error,
            });
            None
        }
    };
    Status {
        landlock: None,
        seccomp: false,
        other,
        failures,
    }
}

/// Puts all threads into the sandbox. A second call fails.
fn hold(profile: String) -> io::Result<()> {
    let profile = CString::new(profile)?;
    let mut error = ptr::null_mut();
    // SAFETY: the profile is a C string that outlives the call, and `error` a place for a pointer.
    if unsafe { sandbox_init(profile.as_ptr(), 0, &raw mut error) } == 0 {
        return Ok(());
    }
    if error.is_null() {
        return Err(io::Error::other("it is refused without a cause"));
    }
    // SAFETY: after a failure it is null, which was checked, or a C string of the library's.
    let cause = unsafe { CStr::from_ptr(error) }.to_string_lossy().into_owned();
    // SAFETY: the library made it, and nothing refers to it any more.
    unsafe { sandbox_free_error(error) };
    Err(io::Error::other(cause))
}

/// Whether a socket of this process takes connections.
fn listens() -> bool {
    let open = std::fs::read_dir("/dev/fd").into_iter().flatten().flatten();
    open.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).any(is_listening)
}

fn is_listening(fd: c_int) -> bool {
    let mut value: c_int = 0;
    let mut length: libc::socklen_t = size_of::<c_int>() as libc::socklen_t;
    // SAFETY: the value has as many bytes as its length says; any number may be passed:
    // the call fails for descriptors that are no sockets.
    let asked = unsafe {
        let value = (&raw mut value).cast();
        libc::getsockopt(fd, libc::SOL_SOCKET, libc::SO_ACCEPTCONN, value, &raw mut length)
    };
    asked == 0 && value != 0
}

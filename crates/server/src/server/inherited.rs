//! Descriptors of the parent process, such as the socket passed by a service manager
//! (`LISTEN_FDS`).

#![expect(
    unsafe_code,
    reason = "takes ownership of a descriptor known only by its number"
)]

use std::io;
use std::os::fd::{BorrowedFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::io::{FdFlags, fcntl_getfd, fcntl_setfd};
use tokio::net::{TcpListener, UnixListener};

use crate::http::listen::Listener;

/// Number of the first passed descriptor.
const FIRST: i32 = 3;

/// Sets close-on-exec for all descriptors except the standard streams: a passed socket, and any
/// others that this process was started with.
///
/// # Errors
///
/// Fails if the descriptors cannot be listed.
pub(super) fn close_on_exec() -> io::Result<()> {
    for number in open()? {
        // SAFETY: the descriptor is borrowed for one call that only sets a flag of it. The
        // descriptor that listed the directory is closed; its number is now free, which the call
        // reports, or belongs to another descriptor, for which the flag is right as well.
        let descriptor = unsafe { BorrowedFd::borrow_raw(number) };
        let _ = fcntl_setfd(descriptor, FdFlags::CLOEXEC);
    }
    Ok(())
}

/// Closes descriptors that the parent process left open, except the standard streams: those without
/// close-on-exec. Call this before anything may open such descriptors.
///
/// # Errors
///
/// Fails if the descriptors cannot be listed.
pub(super) fn close() -> io::Result<()> {
    for number in open()? {
        // SAFETY: the descriptor is borrowed for one call that only reads its flags, and may fail.
        let descriptor = unsafe { BorrowedFd::borrow_raw(number) };
        if fcntl_getfd(descriptor).is_ok_and(|flags| !flags.contains(FdFlags::CLOEXEC)) {
            // SAFETY: a descriptor with close-on-exec cannot be inherited, and those that Rust's
            // library or Python opens have it. So no owner in this process knows this one.
            drop(unsafe { OwnedFd::from_raw_fd(number) });
        }
    }
    Ok(())
}

/// The open descriptors except the standard streams.
fn open() -> io::Result<Vec<i32>> {
    let directory = if cfg!(target_os = "linux") {
        "/proc/self/fd"
    } else {
        "/dev/fd"
    };
    let mut open = Vec::new();
    for entry in std::fs::read_dir(directory)? {
        let name = entry?.file_name();
        if let Some(number) = name.to_str().and_then(|name| name.parse().ok())
            && number >= FIRST
        {
            open.push(number);
        }
    }
    Ok(open)
}

/// Returns the socket passed to this process, if any. Later calls return `None`.
///
/// # Errors
///
/// Fails if several sockets were passed, or the socket is not a listening stream socket.
pub(super) fn socket() -> io::Result<Option<Listener>> {
    static TAKEN: AtomicBool = AtomicBool::new(false);
    let number = |name: &str| std::env::var(name).ok()?.parse::<u32>().ok();
    let count = number("LISTEN_FDS").unwrap_or(0);
    if count == 0 || number("LISTEN_PID") != Some(std::process::id()) {
        return Ok(None);
    }
    if count > 1 {
        return Err(io::Error::other(format!(
            "{count} sockets were passed, but only one is supported"
        )));
    }
    if TAKEN.swap(true, Ordering::AcqRel) {
        return Ok(None);
    }
    // SAFETY: LISTEN_PID says that the variables are meant for this process, and LISTEN_FDS that
    // its parent left descriptor 3 open for it. No other code here knows that number, and `TAKEN`
    // makes it an owned descriptor only once.
    let socket = unsafe { OwnedFd::from_raw_fd(FIRST) };
    fcntl_setfd(&socket, FdFlags::CLOEXEC)?;
    let tcp = std::net::TcpListener::from(socket);
    tcp.set_nonblocking(true)?;
    // Only an internet socket has an address of this type.
    if tcp.local_addr().is_ok() {
        return Ok(Some(Listener::Tcp(TcpListener::from_std(tcp)?)));
    }
    let unix = std::os::unix::net::UnixListener::from(OwnedFd::from(tcp));
    Ok(Some(Listener::Unix(UnixListener::from_std(unix)?)))
}

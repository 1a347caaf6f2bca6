//! The socket that a service manager has bound before it started this process (`LISTEN_FDS`).

#![expect(
    unsafe_code,
    reason = "a descriptor that is known by its number alone is made an owned one"
)]

use std::io;
use std::os::fd::{FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::io::{FdFlags, fcntl_setfd};
use tokio::net::{TcpListener, UnixListener};

use crate::http::listen::Listener;

/// The number of the first descriptor that is handed over.
const FIRST: i32 = 3;

/// The socket that was handed to this process, if one was; the first time that it is asked for.
///
/// # Errors
///
/// When there are several, or it is none that connections come from.
pub(super) fn socket() -> io::Result<Option<Listener>> {
    static TAKEN: AtomicBool = AtomicBool::new(false);
    let number = |name: &str| std::env::var(name).ok()?.parse::<u32>().ok();
    let count = number("LISTEN_FDS").unwrap_or(0);
    if count == 0 || number("LISTEN_PID") != Some(std::process::id()) {
        return Ok(None);
    }
    if count > 1 {
        return Err(io::Error::other(format!(
            "{count} sockets were handed over, and one is served"
        )));
    }
    if TAKEN.swap(true, Ordering::AcqRel) {
        return Ok(None);
    }
    // SAFETY: LISTEN_PID says that the variables are meant for this process, and LISTEN_FDS that whoever
    // started it left descriptor 3 open for it. Nothing else here knows that number, and `TAKEN` has it
    // become an owned descriptor once.
    let socket = unsafe { OwnedFd::from_raw_fd(FIRST) };
    fcntl_setfd(&socket, FdFlags::CLOEXEC)?;
    let tcp = std::net::TcpListener::from(socket);
    tcp.set_nonblocking(true)?;
    // Only one of an internet address has one that this can tell.
    if tcp.local_addr().is_ok() {
        return Ok(Some(Listener::Tcp(TcpListener::from_std(tcp)?)));
    }
    let unix = std::os::unix::net::UnixListener::from(OwnedFd::from(tcp));
    Ok(Some(Listener::Unix(UnixListener::from_std(unix)?)))
}

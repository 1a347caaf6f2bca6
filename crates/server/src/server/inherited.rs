//! The socket passed by a service manager (`LISTEN_FDS`).

#![expect(
    unsafe_code,
    reason = "takes ownership of a descriptor known only by its number"
)]

use std::io;
use std::os::fd::{FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::io::{FdFlags, fcntl_setfd};
use tokio::net::{TcpListener, UnixListener};

use crate::http::listen::Listener;

/// Number of the first passed descriptor.
const FIRST: i32 = 3;

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

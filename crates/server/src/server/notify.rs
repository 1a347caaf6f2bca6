//! Says to the service manager how the server is (`sd_notify`), if one wants to hear it.

use std::os::unix::net::{SocketAddr, UnixDatagram};

/// Says it. A service manager that does not listen is none of the server's business.
pub(super) fn say(what: &str) {
    let Some(name) = std::env::var_os("NOTIFY_SOCKET") else {
        return;
    };
    let bytes = name.as_encoded_bytes();
    let address = match bytes.strip_prefix(b"@") {
        #[cfg(target_os = "linux")]
        Some(hidden) => {
            <SocketAddr as std::os::linux::net::SocketAddrExt>::from_abstract_name(hidden)
        }
        #[cfg(not(target_os = "linux"))]
        Some(_) => return,
        None => SocketAddr::from_pathname(&name),
    };
    let send =
        |address: SocketAddr| UnixDatagram::unbound()?.send_to_addr(what.as_bytes(), &address);
    if let Err(error) = address.and_then(send) {
        tracing::warn!(%error, "the service manager was not told {what}");
    }
}

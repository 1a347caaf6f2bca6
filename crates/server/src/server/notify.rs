//! Says to the service manager how the server is (`sd_notify`), if one wants to hear it.

use std::io;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// A line to the service manager, opened at the start: a process that is locked down opens no sockets.
pub(super) struct ServiceManager(Option<UnixDatagram>);

impl ServiceManager {
    /// Connects to the socket in `NOTIFY_SOCKET`. If nothing listens there, the server goes on.
    pub(super) fn of_process() -> Self {
        let Some(name) = std::env::var_os("NOTIFY_SOCKET") else {
            return Self(None);
        };
        let bytes = name.as_encoded_bytes();
        let address = match bytes.strip_prefix(b"@") {
            #[cfg(target_os = "linux")]
            Some(hidden) => {
                <SocketAddr as std::os::linux::net::SocketAddrExt>::from_abstract_name(hidden)
            }
            #[cfg(not(target_os = "linux"))]
            Some(_) => return Self(None),
            None => SocketAddr::from_pathname(&name),
        };
        let open = |address: SocketAddr| -> io::Result<UnixDatagram> {
            let socket = UnixDatagram::unbound()?;
            socket.connect_addr(&address)?;
            Ok(socket)
        };
        match address.and_then(open) {
            Ok(socket) => Self(Some(socket)),
            Err(error) => {
                tracing::warn!(%error, "the service manager cannot be reached");
                Self(None)
            }
        }
    }

    /// Says it.
    pub(super) fn say(&self, what: &str) {
        if let Some(socket) = &self.0
            && let Err(error) = socket.send(what.as_bytes())
        {
            tracing::warn!(%error, "the service manager was not told {what}");
        }
    }
}

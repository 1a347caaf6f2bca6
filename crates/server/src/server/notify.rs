//! Status notifications to the service manager (`sd_notify`).

use std::io;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// The connection to the service manager, opened at startup because a locked-down process cannot
/// open sockets.
pub(super) struct ServiceManager(Option<UnixDatagram>);

impl ServiceManager {
    /// Connects to the socket in `NOTIFY_SOCKET`. Failures are logged only.
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
                tracing::warn!(%error, "cannot connect to the service manager");
                Self(None)
            }
        }
    }

    /// Sends a notification.
    pub(super) fn say(&self, what: &str) {
        if let Some(socket) = &self.0
            && let Err(error) = socket.send(what.as_bytes())
        {
            tracing::warn!(%error, "cannot notify the service manager: {what}");
        }
    }
}

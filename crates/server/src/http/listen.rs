//! Accepts, limits and serves connections.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::{Mutex, Semaphore, mpsc};
use tokio_io_timeout::TimeoutStream;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::ServiceExt;
use tower_http::timeout::TimeoutBody;

use super::connection::{ConnectionState, ConnectionStream};
use super::data_rate::RateChecked;
use super::forwarded::Peer;
use super::limits::MAX_CONNECTIONS;
#[cfg(feature = "tls")]
use super::tls::Tls;

/// Time limit for receiving a request's headers, and for an idle connection between requests.
pub const HEAD_TIME: Duration = Duration::from_secs(30);
/// Maximum pause inside a request body.
pub const BODY_TIME: Duration = Duration::from_secs(30);
/// Maximum size of a request's headers, in bytes.
pub const MAX_HEAD: usize = 64 << 10;
/// Maximum number of a request's headers.
pub const MAX_HEADERS: usize = 100;
/// Delay before accepting again after a lack of descriptors or memory.
const REST: Duration = Duration::from_millis(50);

/// A listening socket.
#[derive(Debug)]
#[non_exhaustive]
pub enum Listener {
    /// A TCP socket.
    Tcp(TcpListener),
    /// A Unix socket.
    Unix(UnixListener),
    /// Connections passed by the front.
    Front(Mutex<mpsc::Receiver<UnixStream>>),
}

/// Address of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// Address and port.
    Tcp(SocketAddr),
    /// Path of a Unix socket.
    Unix(PathBuf),
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix(path) => path.display().fmt(f),
        }
    }
}

impl From<SocketAddr> for Address {
    fn from(address: SocketAddr) -> Self {
        Self::Tcp(address)
    }
}

impl From<PathBuf> for Address {
    fn from(path: PathBuf) -> Self {
        Self::Unix(path)
    }
}

/// A connection of either kind.
trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

impl Listener {
    /// The address of the socket.
    pub(crate) fn address(&self) -> io::Result<Address> {
        match self {
            Self::Tcp(listener) => Ok(Address::Tcp(listener.local_addr()?)),
            Self::Unix(listener) => {
                let address = listener.local_addr()?;
                Ok(Address::Unix(address.as_pathname().unwrap_or(Path::new("")).to_owned()))
            }
            Self::Front(_) => Ok(Address::Unix(PathBuf::new())),
        }
    }

    async fn accept(&self) -> io::Result<(Box<dyn Stream>, Peer)> {
        match self {
            Self::Tcp(listener) => {
                let (stream, peer) = listener.accept().await?;
                // Sends each event immediately, without waiting for the acknowledgement of the
                // previous one.
                stream.set_nodelay(true)?;
                Ok((Box::new(stream), Peer::Tcp(peer.ip())))
            }
            Self::Unix(listener) => Ok((Box::new(listener.accept().await?.0), Peer::Unix)),
            Self::Front(connections) => {
                let Some(stream) = connections.lock().await.recv().await else {
                    // This process exits with the front.
                    return std::future::pending().await;
                };
                stream.set_nonblocking(true)?;
                Ok((Box::new(tokio::net::UnixStream::from_std(stream)?), Peer::Unix))
            }
        }
    }
}

/// Settings for serving connections.
#[derive(Clone)]
pub(crate) struct Serving {
    pub router: Router,
    /// How long a client may leave data unread.
    pub write_timeout: Duration,
    /// Certificates, if all clients must use TLS.
    #[cfg(feature = "tls")]
    pub tls: Option<Arc<Tls>>,
}

/// Serves connections until `stop`. Then accepts no more, and returns when all requests are
/// answered and all WebSockets have ended.
pub(crate) async fn serve(listener: Listener, serving: Serving, stop: CancellationToken) {
    let connections = TaskTracker::new();
    let room = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    loop {
        let next = async {
            let place = Arc::clone(&room).acquire_owned().await.ok()?;
            Some((place, listener.accept().await))
        };
        let (place, accepted) = tokio::select! {
            Some(next) = next => next,
            () = stop.cancelled() => break,
        };
        let (stream, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::debug!(%error, "cannot accept a connection");
                tokio::time::sleep(REST).await;
                continue;
            }
        };
        let (serving, stop) = (serving.clone(), stop.clone());
        let link = ConnectionState::new(place, connections.token());
        tokio::spawn(async move {
            if let Err(error) = serving.accepted(stream, peer, link, stop).await {
                tracing::debug!(%error, "a connection failed");
            }
        });
    }
    drop(listener);
    connections.close();
    connections.wait().await;
}

impl Serving {
    async fn accepted(
        self,
        stream: Box<dyn Stream>,
        peer: Peer,
        link: ConnectionState,
        stop: CancellationToken,
    ) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        let mut stream = TimeoutStream::new(stream);
        stream.set_write_timeout(Some(self.write_timeout));
        let stream = ConnectionStream::new(RateChecked::new(Box::pin(stream)), link.clone());
        #[cfg(feature = "tls")]
        if let Some(tls) = &self.tls {
            let agreed = tokio::time::timeout(HEAD_TIME, tls.acceptor().accept(stream));
            let stream = tokio::select! {
                agreed = agreed => agreed??,
                () = stop.cancelled() => return Ok(()),
            };
            return Ok(connection(stream, (peer, link), self.router, stop).await?);
        }
        Ok(connection(stream, (peer, link), self.router, stop).await?)
    }
}

/// Serves the requests of a connection in turn. After `stop`, only the current request is finished.
async fn connection(
    stream: impl Stream + 'static,
    (peer, link): (Peer, ConnectionState),
    router: Router,
    stop: CancellationToken,
) -> hyper::Result<()> {
    let prepared = move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(peer);
        request.extensions_mut().insert(link.clone());
        request.map(|body| Body::new(TimeoutBody::new(BODY_TIME, body)))
    };
    let service = TowerToHyperService::new(router.map_request(prepared));
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME)
        .max_buf_size(MAX_HEAD)
        .max_headers(MAX_HEADERS)
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades();
    let mut connection = pin!(connection);
    tokio::select! {
        ended = connection.as_mut() => return ended,
        () = stop.cancelled() => connection.as_mut().graceful_shutdown(),
    }
    connection.await
}

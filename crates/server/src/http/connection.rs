//! State of a connection, kept while any task uses it. A connection that becomes a WebSocket moves
//! to another task together with its permit.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::task::{Context, Poll, ready};
use std::time::Instant;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::OwnedSemaphorePermit;
use tokio_util::sync::CancellationToken;
use tokio_util::task::task_tracker::TaskTrackerToken;

use super::limiter::{Limiter, Permit};
use super::websocket_input::{MAX_READ, WebSocketInput};
use crate::lock::lock;

/// State of a connection. Clones share the same state.
#[derive(Clone)]
pub(crate) struct ConnectionState(Arc<Inner>);

struct Inner {
    socket: OnceLock<Socket>,
    /// The owner of the latest request and its permit, until the connection becomes a WebSocket.
    owner: Mutex<Option<(String, Permit)>>,
    _permit: OwnedSemaphorePermit,
    _counted: TaskTrackerToken,
}

/// State of a connection that became a WebSocket.
pub(crate) struct Socket {
    /// The owner's permit for a WebSocket.
    pub _permit: Permit,
    /// The bytes received.
    pub input: Mutex<WebSocketInput>,
    /// Cancelled to end the connection: on revocation of its key, and at the server's end.
    pub ends: [CancellationToken; 2],
}

/// The stream of a connection.
pub(crate) struct ConnectionStream<S> {
    stream: S,
    connection: ConnectionState,
    /// One per direction, because different tasks may poll them.
    cuts: [Option<Cut>; 2],
}

type Cut = Pin<Box<dyn Future<Output = ()> + Send>>;

const READ: usize = 0;
const WRITE: usize = 1;

impl ConnectionState {
    /// A connection with a permit. `counted` lets the server wait for its end.
    pub(crate) fn new(permit: OwnedSemaphorePermit, counted: TaskTrackerToken) -> Self {
        Self(Arc::new(Inner {
            socket: OnceLock::new(),
            owner: Mutex::default(),
            _permit: permit,
            _counted: counted,
        }))
    }

    /// Turns the connection into a WebSocket.
    pub(crate) fn become_socket(&self, socket: Socket) {
        // This happens once per connection.
        let _ = self.0.socket.set(socket);
        *self.owner() = None;
    }

    /// Counts the connection for an owner; returns false at the owner's limit. A proxy may send
    /// requests of several owners in turn on one connection.
    pub(crate) fn count(&self, owner: &str, connections: &Limiter) -> bool {
        let mut current = self.owner();
        if current.as_ref().is_none_or(|(name, _)| name != owner) {
            *current = connections.try_acquire(owner, 1).map(|permit| (owner.to_owned(), permit));
        }
        current.is_some()
    }

    /// The bytes received, if this is a WebSocket.
    pub(crate) fn input(&self) -> Option<MutexGuard<'_, WebSocketInput>> {
        self.0.socket.get().map(Socket::input)
    }

    fn owner(&self) -> MutexGuard<'_, Option<(String, Permit)>> {
        lock(&self.0.owner)
    }
}

impl Socket {
    fn input(&self) -> MutexGuard<'_, WebSocketInput> {
        lock(&self.input)
    }
}

impl<S> ConnectionStream<S> {
    pub(crate) fn new(stream: S, connection: ConnectionState) -> Self {
        Self {
            stream,
            connection,
            cuts: [None, None],
        }
    }

    /// Fails when the connection must end.
    fn check(&mut self, direction: usize, context: &mut Context<'_>) -> io::Result<()> {
        let Some(Socket { ends, .. }) = self.connection.0.socket.get() else {
            return Ok(());
        };
        let cut = self.cuts[direction].get_or_insert_with(|| {
            let [one, other] = ends.clone();
            Box::pin(async move {
                tokio::select! {
                    () = one.cancelled() => {}
                    () = other.cancelled() => {}
                }
            })
        });
        match cut.as_mut().poll(context) {
            Poll::Pending => Ok(()),
            Poll::Ready(()) => {
                // A completed future must not be polled.
                *cut = Box::pin(std::future::ready(()));
                Err(io::Error::new(io::ErrorKind::ConnectionAborted, "the key was revoked"))
            }
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for ConnectionStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.check(READ, context)?;
        let Self {
            stream, connection, ..
        } = &mut *self;
        let Some(mut input) = connection.input() else {
            return Pin::new(stream).poll_read(context, buffer);
        };
        ready!(input.poll_memory(context))?;
        let length = buffer.remaining().min(MAX_READ);
        let mut part = ReadBuf::new(buffer.initialize_unfilled_to(length));
        let polled = Pin::new(stream).poll_read(context, &mut part);
        let read = part.filled().len();
        buffer.advance(read);
        input.received(polled.is_ready().then_some(read), Instant::now())?;
        polled
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for ConnectionStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.check(WRITE, context)?;
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.check(WRITE, context)?;
        Pin::new(&mut self.stream).poll_write_vectored(context, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

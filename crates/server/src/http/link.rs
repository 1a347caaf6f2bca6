//! A connection for as long as anything uses it. One that becomes a WebSocket is handed from the task that served
//! its requests to another; its place among the connections goes with it.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::OwnedSemaphorePermit;
use tokio_util::sync::CancellationToken;
use tokio_util::task::task_tracker::TaskTrackerToken;

use super::shares::Share;

/// What is known of a connection. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Link(Arc<Inner>);

struct Inner {
    socket: OnceLock<Socket>,
    _place: OwnedSemaphorePermit,
    _counted: TaskTrackerToken,
}

/// What a connection has that became a WebSocket.
pub(crate) struct Socket {
    /// Its place among those of its owner.
    pub _place: Share,
    /// Ends it: its key was revoked, or the server ends.
    pub ends: [CancellationToken; 2],
}

/// The stream of a connection.
pub(crate) struct Linked<S> {
    stream: S,
    link: Link,
    /// One for each direction: they may be polled by different tasks.
    cuts: [Option<Cut>; 2],
}

type Cut = Pin<Box<dyn Future<Output = ()> + Send>>;

const READ: usize = 0;
const WRITE: usize = 1;

impl Link {
    /// A connection that has this place, and is waited for until it ends.
    pub(crate) fn new(place: OwnedSemaphorePermit, counted: TaskTrackerToken) -> Self {
        Self(Arc::new(Inner {
            socket: OnceLock::new(),
            _place: place,
            _counted: counted,
        }))
    }

    /// Says that it becomes a WebSocket.
    pub(crate) fn become_socket(&self, socket: Socket) {
        // A connection becomes one once.
        let _ = self.0.socket.set(socket);
    }
}

impl<S> Linked<S> {
    pub(crate) fn new(stream: S, link: Link) -> Self {
        Self {
            stream,
            link,
            cuts: [None, None],
        }
    }

    /// Fails once the connection is to end.
    fn check(&mut self, direction: usize, context: &mut Context<'_>) -> io::Result<()> {
        let Some(Socket { ends, .. }) = self.link.0.socket.get() else {
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
                // Polled to its end, it is not to be polled again.
                *cut = Box::pin(std::future::ready(()));
                Err(io::Error::new(io::ErrorKind::ConnectionAborted, "the key was revoked"))
            }
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Linked<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.check(READ, context)?;
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Linked<S> {
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

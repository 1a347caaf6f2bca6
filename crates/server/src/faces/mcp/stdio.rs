//! The protocol over standard streams, for the one client that started this process.

use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::Duration;

use async_recursion::async_recursion as boxed;
use rmcp::RoleServer;
use rmcp::service::{ServerInitializeError, serve_server_with_ct};
use rmcp::transport::async_rw::AsyncRwTransport;
use rmcp::transport::{Transport, stdio_pipes};
use tokio::io::{AsyncRead, ReadBuf};
use tokio_util::sync::CancellationToken;

use super::handler::Handler;
use super::options::Options;
use crate::service::Service;
use crate::service::owner::Owner;

/// Maximum size of a client's message, in bytes.
const MAX_MESSAGE: usize = 32 << 20;
/// Time that interrupted runs have to end, including the engine's grace.
const LAST_RUNS: Duration = Duration::from_millis(1_200);
/// Time that the client has to read the last messages.
const LAST_WORDS: Duration = Duration::from_millis(200);

/// Serves a client on standard input and output until the input ends or `stop` is ready. Runs still
/// in progress are then interrupted. Nothing is left running on return.
///
/// # Errors
///
/// Fails if the client does not follow the protocol's initialization.
pub async fn serve(
    service: Service,
    options: Options,
    stop: impl Future<Output = ()>,
) -> io::Result<()> {
    serve_until(service, options, pin!(stop)).await
}

#[boxed(?Send)]
async fn serve_until(
    service: Service,
    options: Options,
    stop: Pin<&mut dyn Future<Output = ()>>,
) -> io::Result<()> {
    let handler = Handler::new(service.clone(), options, Some(Owner::local()));
    let ended = CancellationToken::new();
    let (input, output) = stdio_pipes();
    let input = Ending {
        from: input,
        ended: ended.clone(),
    };
    let transport = AsyncRwTransport::new_server(input, output).with_max_line_length(MAX_MESSAGE);
    let closing = CancellationToken::new();
    let mut serving = pin!(answer(handler, transport, closing.clone()));
    let served = tokio::select! {
        served = &mut serving => Some(served),
        () = stop => None,
        () = ended.cancelled() => None,
    };
    service.stop();
    service.interrupt_all();
    let is_over = async {
        while service.under_way() > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let _ = tokio::time::timeout(LAST_RUNS, is_over).await;
    closing.cancel();
    let served = match served {
        Some(served) => served,
        None => tokio::time::timeout(LAST_WORDS, &mut serving).await.unwrap_or(Ok(())),
    };
    service.close_all();
    served
}

async fn answer(
    handler: Handler,
    transport: impl Transport<RoleServer> + 'static,
    closing: CancellationToken,
) -> io::Result<()> {
    match serve_server_with_ct(handler, transport, closing).await {
        Ok(running) => running.waiting().await.map(drop).map_err(io::Error::other),
        Err(ServerInitializeError::ConnectionClosed(_) | ServerInitializeError::Cancelled) => {
            Ok(())
        }
        Err(error) => Err(io::Error::other(error)),
    }
}

/// Input that signals its end at once, before all earlier requests are answered.
struct Ending<R> {
    from: R,
    ended: CancellationToken,
}

impl<R: AsyncRead + Unpin> AsyncRead for Ending<R> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buffer.filled().len();
        let polled = Pin::new(&mut this.from).poll_read(cx, buffer);
        let is_end = match &polled {
            Poll::Ready(Ok(())) => buffer.filled().len() == before && buffer.remaining() > 0,
            Poll::Ready(Err(_)) => true,
            Poll::Pending => false,
        };
        if is_end {
            this.ended.cancel();
        }
        polled
    }
}

//! Minimum data rate of clients. Without it, a client that sends or reads a few bytes now and then
//! could hold a connection and its resources for days.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// The rate is measured over this much time spent waiting for the client.
pub const RATE_TIME: Duration = Duration::from_mins(1);
/// Minimum bytes in that time: 1 KiB per second.
pub const RATE_BYTES: usize = 60 << 10;

/// The data rate of a peer while the server waits for it.
#[derive(Default)]
pub(super) struct DataRate {
    waits_since: Option<Instant>,
    waited: Duration,
    moved: usize,
}

impl DataRate {
    /// Whether the peer is fast enough. `moved` is the number of bytes transferred, or `None` while
    /// waiting.
    pub(super) fn is_sufficient(&mut self, moved: Option<usize>, now: Instant) -> bool {
        let Some(bytes) = moved else {
            self.waits_since.get_or_insert(now);
            return true;
        };
        self.moved += bytes;
        if let Some(since) = self.waits_since.take() {
            self.waited += now - since;
        }
        if self.waited < RATE_TIME {
            return true;
        }
        let is_sufficient = self.moved >= RATE_BYTES;
        (self.waited, self.moved) = (Duration::ZERO, 0);
        is_sufficient
    }
}

/// A stream that fails if the peer reads too slowly.
pub(super) struct RateChecked<S> {
    stream: S,
    rate: DataRate,
}

impl<S> RateChecked<S> {
    pub(super) fn new(stream: S) -> Self {
        Self {
            stream,
            rate: DataRate::default(),
        }
    }

    /// Measures the result of a write.
    fn measured(
        &mut self,
        written: Poll<io::Result<usize>>,
        now: Instant,
    ) -> Poll<io::Result<usize>> {
        let taken = match &written {
            Poll::Ready(Ok(count)) => Some(*count),
            Poll::Ready(Err(_)) => return written,
            Poll::Pending => None,
        };
        if self.rate.is_sufficient(taken, now) {
            return written;
        }
        Poll::Ready(Err(io::Error::new(
            io::ErrorKind::TimedOut,
            "the client reads less than 1 KiB per second",
        )))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for RateChecked<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for RateChecked<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.measured(written, Instant::now())
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, bufs);
        self.measured(written, Instant::now())
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads `bytes` after every `pause` seconds for an hour. After each read, there is nothing to
    /// write for `rest` seconds.
    fn reads(bytes: usize, pause: u64, rest: u64) -> io::Result<()> {
        let mut paced = RateChecked::new(());
        let mut now = Instant::now();
        for _ in 0..3600 / pause {
            assert!(paced.measured(Poll::Pending, now).is_pending());
            now += Duration::from_secs(pause);
            let Poll::Ready(written) = paced.measured(Poll::Ready(Ok(bytes)), now) else {
                unreachable!("it was written");
            };
            assert_eq!(written?, bytes);
            now += Duration::from_secs(rest);
        }
        Ok(())
    }

    #[test]
    fn who_reads_a_few_bytes_now_and_then_is_left() {
        for (bytes, pause, rest) in [(1, 1, 0), (512, 1, 0), (10 << 10, 20, 0), (1, 1, 600)] {
            let error = reads(bytes, pause, rest).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::TimedOut, "{bytes} in {pause} s");
        }
    }

    #[test]
    fn who_reads_slowly_or_rests_gets_all_of_it() {
        for (bytes, pause, rest) in [(2 << 10, 1, 0), (100 << 10, 50, 0), (2 << 10, 1, 600)] {
            reads(bytes, pause, rest).unwrap();
        }
    }

    #[test]
    fn time_in_which_nothing_has_to_be_written_does_not_count() {
        let mut paced = RateChecked::new(());
        let mut now = Instant::now();
        for _ in 0..1_000 {
            now += Duration::from_secs(15);
            assert!(matches!(paced.measured(Poll::Ready(Ok(2)), now), Poll::Ready(Ok(2))));
        }
    }
}

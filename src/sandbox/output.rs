//! Standard output and standard error: kept up to a limit, counted beyond it, and passed to the
//! watcher at once.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use belljar_text::unfinished;
use wasmtime_wasi::cli::{IsTerminal, StdoutStream};
use wasmtime_wasi::p2::{OutputStream, Pollable, StreamResult};

use super::control::{Control, StopReason};
use super::recorder::Recorder;
use crate::api::watch::Stream;
use crate::limits::{FLOOD_FACTOR, LEAST_FLOOD};

/// Receives one stream.
pub(crate) struct Sink {
    stream: Stream,
    open: Mutex<Open>,
    total: AtomicU64,
    control: Arc<Control>,
    recorder: Arc<Recorder>,
}

/// A stream during a run.
#[derive(Default)]
struct Open {
    limit: usize,
    kept: Vec<u8>,
}

/// Text that a stream received.
#[derive(Debug, Default)]
pub(crate) struct Output {
    pub text: String,
    pub total: u64,
    pub truncated: bool,
}

impl Sink {
    /// Creates a stream that keeps nothing before its first [`begin`](Self::begin).
    pub(crate) fn new(stream: Stream, control: Arc<Control>, recorder: Arc<Recorder>) -> Arc<Self> {
        Arc::new(Self {
            stream,
            open: Mutex::default(),
            total: AtomicU64::new(0),
            control,
            recorder,
        })
    }

    /// Starts a run. At most `limit` bytes of its output are kept and shown.
    pub(crate) fn begin(&self, limit: u64) {
        *self.lock() = Open {
            limit: usize::try_from(limit).unwrap_or(usize::MAX),
            kept: Vec::new(),
        };
        self.total.store(0, Ordering::Relaxed);
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self, bytes: &[u8]) {
        let total =
            self.total.fetch_add(bytes.len() as u64, Ordering::Relaxed) + bytes.len() as u64;
        let mut open = self.lock();
        let limit = open.limit;
        let room = limit.saturating_sub(open.kept.len());
        let fitting = &bytes[..bytes.len().min(room)];
        open.kept.extend_from_slice(fitting);
        drop(open);
        self.recorder.wrote(self.stream, fitting, fitting.len() < bytes.len());
        let flood = (limit as u64).saturating_mul(FLOOD_FACTOR).max(LEAST_FLOOD);
        if total > flood {
            self.control.ask(StopReason::Output);
        }
    }

    /// Takes the output received so far.
    pub(crate) fn take(&self) -> Output {
        let mut bytes = std::mem::take(&mut self.lock().kept);
        let total = self.total.swap(0, Ordering::Relaxed);
        let truncated = total > bytes.len() as u64;
        if truncated {
            bytes.truncate(bytes.len() - unfinished(&bytes));
        }
        Output {
            text: String::from_utf8_lossy(&bytes).into_owned(),
            total,
            truncated,
        }
    }
}

/// A handle to a sink, in the form that wasmtime-wasi expects.
#[derive(Clone)]
pub(super) struct SinkStream(pub Arc<Sink>);

impl IsTerminal for SinkStream {
    fn is_terminal(&self) -> bool {
        false
    }
}

impl StdoutStream for SinkStream {
    fn async_stream(&self) -> Box<dyn tokio::io::AsyncWrite + Send + Sync> {
        Box::new(self.clone())
    }

    fn p2_stream(&self) -> Box<dyn OutputStream> {
        Box::new(self.clone())
    }
}

#[wasmtime_wasi::async_trait]
impl Pollable for SinkStream {
    async fn ready(&mut self) {}
}

impl OutputStream for SinkStream {
    fn write(&mut self, bytes: bytes::Bytes) -> StreamResult<()> {
        self.0.write(&bytes);
        Ok(())
    }

    fn flush(&mut self) -> StreamResult<()> {
        Ok(())
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        Ok(1 << 20)
    }
}

impl tokio::io::AsyncWrite for SinkStream {
    fn poll_write(
        self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
        bytes: &[u8],
    ) -> std::task::Poll<std::io::Result<usize>> {
        self.0.write(bytes);
        std::task::Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(
        self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<std::io::Result<()>> {
        std::task::Poll::Ready(Ok(()))
    }

    fn poll_shutdown(
        self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<std::io::Result<()>> {
        std::task::Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(limit: u64, writes: &[&[u8]]) -> Output {
        let sink = Sink::new(Stream::Stdout, Control::new(), Arc::default());
        sink.begin(limit);
        for bytes in writes {
            sink.write(bytes);
        }
        sink.take()
    }

    #[test]
    fn text_is_cut_at_a_character_boundary() {
        for limit in 4..8 {
            let output = taken(limit, &["abc\u{1f600}d".as_bytes()]);
            assert_eq!(output.text, if limit < 7 { "abc" } else { "abc\u{1f600}" }, "{limit}");
            assert!(output.truncated);
            assert_eq!(output.total, 8);
        }
    }

    #[test]
    fn bytes_that_are_no_text_are_replaced() {
        assert_eq!(taken(100, &[b"a\xffb"]).text, "a\u{fffd}b");
        assert!(taken(3, &[b"ab\xff\xff"]).truncated);
    }

    #[test]
    fn a_character_written_in_two_parts_is_whole() {
        let (first, second) = "\u{e9}".as_bytes().split_at(1);
        assert_eq!(taken(100, &[first, second]).text, "\u{e9}");
    }
}

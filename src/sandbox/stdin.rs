//! Standard input: a fixed sequence of bytes.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use bytes::Bytes;
use wasmtime_wasi::cli::{IsTerminal, StdinStream};
use wasmtime_wasi::p2::{InputStream, Pollable, StreamError, StreamResult};

/// Standard input of a guest.
#[derive(Debug, Default)]
pub(crate) struct Input(Mutex<Offered>);

#[derive(Debug)]
struct Offered {
    bytes: Bytes,
    /// Whether the guest may have read some of it into its own memory.
    is_used: bool,
}

impl Input {
    pub(crate) fn new() -> Arc<Self> {
        Arc::default()
    }

    /// Replaces the remaining input by `bytes`. Returns whether the guest may have buffered earlier
    /// input.
    pub(crate) fn replace(&self, bytes: Vec<u8>) -> bool {
        let now = Offered {
            bytes: bytes.into(),
            is_used: false,
        };
        std::mem::replace(&mut *self.lock(), now).is_used
    }

    /// Records that the guest's memory was replaced and may contain buffered input.
    pub(crate) fn declare_used(&self) {
        self.lock().is_used = true;
    }

    fn take(&self, max: usize) -> Bytes {
        let mut offered = self.lock();
        offered.is_used = true;
        let length = offered.bytes.len().min(max);
        offered.bytes.split_to(length)
    }

    fn lock(&self) -> MutexGuard<'_, Offered> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for Offered {
    fn default() -> Self {
        Self {
            bytes: Bytes::new(),
            is_used: true,
        }
    }
}

/// A handle to an input, in the form that wasmtime-wasi expects.
#[derive(Clone)]
pub(super) struct InputHandle(pub Arc<Input>);

impl IsTerminal for InputHandle {
    fn is_terminal(&self) -> bool {
        false
    }
}

impl StdinStream for InputHandle {
    fn async_stream(&self) -> Box<dyn tokio::io::AsyncRead + Send + Sync> {
        Box::new(self.clone())
    }

    fn p2_stream(&self) -> Box<dyn InputStream> {
        Box::new(self.clone())
    }
}

#[wasmtime_wasi::async_trait]
impl Pollable for InputHandle {
    async fn ready(&mut self) {}
}

impl InputStream for InputHandle {
    fn read(&mut self, size: usize) -> StreamResult<Bytes> {
        let bytes = self.0.take(size);
        if bytes.is_empty() {
            return Err(StreamError::Closed);
        }
        Ok(bytes)
    }
}

impl tokio::io::AsyncRead for InputHandle {
    fn poll_read(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        target: &mut tokio::io::ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        target.put_slice(&self.0.take(target.remaining()));
        Poll::Ready(Ok(()))
    }
}

//! A body for code that reads with its thread blocked.

use std::io::{self, Read};

use axum::body::Body;
use bytes::{Buf, Bytes};
use futures_util::StreamExt;
use tokio::sync::mpsc;

/// Chunks that are read before somebody wants them.
const AHEAD: usize = 4;

/// Reads a body from a thread that may block. It is received on a task, which ends with this reader.
pub(crate) struct Upload {
    chunks: mpsc::Receiver<io::Result<Bytes>>,
    chunk: Bytes,
}

impl Upload {
    pub(crate) fn of(body: Body) -> Self {
        Self {
            chunks: pump(body),
            chunk: Bytes::new(),
        }
    }
}

/// Receives a body on a task, which ends with the receiver. The time that a client may be silent is so
/// counted only while somebody listens to it.
pub(crate) fn pump(body: Body) -> mpsc::Receiver<io::Result<Bytes>> {
    let (sender, chunks) = mpsc::channel(AHEAD);
    tokio::spawn(async move {
        let mut body = body.into_data_stream();
        while let Some(chunk) = body.next().await {
            if sender.send(chunk.map_err(io::Error::other)).await.is_err() {
                return;
            }
        }
    });
    chunks
}

impl Read for Upload {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.chunk.is_empty() {
            match self.chunks.blocking_recv() {
                Some(chunk) => self.chunk = chunk?,
                None => return Ok(0),
            }
        }
        let length = buffer.len().min(self.chunk.len());
        self.chunk.copy_to_slice(&mut buffer[..length]);
        Ok(length)
    }
}

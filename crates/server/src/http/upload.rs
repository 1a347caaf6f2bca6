//! Uploads: a task receives them into memory or a file, so that slow clients block no thread.

use std::io::{self, Cursor, Read};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::Request;
use futures_util::{Stream, StreamExt};
use tokio::io::AsyncWriteExt;
use tokio::sync::mpsc;

use super::app::App;
use super::body_error::{BodyError, UploadError};
use super::limiter::Permit;
use super::request_body::{self, ReadMode};
use crate::lock::lock;
use crate::service::owner::Owner;

/// Maximum number of chunks buffered ahead of the reader.
const AHEAD: usize = 4;
/// Maximum bytes of an upload kept in memory, over all its parts. The rest is in a file.
const MAX_IN_MEMORY: usize = 64 << 10;
/// How long an upload waits for other uploads of its owner, or for disk space.
const PATIENCE: Duration = Duration::from_secs(10);

/// A complete upload or part.
pub(crate) struct Received(Content);

enum Content {
    Memory(Cursor<Vec<u8>>),
    File {
        spool: Arc<Spool>,
        at: u64,
        end: u64,
    },
}

/// The file of an upload. Its parts follow each other.
struct Spool {
    file: std::fs::File,
    /// Reserved disk space.
    room: Mutex<Vec<Permit>>,
}

/// Receives uploads of one owner.
pub(crate) struct Receiver {
    app: App,
    owner: Owner,
    _place: Permit,
    /// Bytes of its parts in memory.
    kept: usize,
    /// Bytes in its file.
    spooled: u64,
    spool: Option<Arc<Spool>>,
}

impl Receiver {
    /// Waits for a permit for another upload of this owner.
    pub(crate) async fn of(app: &App, owner: &Owner) -> Result<Self, UploadError> {
        app.service().has_memory()?;
        let place = app.uploads().acquire(owner.name(), 1, PATIENCE).await;
        Ok(Self {
            app: app.clone(),
            owner: owner.clone(),
            _place: place.ok_or(UploadError::TooMany)?,
            kept: 0,
            spooled: 0,
            spool: None,
        })
    }

    /// Receives a request body of at most `max` bytes.
    pub(crate) async fn body(
        &mut self,
        request: Request,
        max: u64,
    ) -> Result<Received, UploadError> {
        if request_body::content_length(request.headers()).is_some_and(|length| length > max) {
            return Err(BodyError::TooLong(max).into());
        }
        let body = request_body::open(request, &self.owner, ReadMode::File(max)).into_body();
        self.pieces(body.into_data_stream(), max).await
    }

    /// Receives a stream of at most `max` bytes.
    pub(crate) async fn pieces<E: std::error::Error + 'static>(
        &mut self,
        pieces: impl Stream<Item = Result<Bytes, E>>,
        max: u64,
    ) -> Result<Received, UploadError> {
        let mut pieces = std::pin::pin!(pieces);
        let (mut start, mut file, mut size) = (Vec::new(), None, 0);
        let first = self.spooled;
        while let Some(piece) = pieces.next().await {
            let piece = piece.map_err(|error| match BodyError::of(&error) {
                BodyError::TooLong(_) => BodyError::TooLong(max),
                other => other,
            })?;
            size += piece.len() as u64;
            if size > max {
                return Err(BodyError::TooLong(max).into());
            }
            if file.is_none() && self.kept + start.len() + piece.len() <= MAX_IN_MEMORY {
                start.extend_from_slice(&piece);
                continue;
            }
            let spool = self.spool_for(first + size).await?;
            let opened = if let Some(file) = &mut file {
                file
            } else {
                let made = spool.file.try_clone().map_err(UploadError::Disk)?;
                let made = file.insert(tokio::fs::File::from_std(made));
                made.write_all(&std::mem::take(&mut start)).await.map_err(UploadError::Disk)?;
                made
            };
            opened.write_all(&piece).await.map_err(UploadError::Disk)?;
        }
        let (Some(mut file), Some(spool)) = (file, self.spool.clone()) else {
            self.kept += start.len();
            return Ok(Received(Content::Memory(Cursor::new(start))));
        };
        file.flush().await.map_err(UploadError::Disk)?;
        self.spooled = first + size;
        let (at, end) = (first, self.spooled);
        Ok(Received(Content::File { spool, at, end }))
    }

    /// Returns the file after reserving disk space for `bytes`.
    async fn spool_for(&mut self, bytes: u64) -> Result<Arc<Spool>, UploadError> {
        let spool = if let Some(spool) = &self.spool {
            Arc::clone(spool)
        } else {
            let file = tempfile::tempfile().map_err(UploadError::Disk)?;
            let room = Mutex::default();
            Arc::clone(self.spool.insert(Arc::new(Spool { file, room })))
        };
        while spool.taken() << 20 < bytes {
            let permit = self.app.spool().acquire(self.owner.name(), 1, PATIENCE).await;
            spool.room().push(permit.ok_or(UploadError::TooMany)?);
        }
        Ok(spool)
    }
}

impl Spool {
    fn room(&self) -> MutexGuard<'_, Vec<Permit>> {
        lock(&self.room)
    }

    fn taken(&self) -> u64 {
        self.room().len() as u64
    }
}

#[cfg(unix)]
fn read_at(file: &std::fs::File, buffer: &mut [u8], at: u64) -> io::Result<usize> {
    std::os::unix::fs::FileExt::read_at(file, buffer, at)
}

#[cfg(windows)]
fn read_at(file: &std::fs::File, buffer: &mut [u8], at: u64) -> io::Result<usize> {
    std::os::windows::fs::FileExt::seek_read(file, buffer, at)
}

impl Read for Received {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match &mut self.0 {
            Content::Memory(bytes) => bytes.read(buffer),
            Content::File { spool, at, end } => {
                let left = usize::try_from(*end - *at).unwrap_or(usize::MAX);
                let length = buffer.len().min(left);
                let read = read_at(&spool.file, &mut buffer[..length], *at)?;
                *at += read as u64;
                Ok(read)
            }
        }
    }
}

/// Creates a file with `make`, which returns its length, and reserves disk space for it.
pub(crate) async fn spooled<E: From<UploadError>>(
    app: &App,
    owner: &Owner,
    make: impl Future<Output = Result<(std::fs::File, u64), E>>,
) -> Result<(std::fs::File, u64, Permit), E> {
    // Few files of unknown length are created at once.
    let place = app.uploads().acquire(owner.name(), 1, PATIENCE).await;
    let _place = place.ok_or(UploadError::TooMany)?;
    let (file, size) = make.await?;
    let mib = u32::try_from(size.div_ceil(1 << 20)).unwrap_or(u32::MAX);
    let room = app.spool().acquire(owner.name(), mib, PATIENCE).await;
    Ok((file, size, room.ok_or(UploadError::TooMany)?))
}

/// Receives a body on a task that ends with its receiver. A client's silence is timed only while
/// the body is being read.
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

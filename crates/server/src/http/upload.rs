//! Uploads: received into a file by a task, so that a slow client holds no thread, and then read at once.

use std::io::{self, Cursor, Read};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::Request;
use futures_util::{Stream, StreamExt};
use tokio::io::{AsyncSeekExt, AsyncWriteExt};
use tokio::sync::mpsc;

use super::app::App;
use super::sealed::{self, BodyError, Reading};
use super::shares::Share;
use crate::service::owner::Owner;

/// Chunks that are read before somebody wants them.
const AHEAD: usize = 4;
/// Bytes of an upload that are kept in memory; a longer one goes into a file.
const MAX_IN_MEMORY: usize = 64 << 10;
/// Uploads at once, and those of one owner.
pub(crate) const MAX_UPLOADS: usize = 1024;
pub(crate) const MAX_OWNED: usize = 64;
/// What uploads may take on the disk together, in MiB; one owner may have half of it.
pub(crate) const MAX_SPOOLED: usize = 16 << 10;
/// How long an upload waits for others of its owner, or for room on the disk.
const PATIENCE: Duration = Duration::from_secs(10);

/// An upload that has come whole.
pub(crate) struct Received {
    content: Content,
    /// Room on the disk.
    _room: Vec<Share>,
}

enum Content {
    Memory(Cursor<Vec<u8>>),
    File(std::fs::File),
}

/// Why an upload was not received.
#[derive(Debug, thiserror::Error)]
pub(crate) enum UploadError {
    #[error(transparent)]
    Body(#[from] BodyError),
    #[error("this key has too many uploads at once, or they take too much room")]
    TooMany,
    #[error("the server has no room for the upload")]
    Disk(#[source] io::Error),
}

/// Receives uploads of one owner.
pub(crate) struct Receiver {
    app: App,
    owner: Owner,
    _place: Share,
}

impl Receiver {
    /// Waits until this owner may send another upload.
    pub(crate) async fn of(app: &App, owner: &Owner) -> Result<Self, UploadError> {
        let place = app.uploads().take(owner.name(), 1, PATIENCE).await;
        Ok(Self {
            app: app.clone(),
            owner: owner.clone(),
            _place: place.ok_or(UploadError::TooMany)?,
        })
    }

    /// Receives the body of a request, of at most `max` bytes.
    pub(crate) async fn body(&self, request: Request, max: u64) -> Result<Received, UploadError> {
        if sealed::length(request.headers()).is_some_and(|length| length > max) {
            return Err(BodyError::TooLong(max).into());
        }
        let body = sealed::open(request, &self.owner, Reading::File(max)).into_body();
        self.pieces(body.into_data_stream(), max).await
    }

    /// Receives what comes in pieces, of at most `max` bytes.
    pub(crate) async fn pieces<E: std::error::Error + 'static>(
        &self,
        pieces: impl Stream<Item = Result<Bytes, E>>,
        max: u64,
    ) -> Result<Received, UploadError> {
        let mut pieces = std::pin::pin!(pieces);
        let (mut start, mut file, mut room, mut size) = (Vec::new(), None, Vec::new(), 0);
        while let Some(piece) = pieces.next().await {
            let piece = piece.map_err(|error| match BodyError::of(&error) {
                BodyError::TooLong(_) => BodyError::TooLong(max),
                other => other,
            })?;
            size += piece.len() as u64;
            if size > max {
                return Err(BodyError::TooLong(max).into());
            }
            if file.is_none() && size <= MAX_IN_MEMORY as u64 {
                start.extend_from_slice(&piece);
                continue;
            }
            while (room.len() as u64) << 20 < size {
                let share = self.app.spool().take(self.owner.name(), 1, PATIENCE).await;
                room.push(share.ok_or(UploadError::TooMany)?);
            }
            let opened = if let Some(file) = &mut file {
                file
            } else {
                let made = tempfile::tempfile().map_err(UploadError::Disk)?;
                let made = file.insert(tokio::fs::File::from_std(made));
                made.write_all(&std::mem::take(&mut start)).await.map_err(UploadError::Disk)?;
                made
            };
            opened.write_all(&piece).await.map_err(UploadError::Disk)?;
        }
        let content = match file {
            None => Content::Memory(Cursor::new(start)),
            Some(mut file) => {
                file.flush().await.map_err(UploadError::Disk)?;
                file.rewind().await.map_err(UploadError::Disk)?;
                Content::File(file.into_std().await)
            }
        };
        Ok(Received {
            content,
            _room: room,
        })
    }
}

impl Read for Received {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match &mut self.content {
            Content::Memory(bytes) => bytes.read(buffer),
            Content::File(file) => file.read(buffer),
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

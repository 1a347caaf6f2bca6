//! Transfer of files in sessions.

use std::io;

use axum::body::Body;
use axum::http::{HeaderMap, Method};
use axum::response::Response;
use belljar::session::{PathEntry, PathKind, SessionFiles};
use bytes::Bytes;
use futures_util::{Stream, stream};

use super::files::{Asked, FileHead};
use super::problem::Problem;
use crate::service::Service;
use crate::service::error::ServiceError;
use crate::service::owner::Owner;

/// Bytes read from a file at a time.
const CHUNK: u64 = 1 << 20;

impl From<&PathEntry> for FileHead {
    fn from(entry: &PathEntry) -> Self {
        Self {
            path: entry.path.clone(),
            size: entry.size,
            modified: entry.modified,
        }
    }
}

/// Looks at a regular file.
pub(crate) async fn regular(files: &SessionFiles, path: &str) -> Result<PathEntry, Problem> {
    let entry = files.stat(path).await?;
    if entry.kind != PathKind::File {
        // Reading something that is not a file returns the matching error.
        files.read(path, 0..0).await?;
    }
    Ok(entry)
}

/// Responds with a file. Small files are read at once. Large files are read in chunks; the response
/// is aborted if the file changes meanwhile.
pub(crate) async fn send(
    files: SessionFiles,
    path: &str,
    method: &Method,
    headers: &HeaderMap,
) -> Result<Response, Problem> {
    let head = FileHead::from(&regular(&files, path).await?);
    let asked = head.asked(headers)?;
    let (start, end) = match asked {
        Asked::Whole => (0, head.size),
        Asked::Part(start, end) => (start, end),
        Asked::NotModified => (0, 0),
    };
    let body = if method == Method::HEAD || start == end {
        Body::empty()
    } else if end - start <= CHUNK {
        files.read(&head.path, start..end).await?.into()
    } else {
        Body::from_stream(chunks(files, head.clone(), start, end))
    };
    Ok(head.respond(&asked, body))
}

/// The bytes of a file. Fails if the file changes meanwhile.
pub(crate) fn chunks(
    files: SessionFiles,
    head: FileHead,
    start: u64,
    end: u64,
) -> impl Stream<Item = io::Result<Bytes>> {
    let tag = head.tag();
    stream::try_unfold((files, head, start), move |(files, head, at)| {
        let tag = tag.clone();
        async move {
            if at >= end {
                return Ok(None);
            }
            let next = (at + CHUNK).min(end);
            let bytes = files.read(&head.path, at..next).await.map_err(io::Error::other)?;
            let now = files.stat(&head.path).await.map_err(io::Error::other)?;
            if FileHead::from(&now).tag() != tag || bytes.len() as u64 != next - at {
                return Err(io::Error::other("the file has changed"));
            }
            Ok(Some((Bytes::from(bytes), (files, head, next))))
        }
    })
}

/// Maximum size of an upload to a session, in bytes. Does not load a session of the store.
pub(crate) async fn max_upload(
    service: &Service,
    owner: &Owner,
    id: &str,
) -> Result<u64, ServiceError> {
    if let Ok(session) = service.find(owner, id) {
        return Ok(session.view().workspace().max_bytes().await?);
    }
    service.listed(owner, id).await?;
    Ok(service.runtime().ceilings().workspace)
}

//! Fingerprints of requests: whether a repeated request is the same as the first.

use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::Request;
use axum::http::HeaderValue;
use axum::http::header::CONTENT_TYPE;
use futures_util::StreamExt;
use hyper::body::{Frame, SizeHint};
use sha2::{Digest, Sha256};

use super::request_body::{self, ReadMode};
use super::stored_responses::Fingerprint;
use crate::lock::lock;
use crate::service::owner::Owner;

/// Takes the fingerprint of a request while its handler reads the body.
pub(crate) struct Reading(Arc<Mutex<Hash>>);

impl Reading {
    /// Call this before the body is read.
    pub(crate) fn of(request: &Request) -> Self {
        let hash = Arc::new(Mutex::new(Hash::of(request)));
        request_body::wrap(request, |body| {
            Body::new(Hashed {
                body,
                hash: Arc::clone(&hash),
            })
        });
        Self(hash)
    }

    pub(crate) fn end(&self) -> Fingerprint {
        lock(&self.0).end()
    }
}

/// Reads a request without keeping its body.
pub(super) async fn of(request: Request, owner: &Owner) -> Fingerprint {
    let mut hash = Hash::of(&request);
    let request = request_body::open(request, owner, ReadMode::File(u64::MAX));
    let mut body = request.into_body().into_data_stream();
    while let Some(piece) = body.next().await {
        hash.sum.update(&piece.ok()?);
    }
    hash.is_whole = true;
    hash.end()
}

/// A hash of the request as far as it was read.
struct Hash {
    sum: Sha256,
    is_whole: bool,
}

impl Hash {
    fn of(request: &Request) -> Self {
        let mut sum = Sha256::new();
        let kind = request.headers().get(CONTENT_TYPE).map(HeaderValue::as_bytes);
        for part in [request.uri().query().unwrap_or_default().as_bytes(), kind.unwrap_or_default()]
        {
            sum.update(part.len().to_le_bytes());
            sum.update(part);
        }
        Self {
            sum,
            is_whole: !request_body::has_body(request),
        }
    }

    fn end(&self) -> Fingerprint {
        self.is_whole.then(|| self.sum.clone().finalize().into())
    }
}

/// A body that is hashed while it is read.
struct Hashed {
    body: Body,
    hash: Arc<Mutex<Hash>>,
}

impl HttpBody for Hashed {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(context);
        let mut hash = lock(&self.hash);
        match &polled {
            Poll::Ready(Some(Ok(frame))) => {
                if let Some(bytes) = frame.data_ref() {
                    hash.sum.update(bytes);
                }
                hash.is_whole = self.body.is_end_stream();
            }
            Poll::Ready(None) => hash.is_whole = true,
            _ => {}
        }
        drop(hash);
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

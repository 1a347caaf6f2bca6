//! Fingerprints of requests: whether a repeated request is the same as the first.

use std::sync::{Arc, Mutex};

use axum::extract::Request;
use axum::http::HeaderValue;
use axum::http::header::CONTENT_TYPE;
use futures_util::StreamExt;
use sha2::{Digest, Sha256};

use super::request_body::{self, ReadMode};
use super::stored_responses::Fingerprint;
use super::watched_body::watched;
use crate::lock::lock;
use crate::service::owner::Owner;

/// Takes the fingerprint of a request while its handler reads the body.
pub(crate) struct Reading(Arc<Mutex<Hash>>);

impl Reading {
    /// Call this before the body is read.
    pub(crate) fn of(request: &Request) -> Self {
        let hash = Arc::new(Mutex::new(Hash::of(request)));
        let read = Arc::clone(&hash);
        request_body::wrap(request, |body| {
            watched(body, move |piece, is_end| {
                let mut hash = lock(&read);
                hash.sum.update(piece);
                hash.is_whole = is_end;
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

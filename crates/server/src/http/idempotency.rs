//! `Idempotency-Key`: repeating a request returns the first response and creates nothing new.

use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::{Request, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderName, HeaderValue, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures_util::StreamExt;
use hyper::body::{Frame, SizeHint};
use sha2::{Digest, Sha256};
use tracing::Instrument;

use super::app::App;
use super::problem::Problem;
use super::request_body::{self, ReadMode};
use super::stored_responses::{Fingerprint, InProgress, Lookup};
use super::{access, identity};
use crate::lock::lock;
use crate::service::owner::Owner;

const KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// Maximum size of a stored response body, in bytes.
const MAX_BODY: u64 = 1 << 20;
/// Maximum length of a key.
const MAX_KEY: usize = 255;

/// Why a request with a key is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// The key is invalid.
    Key,
    /// The first request with this key is still in progress.
    InProgress,
    /// The first request with this key was different.
    Other,
}

impl Refused {
    pub(crate) fn status(self) -> StatusCode {
        match self {
            Self::Key => StatusCode::BAD_REQUEST,
            Self::InProgress => StatusCode::CONFLICT,
            Self::Other => StatusCode::UNPROCESSABLE_ENTITY,
        }
    }

    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::Key => "an Idempotency-Key must have 1 to 255 characters",
            Self::InProgress => "a request with this Idempotency-Key is in progress",
            Self::Other => "this Idempotency-Key was used for another request",
        }
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        Problem::new(self.status(), "idempotency_key", self.text()).into_response()
    }
}

/// Stores the responses of POST requests that have a key and create something. Such requests run to
/// completion even if the client disconnects.
pub(crate) async fn remember(State(app): State<App>, request: Request, next: Next) -> Response {
    remember_as(app, request, next, Refused::into_response).await
}

/// The same for a face with its own error format.
pub(crate) async fn remember_as(
    app: App,
    request: Request,
    next: Next,
    refuse: fn(Refused) -> Response,
) -> Response {
    let Some(key) = request.headers().get(KEY).filter(|_| request.method() == Method::POST) else {
        return next.run(request).await;
    };
    let (Ok(key), Some(owner)) = (key.to_str(), app.keys().owner_of(request.headers())) else {
        return next.run(request).await;
    };
    if key.is_empty() || key.len() > MAX_KEY {
        return refuse(Refused::Key);
    }
    let full = format!("{}\n{key}", request.uri().path());
    match app.stored_responses().begin(app.service(), &owner, &full).await {
        Lookup::Stored(answer) => {
            let is_same =
                answer.fingerprint.is_none() || answer.fingerprint == hash(request, &owner).await;
            if is_same {
                answer.replay()
            } else {
                refuse(Refused::Other)
            }
        }
        Lookup::InProgress => refuse(Refused::InProgress),
        Lookup::New(under_way) => {
            // If the client disconnects, the response is still stored.
            let revoked = identity::revocation().unwrap_or_default();
            let answering = async move {
                let answered = revoked.run_until_cancelled(answer(under_way, request, next)).await;
                answered.unwrap_or_else(access::revoked)
            };
            let answering = tokio::spawn(answering.in_current_span());
            answering.await.unwrap_or_else(|lost| match lost.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                Err(_) => Problem::internal("the request failed unexpectedly").into_response(),
            })
        }
    }
}

/// Handles the first request with a key.
async fn answer(under_way: InProgress, request: Request, next: Next) -> Response {
    let hash = Arc::new(Mutex::new(Hash::of(&request)));
    request_body::wrap(&request, |body| {
        Body::new(Hashed {
            body,
            hash: Arc::clone(&hash),
        })
    });
    let response = next.run(request).await;
    let length = response.body().size_hint().exact();
    if response.status() != StatusCode::CREATED || length.is_none_or(|length| length > MAX_BODY) {
        return response;
    }
    let (head, body) = response.into_parts();
    let Ok(bytes) = axum::body::to_bytes(body, MAX_BODY as usize).await else {
        return Problem::internal("the response was lost").into_response();
    };
    let fingerprint = lock(&hash).end();
    under_way.store(&head, bytes.clone(), fingerprint);
    Response::from_parts(head, Body::from(bytes))
}

/// Reads and hashes a request without keeping its body; `None` if the body is incomplete.
async fn hash(request: Request, owner: &Owner) -> Fingerprint {
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

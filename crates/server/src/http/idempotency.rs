//! `Idempotency-Key`: a request that is sent again because its answer was lost gets that answer, and makes
//! nothing a second time.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
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
use super::remembered::{Begin, Fingerprint, UnderWay};
use super::sealed::{self, Reading};
use crate::service::owner::Owner;

const KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// The longest body of an answer that is remembered.
const MAX_BODY: u64 = 1 << 20;
/// The longest key.
const MAX_KEY: usize = 255;

/// Why a request with a key is not answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// The key is invalid.
    Key,
    /// The first request of this key has no answer yet.
    UnderWay,
    /// The first request of this key asked for something else.
    Other,
}

impl Refused {
    pub(crate) fn status(self) -> StatusCode {
        match self {
            Self::Key => StatusCode::BAD_REQUEST,
            Self::UnderWay => StatusCode::CONFLICT,
            Self::Other => StatusCode::UNPROCESSABLE_ENTITY,
        }
    }

    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::Key => "an Idempotency-Key has 1 to 255 characters",
            Self::UnderWay => "a request with this Idempotency-Key is under way",
            Self::Other => "this Idempotency-Key was sent before with another request",
        }
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        Problem::new(self.status(), "idempotency_key", self.text()).into_response()
    }
}

/// Remembers what POST requests with a key were answered, where they made something. For routes that create:
/// such a request goes on to its end when its client leaves.
pub(crate) async fn remember(State(app): State<App>, request: Request, next: Next) -> Response {
    remember_as(app, request, next, Refused::into_response).await
}

/// The same for a face with errors of its own shape.
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
    match app.remembered().begin(app.service(), &owner, &full).await {
        Begin::Answered(answer) => {
            let is_same =
                answer.fingerprint.is_none() || answer.fingerprint == hash(request, &owner).await;
            if is_same {
                answer.again()
            } else {
                refuse(Refused::Other)
            }
        }
        Begin::UnderWay => refuse(Refused::UnderWay),
        Begin::New(under_way) => {
            // The client may leave: what was made by then is remembered all the same.
            let answering = tokio::spawn(answer(under_way, request, next).in_current_span());
            answering.await.unwrap_or_else(|lost| match lost.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                Err(_) => Problem::internal("the request was lost").into_response(),
            })
        }
    }
}

/// Answers the first request of a key.
async fn answer(under_way: UnderWay, request: Request, next: Next) -> Response {
    let hash = Arc::new(Mutex::new(Hash::of(&request)));
    sealed::wrap(&request, |body| {
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
        return Problem::internal("the answer was lost").into_response();
    };
    let fingerprint = hash.lock().unwrap_or_else(PoisonError::into_inner).end();
    under_way.answered(&head, bytes.clone(), fingerprint);
    Response::from_parts(head, Body::from(bytes))
}

/// The fingerprint of a request, whose body is read for that and not kept; `None` when it ends early.
async fn hash(request: Request, owner: &Owner) -> Fingerprint {
    let mut hash = Hash::of(&request);
    let request = sealed::open(request, owner, Reading::File(u64::MAX));
    let mut body = request.into_body().into_data_stream();
    while let Some(piece) = body.next().await {
        hash.sum.update(&piece.ok()?);
    }
    hash.is_whole = true;
    hash.end()
}

/// The hash of a request, of which as much was read.
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
            is_whole: !sealed::has_body(request),
        }
    }

    fn end(&self) -> Fingerprint {
        self.is_whole.then(|| self.sum.clone().finalize().into())
    }
}

/// A body that is hashed as it is read.
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
        let mut hash = self.hash.lock().unwrap_or_else(PoisonError::into_inner);
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

//! `Idempotency-Key`: repeating a request returns the first response and creates nothing new.

use axum::body::{Body, HttpBody};
use axum::extract::{Request, State};
use axum::http::{HeaderName, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use tracing::Instrument;

use super::app::App;
use super::problem::Problem;
use super::stored_responses::{InProgress, Lookup};
use super::{access, fingerprint, identity};

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
            let is_same = answer.fingerprint.is_none()
                || answer.fingerprint == fingerprint::of(request, &owner).await;
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
    let reading = fingerprint::Reading::of(&request);
    let response = next.run(request).await;
    let length = response.body().size_hint().exact();
    if response.status() != StatusCode::CREATED || length.is_none_or(|length| length > MAX_BODY) {
        return response;
    }
    let (head, body) = response.into_parts();
    let Ok(bytes) = axum::body::to_bytes(body, MAX_BODY as usize).await else {
        return Problem::internal("the response was lost").into_response();
    };
    under_way.store(&head, bytes.clone(), reading.end());
    Response::from_parts(head, Body::from(bytes))
}

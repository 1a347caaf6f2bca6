//! `Idempotency-Key`: a request that is sent again because its answer was lost gets that answer, and makes
//! nothing a second time.

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderName, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::app::App;
use super::problem::Problem;
use super::remembered::Begin;

const KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// The longest body of an answer that is remembered.
const MAX_BODY: usize = 64 << 10;
/// The longest key.
const MAX_KEY: usize = 255;

/// Why a request with a key is not answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// The key is none.
    Key,
    /// The first request of this key has no answer yet.
    UnderWay,
}

impl Refused {
    pub(crate) fn status(self) -> StatusCode {
        match self {
            Self::Key => StatusCode::BAD_REQUEST,
            Self::UnderWay => StatusCode::CONFLICT,
        }
    }

    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::Key => "an Idempotency-Key has 1 to 255 characters",
            Self::UnderWay => "a request with this Idempotency-Key is under way",
        }
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        Problem::new(self.status(), "idempotency_key", self.text()).into_response()
    }
}

/// Remembers what POST requests with a key were answered, where they made something. For routes that create.
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
    let full = format!("{}\n{}\n{key}", owner.name(), request.uri().path());
    match app.remembered().begin(&full) {
        Begin::Answered(answer) => return answer,
        Begin::UnderWay => return refuse(Refused::UnderWay),
        Begin::New => {}
    }
    // A client that leaves in the middle may come again with the same key.
    let mut begun = Begun {
        app: &app,
        key: Some(full),
    };
    let response = next.run(request).await;
    if response.status() != StatusCode::CREATED {
        return response;
    }
    let (head, body) = response.into_parts();
    let Ok(bytes) = axum::body::to_bytes(body, MAX_BODY).await else {
        return Problem::internal("the answer is too long to be remembered").into_response();
    };
    if let Some(key) = begun.key.take() {
        app.remembered().answered(key, &head, bytes.clone());
    }
    Response::from_parts(head, Body::from(bytes))
}

/// A request that is under way, and forgotten when it made nothing.
struct Begun<'a> {
    app: &'a App,
    key: Option<String>,
}

impl Drop for Begun<'_> {
    fn drop(&mut self) {
        if let Some(key) = &self.key {
            self.app.remembered().forget(key);
        }
    }
}

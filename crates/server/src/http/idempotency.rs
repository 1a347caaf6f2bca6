//! `Idempotency-Key`: a request that is sent again because its answer was lost gets that answer, and makes
//! nothing a second time.

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderName, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::app::App;
use super::problem::Problem;

const KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// The longest body of an answer that is remembered.
const MAX_BODY: usize = 64 << 10;
/// The longest key.
const MAX_KEY: usize = 255;

/// Remembers what POST requests with a key were answered, where they made something. For routes that create.
pub(crate) async fn remember(State(app): State<App>, request: Request, next: Next) -> Response {
    let Some(key) = request.headers().get(KEY).filter(|_| request.method() == Method::POST) else {
        return next.run(request).await;
    };
    let (Ok(key), Some(owner)) = (key.to_str(), app.keys().owner_of(request.headers())) else {
        return next.run(request).await;
    };
    if key.is_empty() || key.len() > MAX_KEY {
        let detail = "an Idempotency-Key has 1 to 255 characters";
        return Problem::new(StatusCode::BAD_REQUEST, "idempotency_key", detail).into_response();
    }
    let full = format!("{}\n{}\n{key}", owner.name(), request.uri().path());
    if let Some(answer) = app.remembered().begin(&full) {
        return answer;
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
        app.remembered().answered(key, head.status, head.headers.clone(), bytes.clone());
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

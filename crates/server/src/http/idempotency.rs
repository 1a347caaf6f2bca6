//! `Idempotency-Key`: a request that is sent again because its answer was lost gets that answer, and makes
//! nothing a second time.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;

use super::app::App;
use super::problem::Problem;

const KEY: HeaderName = HeaderName::from_static("idempotency-key");
const REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");

/// How long an answer is remembered.
const TIME: Duration = Duration::from_hours(24);
/// The most answers that are remembered; the oldest goes for another.
const MAX_ANSWERS: usize = 10_000;
/// The longest body of an answer that is remembered.
const MAX_BODY: usize = 64 << 10;
/// The longest key.
const MAX_KEY: usize = 255;

/// Answers by owner, path and key.
#[derive(Default)]
pub(crate) struct Remembered(Mutex<Answers>);

#[derive(Default)]
struct Answers {
    by_key: HashMap<String, Entry>,
    /// Keys in the order in which they came.
    order: VecDeque<(Instant, String)>,
}

enum Entry {
    /// The first request is under way.
    UnderWay,
    Answered(StatusCode, HeaderMap, Bytes),
}

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
        app.remembered()
            .lock()
            .by_key
            .insert(key, Entry::Answered(head.status, head.headers.clone(), bytes.clone()));
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
            self.app.remembered().lock().by_key.remove(key);
        }
    }
}

impl Remembered {
    /// The answer to a request that was there before; otherwise it is entered.
    fn begin(&self, key: &str) -> Option<Response> {
        let mut answers = self.lock();
        answers.forget();
        match answers.by_key.get(key) {
            Some(Entry::UnderWay) => {
                let detail = "a request with this Idempotency-Key is under way";
                let problem = Problem::new(StatusCode::CONFLICT, "idempotency_key", detail);
                Some(problem.into_response())
            }
            Some(Entry::Answered(status, headers, body)) => {
                let mut headers = headers.clone();
                headers.insert(REPLAYED, HeaderValue::from_static("true"));
                Some((*status, headers, body.clone()).into_response())
            }
            None => {
                answers.by_key.insert(key.to_owned(), Entry::UnderWay);
                answers.order.push_back((Instant::now(), key.to_owned()));
                None
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Answers> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Answers {
    fn forget(&mut self) {
        while let Some((when, _)) = self.order.front()
            && (when.elapsed() > TIME || self.order.len() >= MAX_ANSWERS)
        {
            if let Some((_, key)) = self.order.pop_front() {
                self.by_key.remove(&key);
            }
        }
    }
}

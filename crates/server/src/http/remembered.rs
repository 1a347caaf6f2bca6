//! Answers that are remembered, for requests that are sent again.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use axum::http::response::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;

const REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");
/// How long an answer is remembered.
const TIME: Duration = Duration::from_hours(24);
/// The most answers that are remembered; the oldest goes for another.
const MAX_ANSWERS: usize = 10_000;

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
    Answered(Answer),
}

struct Answer {
    status: StatusCode,
    headers: HeaderMap,
    body: Bytes,
    /// What it made, where that may end before the answer is forgotten.
    made: Option<WhileThere>,
}

/// Put into a response that made something: the answer is given again as long as that is there.
#[derive(Clone)]
pub(crate) struct WhileThere(Arc<dyn Fn() -> bool + Send + Sync>);

impl WhileThere {
    pub(crate) fn new(is_there: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Self(Arc::new(is_there))
    }

    fn is_there(&self) -> bool {
        (self.0)()
    }
}

/// What becomes of a request with a key.
pub(super) enum Begin {
    /// It is the first one, and was entered.
    New,
    /// The first one has no answer yet.
    UnderWay,
    /// The answer that the first one had.
    Answered(Response),
}

impl Remembered {
    /// The answer to a request that was there before; otherwise it is entered.
    pub(super) fn begin(&self, key: &str) -> Begin {
        let mut answers = self.lock();
        answers.forget();
        match answers.by_key.get(key) {
            Some(Entry::UnderWay) => Begin::UnderWay,
            Some(Entry::Answered(answer)) if answer.is_valid() => Begin::Answered(answer.again()),
            _ => {
                answers.by_key.insert(key.to_owned(), Entry::UnderWay);
                answers.order.push_back((Instant::now(), key.to_owned()));
                Begin::New
            }
        }
    }

    /// The request of that key was answered so.
    pub(super) fn answered(&self, key: String, head: &Parts, body: Bytes) {
        let answer = Answer {
            status: head.status,
            headers: head.headers.clone(),
            body,
            made: head.extensions.get().cloned(),
        };
        self.lock().by_key.insert(key, Entry::Answered(answer));
    }

    /// The request of that key made nothing.
    pub(super) fn forget(&self, key: &str) {
        self.lock().by_key.remove(key);
    }

    fn lock(&self) -> MutexGuard<'_, Answers> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Answer {
    fn is_valid(&self) -> bool {
        self.made.as_ref().is_none_or(WhileThere::is_there)
    }

    fn again(&self) -> Response {
        let mut headers = self.headers.clone();
        headers.insert(REPLAYED, HeaderValue::from_static("true"));
        (self.status, headers, self.body.clone()).into_response()
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

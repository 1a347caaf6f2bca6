//! Answers that are remembered, for requests that are sent again.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;

use super::problem::Problem;

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
    Answered(StatusCode, HeaderMap, Bytes),
}

impl Remembered {
    /// The answer to a request that was there before; otherwise it is entered.
    pub(super) fn begin(&self, key: &str) -> Option<Response> {
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

    /// The request of that key was answered so.
    pub(super) fn answered(
        &self,
        key: String,
        status: StatusCode,
        headers: HeaderMap,
        body: Bytes,
    ) {
        self.lock().by_key.insert(key, Entry::Answered(status, headers, body));
    }

    /// The request of that key made nothing.
    pub(super) fn forget(&self, key: &str) {
        self.lock().by_key.remove(key);
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

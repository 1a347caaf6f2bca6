//! Answers that are remembered, for requests that are sent again.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::http::response::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;

use crate::service::Service;
use crate::service::error::Class;
use crate::service::owner::Owner;
use crate::service::shelf::Kept;

const REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");

/// The requests with a key that are under way, by owner, path and key. Their answers are on their owners'
/// shelves; a request that is under way is never forgotten for another.
#[derive(Clone, Default)]
pub(crate) struct Remembered(Arc<Mutex<HashSet<Name>>>);

/// Whose request it is, and its path and key.
type Name = (String, String);

/// What tells one request from another with the same key: a hash of what was asked. `None` where the first
/// one's body was not read to its end.
pub(super) type Fingerprint = Option<[u8; 32]>;

/// An answer that made something.
pub(super) struct Answer {
    status: StatusCode,
    headers: HeaderMap,
    body: Bytes,
    pub(super) fingerprint: Fingerprint,
    /// What it made, where that may end before the answer is forgotten.
    made: Option<WhileThere>,
}

impl Kept for Answer {
    const TIME: Duration = Duration::from_hours(24);
    const MOST: usize = 10_000;

    fn memory(&self) -> u64 {
        let headers = self.headers.iter().map(|(name, value)| name.as_str().len() + value.len());
        (self.body.len() + headers.sum::<usize>()) as u64
    }
}

/// Put into a response that made something: the answer is given again as long as that is there.
#[derive(Clone)]
pub(crate) enum WhileThere {
    /// A session of the asker's, by its id or name.
    Session(String),
    /// Something that is not known to the service.
    Other(Arc<dyn Fn() -> bool + Send + Sync>),
}

/// What becomes of a request with a key.
pub(super) enum Begin {
    /// It is the first one, and was entered.
    New(UnderWay),
    /// The first one has no answer yet.
    UnderWay,
    /// The answer that the first one had.
    Answered(Arc<Answer>),
}

/// A request that is under way. Dropped, it is over; it made nothing unless it was answered.
pub(super) struct UnderWay {
    remembered: Remembered,
    service: Service,
    owner: Owner,
    name: Name,
}

impl Remembered {
    /// The answer to a request that was there before; otherwise it is entered.
    pub(super) async fn begin(&self, service: &Service, owner: &Owner, key: &str) -> Begin {
        let mut gone = None;
        loop {
            let begin = self.enter(service, owner, key, gone.as_ref());
            match begin {
                Begin::Answered(answer) if !answer.is_valid(service, owner).await => {
                    gone = Some(answer);
                }
                other => return other,
            }
        }
    }

    /// Enters a request, unless it is under way or has an answer that is not the one which is `gone`.
    fn enter(
        &self,
        service: &Service,
        owner: &Owner,
        key: &str,
        gone: Option<&Arc<Answer>>,
    ) -> Begin {
        let name = (owner.name().to_owned(), key.to_owned());
        let mut under_way = self.lock();
        if under_way.contains(&name) {
            return Begin::UnderWay;
        }
        if let Some(answer) = service.shelved::<Answer>(owner, key)
            && gone.is_none_or(|gone| !Arc::ptr_eq(gone, &answer))
        {
            return Begin::Answered(answer);
        }
        under_way.insert(name.clone());
        Begin::New(UnderWay {
            remembered: self.clone(),
            service: service.clone(),
            owner: owner.clone(),
            name,
        })
    }

    fn lock(&self) -> MutexGuard<'_, HashSet<Name>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl UnderWay {
    /// The request was answered so.
    pub(super) fn answered(self, head: &Parts, body: Bytes, fingerprint: Fingerprint) {
        let answer = Answer {
            status: head.status,
            headers: head.headers.clone(),
            body,
            fingerprint,
            made: head.extensions.get().cloned(),
        };
        // One for which its owner has no room is not remembered.
        self.service.shelve(&self.owner, &self.name.1, Arc::new(answer));
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.remembered.lock().remove(&self.name);
    }
}

impl Answer {
    async fn is_valid(&self, service: &Service, owner: &Owner) -> bool {
        match &self.made {
            Some(WhileThere::Session(id)) => has_session(service, owner, id).await,
            Some(WhileThere::Other(is_there)) => is_there(),
            None => true,
        }
    }

    pub(super) fn again(&self) -> Response {
        let mut headers = self.headers.clone();
        headers.insert(REPLAYED, HeaderValue::from_static("true"));
        (self.status, headers, self.body.clone()).into_response()
    }
}

/// Whether somebody has a session, here or in the store. A store that fails has lost nothing.
async fn has_session(service: &Service, owner: &Owner, id: &str) -> bool {
    match service.listed(owner, id).await {
        Ok(_) => true,
        Err(error) => error.class() != Class::NotFound,
    }
}

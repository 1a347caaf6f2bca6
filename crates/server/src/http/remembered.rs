//! Stored responses for repeated requests.

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

/// Requests with a key in progress, by owner, path and key. Their responses are in their owners'
/// caches; a request in progress is never evicted.
#[derive(Clone, Default)]
pub(crate) struct Remembered(Arc<Mutex<HashSet<Name>>>);

/// Owner, and path with key.
type Name = (String, String);

/// Hash of a request, which detects a different request with the same key. `None` if the first
/// request's body was incomplete.
pub(super) type Fingerprint = Option<[u8; 32]>;

/// A response that created something.
pub(super) struct Answer {
    status: StatusCode,
    headers: HeaderMap,
    body: Bytes,
    pub(super) fingerprint: Fingerprint,
    /// The created object, if it can end before the response expires.
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

/// Extension of a response that created something: the response is repeated only while the object
/// exists.
#[derive(Clone)]
pub(crate) enum WhileThere {
    /// A session of the owner, by id or name.
    Session(String),
    /// Any other object.
    Other(Arc<dyn Fn() -> bool + Send + Sync>),
}

/// The state of a request with a key.
pub(super) enum Begin {
    /// The first request, now registered.
    New(UnderWay),
    /// The first request is still in progress.
    UnderWay,
    /// The stored response.
    Answered(Arc<Answer>),
}

/// A request in progress. Dropping it ends it. Without a stored response, it created nothing.
pub(super) struct UnderWay {
    remembered: Remembered,
    service: Service,
    owner: Owner,
    name: Name,
}

impl Remembered {
    /// Looks up a request and registers it if it is new.
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

    /// Registers a request unless it is in progress or has a stored response other than `gone`.
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
    /// Stores the response.
    pub(super) fn answered(self, head: &Parts, body: Bytes, fingerprint: Fingerprint) {
        let answer = Answer {
            status: head.status,
            headers: head.headers.clone(),
            body,
            fingerprint,
            made: head.extensions.get().cloned(),
        };
        // The response is not stored if it exceeds its owner's limit.
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

/// Whether an owner has a session, here or in the store. If the store fails, the session is assumed
/// to exist.
async fn has_session(service: &Service, owner: &Owner, id: &str) -> bool {
    match service.listed(owner, id).await {
        Ok(_) => true,
        Err(error) => error.class() != Class::NotFound,
    }
}

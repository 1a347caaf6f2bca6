//! Stored responses for repeated requests.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use axum::http::response::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;

use crate::lock::lock;
use crate::service::Service;
use crate::service::cache::Cached;
use crate::service::error::Class;
use crate::service::owner::Owner;

const REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");

/// Requests with a key in progress, by owner, path and key. Their responses are in their owners'
/// caches; a request in progress is never evicted.
#[derive(Clone, Default)]
pub(crate) struct StoredResponses(Arc<Mutex<HashSet<Name>>>);

/// A hash of a request's query, media type and body; `None` if the body was not read to its end.
pub(crate) type Fingerprint = Option<[u8; 32]>;

/// Owner, and path with key.
type Name = (String, String);

/// A response that created something.
pub(super) struct StoredResponse {
    status: StatusCode,
    headers: HeaderMap,
    body: Bytes,
    pub(super) fingerprint: Fingerprint,
    /// The created object, if it can end before the response expires.
    made: Option<ValidWhile>,
}

impl Cached for StoredResponse {
    const TIME: Duration = Duration::from_hours(24);
    const MAX: usize = 10_000;

    fn memory(&self) -> u64 {
        let headers = self.headers.iter().map(|(name, value)| name.as_str().len() + value.len());
        (self.body.len() + headers.sum::<usize>()) as u64
    }
}

/// Extension of a response that created something: the response is repeated only while the object
/// exists.
#[derive(Clone)]
pub(crate) enum ValidWhile {
    /// A session of the owner, by id or name.
    Session(String),
    /// Any other object.
    Other(Arc<dyn Fn() -> bool + Send + Sync>),
}

/// The state of a request with a key.
pub(super) enum Lookup {
    /// The first request, now registered.
    New(InProgress),
    /// The first request is still in progress.
    InProgress,
    /// The stored response.
    Stored(Arc<StoredResponse>),
}

/// A request in progress. Dropping it ends it. Without a stored response, it created nothing.
pub(super) struct InProgress {
    remembered: StoredResponses,
    service: Service,
    owner: Owner,
    name: Name,
}

impl StoredResponses {
    /// Looks up a request and registers it if it is new.
    pub(super) async fn begin(&self, service: &Service, owner: &Owner, key: &str) -> Lookup {
        let mut gone = None;
        loop {
            let begin = self.register(service, owner, key, gone.as_ref());
            match begin {
                Lookup::Stored(answer) if !answer.is_valid(service, owner).await => {
                    gone = Some(answer);
                }
                other => return other,
            }
        }
    }

    /// Registers a request unless it is in progress or has a stored response other than `gone`.
    fn register(
        &self,
        service: &Service,
        owner: &Owner,
        key: &str,
        gone: Option<&Arc<StoredResponse>>,
    ) -> Lookup {
        let name = (owner.name().to_owned(), key.to_owned());
        let mut under_way = self.lock();
        if under_way.contains(&name) {
            return Lookup::InProgress;
        }
        if let Some(answer) = service.cached::<StoredResponse>(owner, key)
            && gone.is_none_or(|gone| !Arc::ptr_eq(gone, &answer))
        {
            return Lookup::Stored(answer);
        }
        under_way.insert(name.clone());
        Lookup::New(InProgress {
            remembered: self.clone(),
            service: service.clone(),
            owner: owner.clone(),
            name,
        })
    }

    fn lock(&self) -> MutexGuard<'_, HashSet<Name>> {
        lock(&self.0)
    }
}

impl InProgress {
    /// Stores the response.
    pub(super) fn store(self, head: &Parts, body: Bytes, fingerprint: Fingerprint) {
        let answer = StoredResponse {
            status: head.status,
            headers: head.headers.clone(),
            body,
            fingerprint,
            made: head.extensions.get().cloned(),
        };
        // The response is not stored if it exceeds its owner's limit.
        self.service.cache(&self.owner, &self.name.1, Arc::new(answer));
    }
}

impl Drop for InProgress {
    fn drop(&mut self) {
        self.remembered.lock().remove(&self.name);
    }
}

impl StoredResponse {
    async fn is_valid(&self, service: &Service, owner: &Owner) -> bool {
        match &self.made {
            Some(ValidWhile::Session(id)) => has_session(service, owner, id).await,
            Some(ValidWhile::Other(is_there)) => is_there(),
            None => true,
        }
    }

    pub(super) fn replay(&self) -> Response {
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

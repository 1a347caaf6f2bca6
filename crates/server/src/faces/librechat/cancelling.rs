//! Cancellation of requests by ids that clients choose.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::lock::lock;
use crate::service::Service;
use crate::service::cache::Cached;
use crate::service::owner::Owner;

/// Requests in progress. Clones share the same state.
#[derive(Clone, Default)]
pub(super) struct Requests(Arc<Mutex<HashMap<Name, CancellationToken>>>);

/// A request that was cancelled before it arrived.
struct Early;

impl Cached for Early {
    const TIME: Duration = Duration::from_mins(1);
    const MAX: usize = 1_000;

    fn memory(&self) -> u64 {
        0
    }
}

/// Owner and id of a request.
type Name = (String, String);

/// A request in progress. Dropping it removes it from the list.
pub(super) struct Running {
    requests: Requests,
    name: Name,
    token: CancellationToken,
}

impl Requests {
    /// Whether a text is a valid id.
    pub(super) fn is_id(text: &str) -> bool {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.:".contains(c);
        (1..=128).contains(&text.len()) && text.chars().all(is_plain)
    }

    /// Registers a request. Returns `None` if its id is in use.
    pub(super) fn begin(&self, service: &Service, owner: &Owner, id: &str) -> Option<Running> {
        let name = (owner.name().to_owned(), id.to_owned());
        let token = CancellationToken::new();
        let mut known = self.known();
        if known.contains_key(&name) {
            return None;
        }
        if service.uncache::<Early>(owner, id).is_some() {
            token.cancel();
        }
        known.insert(name.clone(), token.clone());
        Some(Running {
            requests: self.clone(),
            name,
            token,
        })
    }

    /// Cancels a request, even before it arrives.
    pub(super) fn cancel(&self, service: &Service, owner: &Owner, id: &str) {
        let known = self.known();
        match known.get(&(owner.name().to_owned(), id.to_owned())) {
            Some(token) => token.cancel(),
            None => drop(service.cache(owner, id, Arc::new(Early))),
        }
    }

    fn known(&self) -> MutexGuard<'_, HashMap<Name, CancellationToken>> {
        lock(&self.0)
    }
}

impl Running {
    /// Resolves when the request is cancelled.
    pub(super) async fn cancelled(&self) {
        self.token.cancelled().await;
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.requests.known().remove(&self.name);
    }
}

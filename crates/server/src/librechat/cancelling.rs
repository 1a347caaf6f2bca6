//! Requests that their callers can cancel by an id of their own.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

/// How long a request is known that was cancelled before it came.
const KEPT: Duration = Duration::from_mins(1);

/// As many of these are known at once.
const MAX_EARLY: usize = 10_000;

/// The requests that are under way. Cheap to clone; clones are the same.
#[derive(Clone, Default)]
pub(super) struct Requests(Arc<Mutex<Known>>);

#[derive(Default)]
struct Known {
    running: HashMap<Name, CancellationToken>,
    /// Those that were cancelled before they came.
    early: HashMap<Name, Instant>,
}

/// Whose request it is, and its id.
type Name = (String, String);

/// A request that is under way; dropped, it is over.
pub(super) struct Running {
    requests: Requests,
    name: Name,
    token: CancellationToken,
}

impl Requests {
    /// Whether a text can be an id.
    pub(super) fn is_id(text: &str) -> bool {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.:".contains(c);
        (1..=128).contains(&text.len()) && text.chars().all(is_plain)
    }

    /// Begins a request. `None` when one of that name is under way already.
    pub(super) fn begin(&self, owner: &str, id: &str) -> Option<Running> {
        let name = (owner.to_owned(), id.to_owned());
        let token = CancellationToken::new();
        let mut known = self.known();
        if known.running.contains_key(&name) {
            return None;
        }
        if known.early.remove(&name).is_some() {
            token.cancel();
        }
        known.running.insert(name.clone(), token.clone());
        Some(Running {
            requests: self.clone(),
            name,
            token,
        })
    }

    /// Cancels a request, now or when it comes.
    pub(super) fn cancel(&self, owner: &str, id: &str) {
        let name = (owner.to_owned(), id.to_owned());
        let mut known = self.known();
        if let Some(token) = known.running.get(&name) {
            token.cancel();
            return;
        }
        known.early.retain(|_, since| since.elapsed() < KEPT);
        if known.early.len() < MAX_EARLY {
            known.early.insert(name, Instant::now());
        }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Running {
    /// Resolves when it is cancelled.
    pub(super) async fn cancelled(&self) {
        self.token.cancelled().await;
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.requests.known().running.remove(&self.name);
    }
}

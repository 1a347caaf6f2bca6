//! Locking that ignores poisoning: a panic of one request must not fail the others.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use tokio::sync::OwnedMutexGuard;

/// Locks a mutex, even if a thread panicked while it held the lock.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A lock for each session, which exists while it is used.
#[derive(Default)]
pub(crate) struct Turns(Mutex<HashMap<String, Weak<tokio::sync::Mutex<()>>>>);

impl Turns {
    /// Waits for the turn of the session `id`.
    pub(crate) async fn of(&self, id: &str) -> OwnedMutexGuard<()> {
        let turn = {
            let mut turns = lock(&self.0);
            turns.retain(|_, turn| turn.strong_count() > 0);
            turns.get(id).and_then(Weak::upgrade).unwrap_or_else(|| {
                let turn = Arc::default();
                turns.insert(id.to_owned(), Arc::downgrade(&turn));
                turn
            })
        };
        turn.lock_owned().await
    }
}

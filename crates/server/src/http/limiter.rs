//! A limiter with a total limit and a lower limit per owner, so that one key cannot exhaust it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::lock::lock;

/// Number of owners after which idle entries are removed.
const TIDY: usize = 256;

/// The limiter.
pub(crate) struct Limiter {
    all: Arc<Semaphore>,
    each: usize,
    owners: Mutex<HashMap<String, Weak<Semaphore>>>,
}

/// A permit, released on drop.
pub(crate) struct Permit {
    _own: OwnedSemaphorePermit,
    _all: OwnedSemaphorePermit,
}

impl Limiter {
    /// Creates a limiter of `all` units, of which each owner can hold `each`.
    pub(crate) fn new(all: usize, each: usize) -> Self {
        Self {
            all: Arc::new(Semaphore::new(all.min(Semaphore::MAX_PERMITS))),
            each: each.min(all).min(Semaphore::MAX_PERMITS),
            owners: Mutex::default(),
        }
    }

    /// Acquires `units` for an owner; `None` if they are not available now.
    pub(crate) fn try_acquire(&self, owner: &str, units: u32) -> Option<Permit> {
        Some(Permit {
            _own: self.of(owner).try_acquire_many_owned(units).ok()?,
            _all: Arc::clone(&self.all).try_acquire_many_owned(units).ok()?,
        })
    }

    /// Acquires `units` for an owner; `None` if they are not available within `patience`.
    pub(crate) async fn acquire(
        &self,
        owner: &str,
        units: u32,
        patience: Duration,
    ) -> Option<Permit> {
        // The owner's own limit comes first, so that waiting for it holds nothing of the total.
        let taken = async {
            Some(Permit {
                _own: self.of(owner).acquire_many_owned(units).await.ok()?,
                _all: Arc::clone(&self.all).acquire_many_owned(units).await.ok()?,
            })
        };
        tokio::time::timeout(patience, taken).await.ok().flatten()
    }

    fn of(&self, owner: &str) -> Arc<Semaphore> {
        let mut owners = lock(&self.owners);
        if let Some(known) = owners.get(owner).and_then(Weak::upgrade) {
            return known;
        }
        if owners.len() >= TIDY {
            owners.retain(|_, permit| permit.strong_count() > 0);
        }
        let created = Arc::new(Semaphore::new(self.each));
        owners.insert(owner.to_owned(), Arc::downgrade(&created));
        created
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_has_its_share_and_leaves_the_rest() {
        let limiter = Limiter::new(10, 6);
        let first = limiter.try_acquire("a", 6).unwrap();
        assert!(limiter.try_acquire("a", 1).is_none(), "a has its share");
        let second = limiter.try_acquire("b", 4).unwrap();
        assert!(limiter.try_acquire("c", 1).is_none(), "nothing is left");
        drop(first);
        assert!(limiter.try_acquire("c", 6).is_some());
        drop(second);
        assert!(limiter.try_acquire("b", 6).is_some());
    }

    #[tokio::test]
    async fn a_share_that_becomes_free_is_had_by_those_that_wait() {
        let limiter = Limiter::new(2, 2);
        let held = limiter.try_acquire("a", 2).unwrap();
        assert!(limiter.acquire("b", 1, Duration::from_millis(20)).await.is_none());
        let waiting = limiter.acquire("b", 1, Duration::from_secs(30));
        let (taken, ()) = tokio::join!(waiting, async { drop(held) });
        assert!(taken.is_some());
    }
}

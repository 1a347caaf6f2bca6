//! Places of sessions that are being made.

use std::sync::atomic::Ordering;

use super::owner::Owner;

/// A session's place among its owner's, until it is entered.
pub(super) struct Place(Owner);

impl Place {
    pub(super) fn of(owner: &Owner) -> Self {
        owner.making().fetch_add(1, Ordering::AcqRel);
        Self(owner.clone())
    }

    /// Has the place become an entry. Sessions are counted with one of the two, never with both or neither.
    pub(super) async fn becomes<T>(self, entry: impl Future<Output = T>) -> T {
        let owner = self.0.clone();
        let _counting = match owner.limits().sessions {
            Some(_) => Some(owner.alone().await),
            None => None,
        };
        let entered = entry.await;
        drop(self);
        entered
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.making().fetch_sub(1, Ordering::AcqRel);
    }
}

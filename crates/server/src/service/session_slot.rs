//! Sessions being created, counted against the limit of their owner.

use std::sync::atomic::Ordering;

use super::owner::Owner;

/// Counts a session being created against its owner's limit until the session is registered.
pub(super) struct SessionSlot(Owner);

impl SessionSlot {
    pub(super) fn of(owner: &Owner) -> Self {
        owner.creating().fetch_add(1, Ordering::AcqRel);
        Self(owner.clone())
    }

    /// Converts the slot to a registered session. The session is counted exactly once throughout.
    pub(super) async fn register<T>(self, entry: impl Future<Output = T>) -> T {
        let owner = self.0.clone();
        let _counting = match owner.limits().sessions {
            Some(_) => Some(owner.lock_count().await),
            None => None,
        };
        let entered = entry.await;
        drop(self);
        entered
    }
}

impl Drop for SessionSlot {
    fn drop(&mut self) {
        self.0.creating().fetch_sub(1, Ordering::AcqRel);
    }
}

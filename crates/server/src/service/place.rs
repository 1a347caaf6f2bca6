//! Slots of sessions being created.

use std::sync::atomic::Ordering;

use super::owner::Owner;

/// Counts a session being created against its owner's limit until the session is registered.
pub(super) struct Place(Owner);

impl Place {
    pub(super) fn of(owner: &Owner) -> Self {
        owner.making().fetch_add(1, Ordering::AcqRel);
        Self(owner.clone())
    }

    /// Converts the slot to a registered session. The session is counted exactly once throughout.
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

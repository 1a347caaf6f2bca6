//! The identity of the current request. Each face authenticates in its own way and records the
//! result here, for layers that process every response.

use std::cell::RefCell;

use tokio_util::sync::CancellationToken;

use crate::service::owner::Owner;

tokio::task_local! {
    static ASKER: RefCell<Asker>;
}

/// Counts a connection of an owner; returns false at the owner's limit.
type Counting = Box<dyn Fn(&str) -> bool + Send>;

/// The identity of a request.
#[derive(Default)]
pub(crate) struct Asker {
    pub owner: Option<Owner>,
    counting: Option<Counting>,
    /// Authentication failed because the owner has too many connections.
    pub is_over: bool,
    /// Cancelled when the request's key is revoked.
    pub revoked: Option<CancellationToken>,
}

/// Runs `work` for one request, and returns the recorded identity, too. `counting` counts its
/// connection.
pub(crate) async fn noting<T>(
    counting: Option<Counting>,
    work: impl Future<Output = T>,
) -> (T, Asker) {
    let asker = Asker {
        counting,
        ..Asker::default()
    };
    ASKER
        .scope(RefCell::new(asker), async {
            let done = work.await;
            (done, ASKER.with(RefCell::take))
        })
        .await
}

/// Records the owner of the current request.
pub(crate) fn note(owner: &Owner) {
    // Keys are also looked up outside requests.
    let _ = ASKER.try_with(|asker| asker.borrow_mut().owner = Some(owner.clone()));
}

/// Counts the current request's connection for the authenticated account. Returns false if the
/// account is at its limit and must be refused.
pub(crate) fn connects(account: &str) -> bool {
    let counted = ASKER.try_with(|asker| {
        let mut asker = asker.borrow_mut();
        let is_counted = asker.counting.as_ref().is_none_or(|count| count(account));
        asker.is_over |= !is_counted;
        is_counted
    });
    // Keys are also looked up outside requests.
    counted.unwrap_or(true)
}

/// Records the token that ends the current response when it is cancelled.
pub(crate) fn note_revoked(revoked: &CancellationToken) {
    let _ = ASKER.try_with(|asker| asker.borrow_mut().revoked = Some(revoked.clone()));
}

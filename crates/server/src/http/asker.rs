//! Who asked, for what is done with every answer: faces know keys in ways of their own, and say here whom they
//! let in.

use std::cell::RefCell;

use tokio_util::sync::CancellationToken;

use crate::service::owner::Owner;

tokio::task_local! {
    static ASKER: RefCell<Asker>;
}

/// Counts a connection among those of an owner, if they may have another.
type Counting = Box<dyn Fn(&str) -> bool + Send>;

/// Whom a request let in.
#[derive(Default)]
pub(crate) struct Asker {
    pub owner: Option<Owner>,
    counting: Option<Counting>,
    /// They were not let in, since they have too many connections.
    pub is_over: bool,
    /// Cancelled when what let them in is revoked.
    pub revoked: Option<CancellationToken>,
}

/// Does `work` for one request, and gives with its result whom it let in. Its connection is counted by `counting`.
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

/// Says that the request under way is this owner's.
pub(crate) fn note(owner: &Owner) {
    // Keys are looked up outside of requests, too.
    let _ = ASKER.try_with(|asker| asker.borrow_mut().owner = Some(owner.clone()));
}

/// Counts the connection of the request under way among those of the account that is let in. False if it has
/// as many as it may, and is not let in.
pub(crate) fn connects(account: &str) -> bool {
    let counted = ASKER.try_with(|asker| {
        let mut asker = asker.borrow_mut();
        let is_counted = asker.counting.as_ref().is_none_or(|count| count(account));
        asker.is_over |= !is_counted;
        is_counted
    });
    // Keys are looked up outside of requests, too.
    counted.unwrap_or(true)
}

/// Says that the answer to the request under way ends, at the latest, when this is cancelled.
pub(crate) fn note_revoked(revoked: &CancellationToken) {
    let _ = ASKER.try_with(|asker| asker.borrow_mut().revoked = Some(revoked.clone()));
}

//! Who asked, for what is done with every answer: faces know keys in ways of their own, and say here whom they
//! let in.

use std::cell::RefCell;

use tokio_util::sync::CancellationToken;

use crate::service::owner::Owner;

tokio::task_local! {
    static ASKER: RefCell<Asker>;
}

/// Whom a request let in.
#[derive(Default)]
pub(crate) struct Asker {
    pub owner: Option<Owner>,
    /// Cancelled when what let them in is revoked.
    pub revoked: Option<CancellationToken>,
}

/// Does `work` for one request, and gives with its result whom it let in.
pub(crate) async fn noting<T>(work: impl Future<Output = T>) -> (T, Asker) {
    ASKER
        .scope(RefCell::default(), async {
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

/// Says that the answer to the request under way ends, at the latest, when this is cancelled.
pub(crate) fn note_revoked(revoked: &CancellationToken) {
    let _ = ASKER.try_with(|asker| asker.borrow_mut().revoked = Some(revoked.clone()));
}

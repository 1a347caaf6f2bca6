//! Who asked, for what is done with every answer: faces know keys in ways of their own, and say here whom they
//! let in.

use std::cell::RefCell;

use crate::service::owner::Owner;

tokio::task_local! {
    static ASKER: RefCell<Option<Owner>>;
}

/// Does `work` for one request, and gives with its result whom it let in.
pub(crate) async fn noting<T>(work: impl Future<Output = T>) -> (T, Option<Owner>) {
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
    let _ = ASKER.try_with(|asker| asker.replace(Some(owner.clone())));
}

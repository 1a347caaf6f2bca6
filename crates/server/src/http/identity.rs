//! The identity of the current request. Each face authenticates in its own way and records the
//! result here, for layers that process every response.

use std::cell::RefCell;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use axum::extract::MatchedPath;
use tokio_util::sync::CancellationToken;

use crate::audit::Caller;
use crate::service::owner::Owner;

tokio::task_local! {
    static IDENTITY: RefCell<Identity>;
}

/// Counts a connection of an owner; returns false at the owner's limit.
type Counting = Box<dyn Fn(&str) -> bool + Send>;

/// The identity of a request.
#[derive(Default)]
pub(crate) struct Identity {
    pub owner: Option<Owner>,
    pub route: Option<MatchedPath>,
    counting: Option<Counting>,
    /// The request for the audit log, if there is one, without its route.
    caller: Option<Caller>,
    /// Authentication failed because the owner has too many connections.
    pub is_over_limit: bool,
    /// Cancelled when the request's key is revoked.
    pub revoked: Option<CancellationToken>,
}

/// Runs `work` for one request, and returns the recorded identity, too. `counting` counts its
/// connection. `caller` describes the request if there is an audit log.
pub(crate) async fn scope<T>(
    counting: Option<Counting>,
    caller: Option<Caller>,
    work: impl Future<Output = T>,
) -> (T, Identity) {
    let identity = Identity {
        counting,
        caller,
        ..Identity::default()
    };
    IDENTITY
        .scope(RefCell::new(identity), async {
            let done = work.await;
            (done, IDENTITY.with(RefCell::take))
        })
        .await
}

/// Work of the current request that another task does.
pub(crate) fn carried<T>(work: impl Future<Output = T>) -> impl Future<Output = T> {
    let copy = IDENTITY.try_with(|identity| {
        let identity = identity.borrow();
        Identity {
            caller: identity.caller.clone(),
            route: identity.route.clone(),
            ..Identity::default()
        }
    });
    IDENTITY.scope(RefCell::new(copy.unwrap_or_default()), work)
}

/// Runs the `work` of the current request. Returns `None` if the request's key, which the work
/// finds, is revoked meanwhile.
pub(crate) async fn until_revoked<T>(work: impl Future<Output = T>) -> Option<T> {
    let mut work = pin!(work);
    let mut revoked = None;
    poll_fn(|context| {
        if let Poll::Ready(done) = work.as_mut().poll(context) {
            return Poll::Ready(Some(done));
        }
        if revoked.is_none() {
            revoked = revocation().map(|token| Box::pin(token.cancelled_owned()));
        }
        match &mut revoked {
            Some(revoked) => revoked.as_mut().poll(context).map(|()| None),
            None => Poll::Pending,
        }
    })
    .await
}

/// Records the owner of the current request.
pub(crate) fn set_owner(owner: &Owner) {
    // Keys are also looked up outside requests.
    let _ = IDENTITY.try_with(|identity| identity.borrow_mut().owner = Some(owner.clone()));
}

/// The current request for the audit log, if there is a log. `key` returns the id of its key,
/// unless a front gave it.
pub(crate) fn caller(key: impl FnOnce() -> Option<String>) -> Option<Arc<Caller>> {
    let found = IDENTITY.try_with(|identity| {
        let identity = identity.borrow();
        let mut caller = identity.caller.clone()?;
        caller.key = caller.key.or_else(key);
        caller.route = identity.route.as_ref().map(|route| route.as_str().to_owned());
        Some(Arc::new(caller))
    });
    found.ok().flatten()
}

/// Records the route of the current request.
pub(crate) fn set_route(route: &MatchedPath) {
    let _ = IDENTITY.try_with(|identity| identity.borrow_mut().route = Some(route.clone()));
}

/// Counts the current request's connection for the authenticated account. Returns false if the
/// account is at its limit and must be refused.
pub(crate) fn count_connection(account: &str) -> bool {
    let counted = IDENTITY.try_with(|identity| {
        let mut identity = identity.borrow_mut();
        let is_counted = identity.counting.as_ref().is_none_or(|count| count(account));
        identity.is_over_limit |= !is_counted;
        is_counted
    });
    // Keys are also looked up outside requests.
    counted.unwrap_or(true)
}

/// Records the token that ends the current response when it is cancelled.
pub(crate) fn set_revocation(revoked: &CancellationToken) {
    let _ = IDENTITY.try_with(|identity| identity.borrow_mut().revoked = Some(revoked.clone()));
}

/// The token that is cancelled when the key of the current request is revoked.
pub(crate) fn revocation() -> Option<CancellationToken> {
    IDENTITY.try_with(|identity| identity.borrow().revoked.clone()).ok().flatten()
}

//! Promises whose work begins at once.

use std::task::{Context, Poll, Waker};

use napi::Env;
use napi::bindgen_prelude::{PromiseRaw, ToNapiValue, within_runtime_if_available};

/// Promises what `work` comes to. It is polled here first: what it begins on another thread begins without a
/// third one having to wake for it.
pub(crate) fn promise<T: ToNapiValue + Send + 'static>(
    env: &Env,
    work: impl Future<Output = napi::Result<T>> + Send + 'static,
) -> napi::Result<PromiseRaw<'_, T>> {
    let mut work = Box::pin(work);
    let mut context = Context::from_waker(Waker::noop());
    let first = within_runtime_if_available(|| work.as_mut().poll(&mut context));
    env.spawn_future(async move {
        match first {
            Poll::Ready(done) => done,
            Poll::Pending => work.await,
        }
    })
}

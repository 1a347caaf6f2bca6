//! Promises whose work begins at once.

use std::task::{Context, Poll, Waker};

use napi::Env;
use napi::bindgen_prelude::{PromiseRaw, ToNapiValue, within_runtime_if_available};

/// Promises what `work` comes to. It is polled here first: a short run is over then, and neither wakes a
/// thread nor has to wait for one; what goes on goes on elsewhere. A failure that is known at once is
/// thrown.
pub(crate) fn promise<T: ToNapiValue + Send + 'static>(
    env: &Env,
    work: impl Future<Output = napi::Result<T>> + Send + 'static,
) -> napi::Result<PromiseRaw<'_, T>> {
    let mut work = Box::pin(work);
    let mut context = Context::from_waker(Waker::noop());
    match within_runtime_if_available(|| work.as_mut().poll(&mut context)) {
        Poll::Ready(done) => PromiseRaw::resolve(env, done?),
        Poll::Pending => env.spawn_future(work),
    }
}

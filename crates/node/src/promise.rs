//! Promises whose work starts immediately.

use std::task::{Context, Poll, Waker};

use napi::Env;
use napi::bindgen_prelude::{PromiseRaw, ToNapiValue, within_runtime_if_available};

/// Returns a promise of the result of `work`, which is polled here first: a short run ends in this
/// call, without waking another thread. Unfinished work continues on other threads. An immediate
/// failure is thrown.
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

//! What a session does when its caller has the answer.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::OwnedMutexGuard;

use super::core::Core;
use super::{Inner, Session};

/// How many sessions of a runtime keep their states just now, or free what they held.
#[derive(Default)]
pub(super) struct Afterwards {
    under_way: Mutex<usize>,
    none: Condvar,
}

/// One of them.
struct OneMore(Arc<Afterwards>);

/// How long the end of a runtime waits for them.
const MAX_WAIT: Duration = Duration::from_secs(10);

impl Session {
    /// Frees what a closed session holds: memory and files, of which there may be many. Where the caller
    /// is part of an asynchronous runtime, a thread does it that may block.
    pub(super) fn free(&self, core: OwnedMutexGuard<Core>) {
        let inner = Arc::clone(&self.inner);
        let Ok(tokio) = Handle::try_current() else {
            inner.release(core);
            return;
        };
        let one_more = self.sessions.shared.afterwards.begin();
        tokio.spawn_blocking(move || {
            inner.release(core);
            drop(inner);
            drop(one_more);
        });
    }

    /// Gives the changing parts back, and frees what a session holds that was closed meanwhile.
    pub(super) fn finish(&self, core: OwnedMutexGuard<Core>) {
        if self.inner.context.is_closed() {
            self.free(core);
        }
    }

    /// Gives the changing parts back after a run. The state after it is kept meanwhile: whoever takes
    /// the parts next waits for that.
    pub(super) fn give_back(&self, mut core: OwnedMutexGuard<Core>) {
        let inner = Arc::clone(&self.inner);
        if !core.is_unkept() || inner.context.is_closed() {
            inner.release(core);
            return;
        }
        let one_more = self.sessions.shared.afterwards.begin();
        inner.context.note_keeping(true);
        let span = tracing::Span::current();
        // One that is not begun, because the asynchronous runtime ends, is left to whoever comes next.
        tokio::task::spawn_blocking(move || {
            span.in_scope(|| {
                if !inner.context.is_closed() {
                    core.keep(&inner.context);
                }
                inner.context.note_keeping(false);
                inner.release(core);
            });
            drop(inner);
            drop(one_more);
        });
    }
}

impl Inner {
    /// Gives the changing parts back, and frees what a session holds that was closed meanwhile.
    pub(super) fn release(&self, mut core: OwnedMutexGuard<Core>) {
        if self.context.is_closed() {
            core.close();
        }
        drop(core);
        // Whoever closed it just before that has left it to this.
        if self.context.is_closed()
            && let Ok(mut core) = self.core.try_lock()
        {
            core.close();
        }
    }
}

impl Afterwards {
    fn begin(self: &Arc<Self>) -> OneMore {
        *self.lock() += 1;
        OneMore(Arc::clone(self))
    }

    /// Waits until none does any more: its files would be left behind.
    pub(super) fn wait(&self) {
        let under_way = self.lock();
        // Not for ever, in case that this thread is the one on which it would be done.
        let waited = self.none.wait_timeout_while(under_way, MAX_WAIT, |count| *count > 0);
        drop(waited);
    }

    fn lock(&self) -> MutexGuard<'_, usize> {
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for OneMore {
    fn drop(&mut self) {
        let mut under_way = self.0.lock();
        *under_way -= 1;
        if *under_way == 0 {
            self.0.none.notify_all();
        }
    }
}

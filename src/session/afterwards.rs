//! What a session does when its caller has the answer.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use tokio::runtime::Handle;
use tokio::sync::OwnedMutexGuard;
use tracing::Span;

use super::core::Core;
use super::{Inner, Session};

/// What is done of a runtime's sessions behind their callers' backs.
#[derive(Default)]
pub(super) struct Afterwards {
    state: Mutex<Doing>,
    /// None is under way.
    none: Condvar,
    /// There is a state to be kept, or there will be none any more.
    more: Condvar,
}

#[derive(Default)]
struct Doing {
    /// How many sessions keep their states just now, or free what they held.
    under_way: usize,
    /// Sessions whose states are to be kept, and from when on.
    due: VecDeque<Due>,
    has_thread: bool,
    /// The thread waits for a session, and not for a time.
    is_idle: bool,
    has_ended: bool,
}

/// A session whose state is to be kept.
struct Due {
    from: Instant,
    inner: Weak<Inner>,
    span: Span,
    /// Where it is kept if that takes a while.
    tokio: Handle,
}

/// One of them.
struct OneMore(Arc<Afterwards>);

/// How long the end of a runtime waits for them.
const MAX_WAIT: Duration = Duration::from_secs(10);
/// How long a state that is kept soon waits for the session's next run. It has the memory in the
/// caches of its processor, and nobody has to be woken for it.
const FOR_NEXT_RUN: Duration = Duration::from_millis(1);

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
    /// the parts next waits for that, or does it.
    pub(super) fn give_back(&self, mut core: OwnedMutexGuard<Core>) {
        let inner = Arc::clone(&self.inner);
        if !core.is_unkept() || inner.context.is_closed() {
            inner.release(core);
            return;
        }
        let afterwards = &self.sessions.shared.afterwards;
        inner.context.note_keeping(true);
        let (span, tokio) = (Span::current(), Handle::current());
        if core.is_memory_unkept() && afterwards.keep_soon(&inner, &span, &tokio) {
            inner.release(core);
            return;
        }
        afterwards.begin().keep(core, inner, span, &tokio);
    }
}

impl OneMore {
    /// Keeps the state of a session on a thread that may block. One that is not begun, because the
    /// asynchronous runtime ends, is left to whoever comes next.
    fn keep(self, mut core: OwnedMutexGuard<Core>, inner: Arc<Inner>, span: Span, tokio: &Handle) {
        tokio.spawn_blocking(move || {
            span.in_scope(|| {
                let keeping = inner.context.keeping();
                if !inner.context.is_closed() {
                    core.keep(&inner.context);
                }
                drop(keeping);
                inner.release(core);
            });
            drop(inner);
            drop(self);
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

impl Due {
    /// Keeps the state after the last run, unless somebody has done so; what is returned is to be tried
    /// again.
    fn keep(self, one_more: OneMore) -> Option<Self> {
        let inner = self.inner.upgrade()?;
        if !inner.context.is_keeping() || inner.context.is_closed() {
            return None;
        }
        let Ok(mut core) = Arc::clone(&inner.core).try_lock_owned() else {
            // Whoever is about to run it keeps its state first; a mere look at it is over at once.
            return Some(Self {
                from: Instant::now() + FOR_NEXT_RUN,
                ..self
            });
        };
        if core.is_unkept() && !core.is_kept_soon() {
            one_more.keep(core, inner, self.span, &self.tokio);
            return None;
        }
        self.span.in_scope(|| core.keep(&inner.context));
        inner.release(core);
        None
    }
}

impl Afterwards {
    fn begin(self: &Arc<Self>) -> OneMore {
        self.lock().under_way += 1;
        OneMore(Arc::clone(self))
    }

    /// Drops what takes a while to be dropped, on a thread that may block.
    pub(super) fn drop_aside(self: &Arc<Self>, left: impl Send + 'static) {
        let one_more = self.begin();
        tokio::task::spawn_blocking(move || {
            drop(left);
            drop(one_more);
        });
    }

    /// Has the state of a session kept in a moment; false where there is no thread for it.
    fn keep_soon(self: &Arc<Self>, inner: &Arc<Inner>, span: &Span, tokio: &Handle) -> bool {
        let mut doing = self.lock();
        if !doing.has_thread {
            let own = Arc::clone(self);
            let thread = std::thread::Builder::new().name("belljar-keep".into());
            doing.has_thread = thread.spawn(move || own.keep_all()).is_ok();
        }
        if !doing.has_thread {
            return false;
        }
        doing.due.push_back(Due {
            from: Instant::now() + FOR_NEXT_RUN,
            inner: Arc::downgrade(inner),
            span: span.clone(),
            tokio: tokio.clone(),
        });
        if std::mem::take(&mut doing.is_idle) {
            drop(doing);
            self.more.notify_one();
        }
        true
    }

    /// What the thread does until the runtime ends.
    fn keep_all(self: &Arc<Self>) {
        // Should keeping a state panic, the next one has a new thread.
        let _thread = Thread(self);
        let mut doing = self.lock();
        while !doing.has_ended {
            let Some(Due { from, .. }) = doing.due.front() else {
                doing.is_idle = true;
                doing = self.more.wait(doing).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let left = from.saturating_duration_since(Instant::now());
            if !left.is_zero() {
                let waited = self.more.wait_timeout(doing, left);
                (doing, _) = waited.unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            let Some(due) = doing.due.pop_front() else {
                continue;
            };
            doing.under_way += 1;
            drop(doing);
            let again = due.keep(OneMore(Arc::clone(self)));
            doing = self.lock();
            doing.due.extend(again);
        }
    }

    /// Waits until none does any more: its files would be left behind.
    pub(super) fn wait(&self) {
        let mut doing = self.lock();
        doing.has_ended = true;
        self.more.notify_one();
        // Not for ever, in case that this thread is the one on which it would be done.
        let waited = self.none.wait_timeout_while(doing, MAX_WAIT, |doing| doing.under_way > 0);
        drop(waited);
    }

    fn lock(&self) -> MutexGuard<'_, Doing> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The thread that keeps states.
struct Thread<'a>(&'a Afterwards);

impl Drop for Thread<'_> {
    fn drop(&mut self) {
        self.0.lock().has_thread = false;
    }
}

impl Drop for OneMore {
    fn drop(&mut self) {
        let mut doing = self.0.lock();
        doing.under_way -= 1;
        if doing.under_way == 0 {
            self.0.none.notify_all();
        }
    }
}

//! Work on a session after its caller has the outcome.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use tokio::runtime::Handle;
use tokio::sync::OwnedMutexGuard;
use tracing::Span;

use super::run::Core;
use super::{Inner, Session};

/// Background work on a runtime's sessions.
#[derive(Default)]
pub(super) struct Afterwards {
    state: Mutex<Doing>,
    /// Signals that no work is under way.
    none: Condvar,
    /// Signals a new state to save, or the end of the runtime.
    more: Condvar,
}

#[derive(Default)]
struct Doing {
    /// Number of sessions whose state is being saved or whose resources are being freed.
    under_way: usize,
    /// Sessions whose states must be saved, with the earliest time for it.
    due: VecDeque<Due>,
    has_thread: bool,
    /// Whether the thread waits for a session, and not for a time.
    is_idle: bool,
    has_ended: bool,
}

/// A session whose state must be saved.
struct Due {
    from: Instant,
    inner: Weak<Inner>,
    span: Span,
    /// Runtime on which the state is saved if that takes long.
    tokio: Handle,
}

/// Counts one piece of background work until dropped.
struct OneMore(Arc<Afterwards>);

/// How long dropping a runtime waits for background work.
const MAX_WAIT: Duration = Duration::from_secs(10);
/// How long a quick save waits for the session's next run. The next run has the memory in its
/// processor's caches, and saves without waking another thread.
const FOR_NEXT_RUN: Duration = Duration::from_millis(1);

impl Session {
    /// Frees the resources of a closed session: memory and possibly many files. In an asynchronous
    /// runtime, this runs on a blocking thread.
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

    /// Unlocks the core, and frees the resources of a session that was closed meanwhile.
    pub(super) fn finish(&self, core: OwnedMutexGuard<Core>) {
        if self.inner.context.is_closed() {
            self.free(core);
        }
    }

    /// Unlocks the core after a run. The state is saved in the background: the next caller waits
    /// for it or saves it itself.
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
    /// Saves the state of a session on a blocking thread. If the asynchronous runtime ends before
    /// the save starts, the next caller saves the state.
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
    /// Unlocks the core, and frees the resources of a session that was closed meanwhile.
    pub(super) fn release(&self, mut core: OwnedMutexGuard<Core>) {
        if self.context.is_closed() {
            core.close();
        }
        drop(core);
        // A caller that closed the session just before the unlock has left the cleanup to this
        // function.
        if self.context.is_closed()
            && let Ok(mut core) = self.core.try_lock()
        {
            core.close();
        }
    }
}

impl Due {
    /// Saves the state after the last run if that was not done yet. Returns the entry if it must be
    /// retried.
    fn keep(self, one_more: OneMore) -> Option<Self> {
        let inner = self.inner.upgrade()?;
        if !inner.context.is_keeping() || inner.context.is_closed() {
            return None;
        }
        let Ok(mut core) = Arc::clone(&inner.core).try_lock_owned() else {
            // If the lock holder is about to run the session, it saves the state first; any other
            // holder is done soon.
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

    /// Drops a value that takes long to drop, on a blocking thread.
    pub(super) fn drop_aside(self: &Arc<Self>, left: impl Send + 'static) {
        let one_more = self.begin();
        tokio::task::spawn_blocking(move || {
            drop(left);
            drop(one_more);
        });
    }

    /// Schedules a session's state to be saved soon. Returns false if no thread is available.
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

    /// Main loop of the thread, until the runtime ends.
    fn keep_all(self: &Arc<Self>) {
        // If saving a state panics, the next state gets a new thread.
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

    /// Waits until no work is under way: files would be left behind otherwise.
    pub(super) fn wait(&self) {
        let mut doing = self.lock();
        doing.has_ended = true;
        self.more.notify_one();
        // With a time limit, because the work may be waiting for this very thread.
        let waited = self.none.wait_timeout_while(doing, MAX_WAIT, |doing| doing.under_way > 0);
        drop(waited);
    }

    fn lock(&self) -> MutexGuard<'_, Doing> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The thread that saves states.
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

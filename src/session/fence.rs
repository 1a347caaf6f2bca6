//! Which handles of a session may change it.
//!
//! A session of a store is changed by whoever has claimed it, until the claim is released. Handles are
//! cheap to clone and outlive a claim, so each carries a pass, and the session counts how often its
//! handles were recalled. A pass of an earlier count changes nothing any more.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::Session;

/// What the holder of a handle may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pass {
    /// Change the session, until its handles are recalled for the next time after so many.
    Change(u64),
    /// Read it.
    Look,
    /// Everything, always: the pass of a node that keeps the session for its store.
    Keeper,
}

/// Which passes are valid.
#[derive(Debug, Default)]
pub(super) struct Fence {
    /// How often all handles were recalled.
    recalled: AtomicU64,
    /// Whether the session may differ from what it was at the last recall.
    is_changed: AtomicBool,
    /// What was lost before, until an outcome has told it.
    lost: Mutex<Vec<String>>,
}

/// What became of a session while its handles were valid.
#[derive(Debug, Default)]
pub(crate) struct Recalled {
    /// Whether it may have been changed.
    pub is_changed: bool,
    /// What was lost before, if no outcome has told it.
    pub lost: Vec<String>,
}

impl Fence {
    /// Whether a pass allows the session to be changed.
    pub(super) fn is_open_to(&self, pass: Pass) -> bool {
        match pass {
            Pass::Change(count) => count == self.recalled.load(Ordering::Acquire),
            Pass::Look => false,
            Pass::Keeper => true,
        }
    }

    pub(super) fn lost(&self) -> MutexGuard<'_, Vec<String>> {
        self.lost.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes whether the session may have been changed. Returns what was noted before.
    pub(super) fn note_changed(&self, is_changed: bool) -> bool {
        self.is_changed.swap(is_changed, Ordering::AcqRel)
    }
}

impl Pass {
    /// The pass of handles that nobody has ever recalled.
    pub(super) const FIRST: Self = Self::Change(0);
}

impl Session {
    /// A handle that stays valid when others are recalled, as all others are now: for a node that keeps
    /// the session for a store.
    pub(crate) fn keeper(&self) -> Self {
        let keeper = self.with(Pass::Keeper);
        keeper.recall();
        keeper
    }

    /// A handle that may change the session until it is recalled. The next outcome tells what was lost.
    pub(crate) fn lend(&self, lost: Vec<String>) -> Self {
        let fence = self.inner.context.fence();
        *fence.lost() = lost;
        fence.note_changed(false);
        self.with(Pass::Change(fence.recalled.load(Ordering::Acquire)))
    }

    /// A handle that may only read the session.
    pub(crate) fn show(&self) -> Self {
        self.with(Pass::Look)
    }

    /// Whether it was not closed.
    pub(crate) fn is_open(&self) -> bool {
        !self.inner.context.is_closed()
    }

    /// Ends the validity of all handles that may change the session, but for the keeper's. Whatever one
    /// of them has begun is done once the session's changing parts can be locked.
    pub(crate) fn recall(&self) -> Recalled {
        let fence = self.inner.context.fence();
        fence.recalled.fetch_add(1, Ordering::AcqRel);
        Recalled {
            is_changed: fence.note_changed(false),
            lost: std::mem::take(&mut *fence.lost()),
        }
    }

    fn with(&self, pass: Pass) -> Self {
        Self {
            pass,
            ..self.clone()
        }
    }
}

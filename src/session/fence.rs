//! Which handles of a session may change it.
//!
//! A session of a store is changed by whoever has claimed it, until the claim is released. Handles are
//! cheap to clone and outlive a claim, so each carries a pass, and the session counts how often its
//! handles were recalled. A pass of an earlier count changes nothing any more.

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
    passes: Mutex<Passes>,
    /// What was lost before, until an outcome has told it.
    lost: Mutex<Vec<String>>,
}

/// Both under one lock: a change is either refused, or the recall that follows reports it.
#[derive(Debug, Default)]
struct Passes {
    /// How often all handles were recalled.
    recalled: u64,
    /// Whether the session may differ from what it was at the last recall.
    is_changed: bool,
}

impl Passes {
    fn are_open_to(&self, pass: Pass) -> bool {
        match pass {
            Pass::Change(count) => count == self.recalled,
            Pass::Look => false,
            Pass::Keeper => true,
        }
    }
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
        self.passes().are_open_to(pass)
    }

    /// Notes that the session may be changed from now on, where the pass allows it. Returns whether
    /// that was noted before, or `None` where the pass does not allow it.
    pub(super) fn begin_change(&self, pass: Pass) -> Option<bool> {
        let mut passes = self.passes();
        passes.are_open_to(pass).then(|| std::mem::replace(&mut passes.is_changed, true))
    }

    /// Takes back that the session may have been changed, as nothing was.
    pub(super) fn note_unchanged(&self) {
        self.passes().is_changed = false;
    }

    pub(super) fn lost(&self) -> MutexGuard<'_, Vec<String>> {
        self.lost.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lend(&self, lost: Vec<String>) -> Pass {
        *self.lost() = lost;
        let mut passes = self.passes();
        passes.is_changed = false;
        Pass::Change(passes.recalled)
    }

    fn recall(&self) -> Recalled {
        let mut passes = self.passes();
        passes.recalled += 1;
        Recalled {
            is_changed: std::mem::take(&mut passes.is_changed),
            lost: std::mem::take(&mut *self.lost()),
        }
    }

    fn passes(&self) -> MutexGuard<'_, Passes> {
        self.passes.lock().unwrap_or_else(PoisonError::into_inner)
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
        self.with(self.inner.context.fence().lend(lost))
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
        self.inner.context.fence().recall()
    }

    fn with(&self, pass: Pass) -> Self {
        Self {
            pass,
            ..self.clone()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_refused_or_the_recall_reports_it() {
        let fence = Fence::default();
        let pass = fence.lend(vec!["a run".into()]);
        assert_eq!(fence.begin_change(Pass::Look), None);
        assert_eq!((fence.begin_change(pass), fence.begin_change(pass)), (Some(false), Some(true)));
        let recalled = fence.recall();
        assert!(recalled.is_changed && recalled.lost == ["a run"]);
        // Refused, it is not reported by the next recall either, which is another claim's.
        assert_eq!(fence.begin_change(pass), None);
        assert!(!fence.is_open_to(pass) && !fence.recall().is_changed);
        let next = fence.lend(Vec::new());
        assert_eq!((fence.begin_change(pass), fence.begin_change(next)), (None, Some(false)));
        fence.note_unchanged();
        assert!(!fence.recall().is_changed);
        assert_eq!(fence.begin_change(Pass::Keeper), Some(false));
    }
}

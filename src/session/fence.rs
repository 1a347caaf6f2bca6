//! Decides which handles may change a session.
//!
//! A stored session can be changed under a claim, until the claim is released. Handles are cheap to
//! clone and can outlive a claim. So each handle carries a pass, and the session counts how often
//! its handles were recalled. A pass from before the last recall permits no changes.

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::Session;

/// What a handle permits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pass {
    /// Changes, as long as the recall count equals this number.
    Change(u64),
    /// Reading.
    Look,
    /// Everything, always: the pass of the node that keeps the session for its store.
    Keeper,
}

/// Tracks which passes are valid.
#[derive(Debug, Default)]
pub(super) struct Fence {
    passes: Mutex<Passes>,
    /// Earlier losses that no outcome has reported yet.
    lost: Mutex<Vec<String>>,
}

/// Under one lock: a change either fails, or the next recall reports it.
#[derive(Debug, Default)]
struct Passes {
    /// Number of recalls.
    recalled: u64,
    /// Whether the session may have changed since the last recall.
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

/// What happened to a session while its handles were valid.
#[derive(Debug, Default)]
pub(crate) struct Recalled {
    /// Whether the session may have changed.
    pub is_changed: bool,
    /// Earlier losses that no outcome has reported.
    pub lost: Vec<String>,
}

impl Fence {
    /// Whether a pass permits changes.
    pub(super) fn is_open_to(&self, pass: Pass) -> bool {
        self.passes().are_open_to(pass)
    }

    /// Records that the session may change from now on, if the pass permits it. Returns whether it
    /// may have changed before, or `None` if the pass does not permit changes.
    pub(super) fn begin_change(&self, pass: Pass) -> Option<bool> {
        let mut passes = self.passes();
        passes.are_open_to(pass).then(|| std::mem::replace(&mut passes.is_changed, true))
    }

    /// Records that the session was not changed after all.
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
    /// The pass of handles before the first recall.
    pub(super) const FIRST: Self = Self::Change(0);
}

impl Session {
    /// Returns a handle that stays valid when others are recalled, and recalls all others. For a
    /// node that keeps the session for a store.
    pub(crate) fn keeper(&self) -> Self {
        let keeper = self.with(Pass::Keeper);
        keeper.recall();
        keeper
    }

    /// Returns a handle that can change the session until it is recalled. The next outcome reports
    /// `lost`.
    pub(crate) fn lend(&self, lost: Vec<String>) -> Self {
        self.with(self.inner.context.fence().lend(lost))
    }

    /// Returns a read-only handle.
    pub(crate) fn show(&self) -> Self {
        self.with(Pass::Look)
    }

    /// Whether the session is still open.
    pub(crate) fn is_open(&self) -> bool {
        !self.inner.context.is_closed()
    }

    /// Recalls all handles that may change the session, except the keeper's. Changes that have
    /// started are complete once the session's core can be locked.
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
        // A rejected change is not reported by the next recall, which belongs to another claim.
        assert_eq!(fence.begin_change(pass), None);
        assert!(!fence.is_open_to(pass) && !fence.recall().is_changed);
        let next = fence.lend(Vec::new());
        assert_eq!((fence.begin_change(pass), fence.begin_change(next)), (None, Some(false)));
        fence.note_unchanged();
        assert!(!fence.recall().is_changed);
        assert_eq!(fence.begin_change(Pass::Keeper), Some(false));
    }
}

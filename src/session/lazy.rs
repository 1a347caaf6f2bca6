//! Lazy states: earlier states of a session, which are read on demand.

use std::sync::{Arc, OnceLock};

use super::state::State;
use crate::error::Error;

/// A state that is not the session's latest.
#[derive(Clone, Debug)]
pub(super) enum Earlier {
    Here(Arc<State>),
    /// In the source that the session was restored from. All sessions with this state share the
    /// result of reading it.
    There(Arc<Unread>),
}

/// The source that a session was restored from.
pub(super) trait Source: Send + Sync {
    /// Reads states into their places, together with other requested states, or alone if that is
    /// impossible. Blocks.
    fn read(&self, places: &[Arc<Unread>]) -> Result<(), Error>;

    /// Reads the metadata of all requested states, but not their pages. Blocks.
    fn outline(&self) -> Result<(), Error>;
}

/// The place of a state that is read on demand.
pub(super) struct Unread {
    source: Arc<dyn Source>,
    number: usize,
    state: OnceLock<Arc<State>>,
    /// Metadata of the state, sufficient to write it back to its source. Its pages cannot be read.
    outline: OnceLock<Arc<State>>,
}

impl std::fmt::Debug for Unread {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let is_read = self.state.get().is_some();
        f.debug_struct("Unread")
            .field("number", &self.number)
            .field("is_read", &is_read)
            .finish_non_exhaustive()
    }
}

impl Unread {
    pub(super) fn new(source: Arc<dyn Source>, number: usize) -> Self {
        Self {
            source,
            number,
            state: OnceLock::new(),
            outline: OnceLock::new(),
        }
    }

    pub(super) fn number(&self) -> usize {
        self.number
    }

    pub(super) fn is_read(&self) -> bool {
        self.state.get().is_some()
    }

    /// Stores the state after it was read.
    pub(super) fn fill(&self, state: Arc<State>) {
        // A faster reader has stored the same state.
        let _ = self.state.set(state);
    }

    pub(super) fn set_outline(&self, outline: Arc<State>) {
        let _ = self.outline.set(outline);
    }

    /// Completes the state when its pages have been read.
    pub(super) fn fill_outline(&self) {
        if let Some(outline) = self.outline.get() {
            self.fill(Arc::clone(outline));
        }
    }
}

impl From<Arc<State>> for Earlier {
    fn from(state: Arc<State>) -> Self {
        Self::Here(state)
    }
}

impl Earlier {
    /// Whether the state is in `source`, or was read from it.
    pub(super) fn is_of(&self, source: &Arc<dyn Source>) -> bool {
        matches!(self, Self::There(unread) if Arc::ptr_eq(&unread.source, source))
    }

    /// Returns the state, if it was read.
    pub(super) fn here(&self) -> Option<&Arc<State>> {
        match self {
            Self::Here(state) => Some(state),
            Self::There(unread) => unread.state.get(),
        }
    }

    /// Returns the metadata of the state, and reads it if necessary. Its pages may be missing.
    /// Blocks.
    pub(super) fn outline(&self) -> Result<Arc<State>, Error> {
        if let Self::There(unread) = self {
            if unread.outline.get().is_none() && !unread.is_read() {
                unread.source.outline()?;
            }
            if let Some(outline) = unread.outline.get() {
                return Ok(Arc::clone(outline));
            }
        }
        self.read()
    }

    /// Returns the state, and reads it if necessary. Blocks.
    pub(super) fn read(&self) -> Result<Arc<State>, Error> {
        read_all([self])?;
        let lost = || std::io::Error::other("a state of a checkpoint was not read");
        self.here().cloned().ok_or_else(lost).map_err(Error::system("read an earlier state"))
    }
}

/// Reads all states that are not read yet. Blocks.
pub(super) fn read_all<'a>(states: impl IntoIterator<Item = &'a Earlier>) -> Result<(), Error> {
    let unread = states.into_iter().filter_map(|state| match state {
        Earlier::There(unread) if !unread.is_read() => Some(Arc::clone(unread)),
        _ => None,
    });
    let mut unread: Vec<Arc<Unread>> = unread.collect();
    while let Some(first) = unread.first() {
        let source = Arc::clone(&first.source);
        let (own, others): (Vec<_>, _) =
            unread.into_iter().partition(|one| Arc::ptr_eq(&one.source, &source));
        source.read(&own)?;
        unread = others;
    }
    Ok(())
}

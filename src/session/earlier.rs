//! States that a session can go back to, which may yet have to be read.

use std::sync::{Arc, OnceLock};

use super::state::State;
use crate::error::Error;

/// A state that is no session's latest.
#[derive(Clone, Debug)]
pub(super) enum Earlier {
    Here(Arc<State>),
    /// Where the session was restored from; all that have it share what is read.
    There(Arc<Unread>),
}

/// What a session was restored from.
pub(super) trait Source: Send + Sync {
    /// Reads states into their places: with all others that somebody has yet to read, or where these
    /// cannot be read by themselves. It blocks.
    fn read(&self, places: &[Arc<Unread>]) -> Result<(), Error>;

    /// Reads of all states that somebody has yet to read what they consist of, but not their pages. It
    /// blocks.
    fn outline(&self) -> Result<(), Error>;
}

/// A place for a state that is read when somebody asks for it.
pub(super) struct Unread {
    source: Arc<dyn Source>,
    number: usize,
    state: OnceLock<Arc<State>>,
    /// The state as it may be written to where it came from: its pages cannot be read.
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

    /// Puts the state there, once it is read.
    pub(super) fn fill(&self, state: Arc<State>) {
        // Whoever was faster has put the same there.
        let _ = self.state.set(state);
    }

    pub(super) fn set_outline(&self, outline: Arc<State>) {
        let _ = self.outline.set(outline);
    }

    /// Puts the state there whose pages have come in.
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
    /// Whether it is where `source` is, or was read from there.
    pub(super) fn is_of(&self, source: &Arc<dyn Source>) -> bool {
        matches!(self, Self::There(unread) if Arc::ptr_eq(&unread.source, source))
    }

    /// The state, if it was read.
    pub(super) fn here(&self) -> Option<&Arc<State>> {
        match self {
            Self::Here(state) => Some(state),
            Self::There(unread) => unread.state.get(),
        }
    }

    /// What the state consists of, read if it has to be: its pages may not be. It blocks.
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

    /// The state, read if it has to be. It blocks.
    pub(super) fn read(&self) -> Result<Arc<State>, Error> {
        read_all([self])?;
        let lost = || std::io::Error::other("a state of a checkpoint was not read");
        self.here().cloned().ok_or_else(lost).map_err(Error::system("read an earlier state"))
    }
}

/// Reads all that were not read yet. It blocks.
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

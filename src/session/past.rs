//! The states that a session has been in.

use std::sync::Arc;

use super::history::History;
use super::options::{FixedSettings, HistoryBounds};
use super::state::State;
use crate::image::Image;

/// The states of a session, all in memory.
#[derive(Clone)]
pub(super) struct Past {
    /// Before the first run, and after the initial code.
    pub origin: Arc<State>,
    /// After the last completed run.
    pub state: Arc<State>,
    pub history: History,
}

impl Past {
    /// What is left of a session that was closed.
    pub(super) fn nothing() -> Self {
        let state = Arc::new(State::nothing());
        Self {
            origin: Arc::clone(&state),
            state,
            history: History::new(HistoryBounds::default()),
        }
    }
}

/// A state that has a name, and what sessions are like that start from it.
pub(super) struct Snapshot {
    pub image: Arc<Image>,
    pub fixed: FixedSettings,
    pub state: Arc<State>,
}

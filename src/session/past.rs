//! The states that a session has been in.

use std::sync::Arc;

use super::history::History;
use super::state::State;

/// The states of a session, all in memory.
#[derive(Clone)]
pub(super) struct Past {
    /// Before the first run, and after the initial code.
    pub origin: Arc<State>,
    /// After the last completed run.
    pub state: Arc<State>,
    pub history: History,
}

//! The states that a session has been in.

use std::sync::Arc;

use super::earlier::{Earlier, read_all};
use super::history::{History, HistoryEntry};
use super::options::{FixedSettings, HistoryBounds};
use super::state::State;
use crate::error::Error;
use crate::image::Image;

/// The states of a session. The latest is in memory.
#[derive(Clone)]
pub(super) struct Past {
    /// Before the first run, and after the initial code.
    pub origin: Earlier,
    /// After the last completed run.
    pub state: Arc<State>,
    pub history: History,
}

impl Past {
    /// What is left of a session that was closed.
    pub(super) fn nothing() -> Self {
        let state = Arc::new(State::nothing());
        Self {
            origin: Arc::clone(&state).into(),
            state,
            history: History::new(HistoryBounds::default()),
        }
    }

    /// Whether all states are in memory.
    pub(super) fn is_settled(&self) -> bool {
        let is_here = |state: &Earlier| matches!(state, Earlier::Here(_));
        is_here(&self.origin) && self.history.entries().all(|entry| is_here(&entry.state))
    }

    /// Reads the states that are elsewhere. It blocks.
    pub(super) fn settle(&mut self) -> Result<(), Error> {
        if !self.is_settled() {
            let states = self.history.entries().map(|entry| &entry.state);
            read_all(states.chain([&self.origin]))?;
            self.origin = self.origin.read()?.into();
            self.history.settle()?;
        }
        Ok(())
    }

    /// Has of the states that are elsewhere what they consist of, to be written to where they are. It
    /// blocks.
    pub(super) fn outline(&mut self) -> Result<(), Error> {
        if !self.is_settled() {
            self.origin = self.origin.outline()?.into();
            self.history.outline()?;
        }
        Ok(())
    }

    /// These states without those that are elsewhere, which are returned beside.
    pub(super) fn part(&self) -> (Self, Elsewhere) {
        let (mut here, mut elsewhere) = (self.clone(), Elsewhere::default());
        if let Some(origin) = self.origin.here() {
            here.origin = Arc::clone(origin).into();
        } else {
            here.origin = Arc::clone(&self.state).into();
            elsewhere.origin = Some(self.origin.clone());
        }
        elsewhere.runs = here.history.part();
        (here, elsewhere)
    }

    /// With the states that were elsewhere before it was put aside.
    pub(super) fn with(mut self, elsewhere: &Elsewhere) -> Self {
        if let Some(origin) = &elsewhere.origin {
            self.origin = origin.clone();
        }
        self.history.join(&elsewhere.runs);
        self
    }
}

/// States that are not in memory, and cannot be read just now.
#[derive(Default)]
pub(super) struct Elsewhere {
    origin: Option<Earlier>,
    runs: Vec<(HistoryEntry, Earlier)>,
}

/// A state that has a name, and what sessions are like that start from it.
pub(super) struct Snapshot {
    pub image: Arc<Image>,
    pub fixed: FixedSettings,
    pub state: Arc<State>,
}

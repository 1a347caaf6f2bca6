//! The past states of a session.

use std::sync::Arc;

use super::history::{History, HistoryEntry};
use super::lazy::{Earlier, Source, read_all};
use super::options::{FixedSettings, HistoryLimits};
use super::state::State;
use crate::artifact::image::Image;
use crate::error::Error;

/// The states of a session. The latest state is in memory.
#[derive(Clone)]
pub(super) struct Past {
    /// State before the first run, after the initial code.
    pub origin: Earlier,
    /// State after the last completed run.
    pub state: Arc<State>,
    pub history: History,
}

impl Past {
    /// Creates the empty past of a closed session.
    pub(super) fn nothing() -> Self {
        let state = Arc::new(State::nothing());
        Self {
            origin: Arc::clone(&state).into(),
            state,
            history: History::new(HistoryLimits::default()),
        }
    }

    /// Whether all states are in memory.
    pub(super) fn is_settled(&self) -> bool {
        let is_here = |state: &Earlier| matches!(state, Earlier::Here(_));
        is_here(&self.origin) && self.history.entries().all(|entry| is_here(&entry.state))
    }

    /// Reads all lazy states. Blocks.
    pub(super) fn settle(&mut self) -> Result<(), Error> {
        if !self.is_settled() {
            let states = self.history.entries().map(|entry| &entry.state);
            read_all(states.chain([&self.origin]))?;
            self.origin = self.origin.read()?.into();
            self.history.settle()?;
        }
        Ok(())
    }

    /// Reads all lazy states; for states in `source`, only the metadata needed to write them back.
    /// Blocks.
    pub(super) fn outline(&mut self, source: &Arc<dyn Source>) -> Result<(), Error> {
        if !self.is_settled() {
            let outlined = |state: &Earlier| {
                if state.is_of(source) {
                    state.outline()
                } else {
                    state.read()
                }
            };
            self.origin = outlined(&self.origin)?.into();
            self.history.replace(outlined)?;
        }
        Ok(())
    }

    /// Returns the available states, and separately the states that cannot be read. For states in
    /// `source`, metadata is enough. Blocks.
    pub(super) fn part(&self, source: Option<&Arc<dyn Source>>) -> (Self, Elsewhere) {
        let is_outlined = |state: &Earlier| source.is_some_and(|source| state.is_of(source));
        let states = self.history.entries().map(|entry| &entry.state).chain([&self.origin]);
        if let Err(error) = read_all(states.filter(|state| !is_outlined(state))) {
            tracing::debug!(%error, "earlier states stay where they are");
        }
        let had = |state: &Earlier| match state.here() {
            None if is_outlined(state) => state.outline().ok(),
            here => here.cloned(),
        };
        let (mut here, mut elsewhere) = (self.clone(), Elsewhere::default());
        if let Some(origin) = had(&self.origin) {
            here.origin = origin.into();
        } else {
            here.origin = Arc::clone(&self.state).into();
            elsewhere.origin = Some(self.origin.clone());
        }
        elsewhere.runs = here.history.part(had);
        (here, elsewhere)
    }

    /// Adds back the states that were unavailable before the suspension.
    pub(super) fn with(mut self, elsewhere: &Elsewhere) -> Self {
        if let Some(origin) = &elsewhere.origin {
            self.origin = origin.clone();
        }
        self.history.join(&elsewhere.runs);
        self
    }
}

/// States that are not in memory and cannot currently be read.
#[derive(Default)]
pub(super) struct Elsewhere {
    origin: Option<Earlier>,
    runs: Vec<(HistoryEntry, Earlier)>,
}

/// A named state, with the settings of sessions that start from it.
pub(super) struct Snapshot {
    pub image: Arc<Image>,
    pub fixed: FixedSettings,
    pub state: Arc<State>,
}

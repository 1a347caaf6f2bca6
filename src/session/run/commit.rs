//! Saving the state after a run. The outcome does not wait for it; the next operation does.

use std::sync::Arc;

use super::{Awake, Core, ENGINE_FAILED, aside};
use crate::error::Error;
use crate::session::SessionError;
use crate::session::context::Context;
use crate::session::history::HistoryEntry;
use crate::session::state::State;
use crate::session::storage::Storage;

/// An interpreter whose run has ended and whose state is not saved yet.
pub(super) struct Unkept {
    awake: Awake,
    /// Bytes and files that the host has placed in the session, including this run's.
    placed: (u64, u64),
    /// The run, for the history.
    record: Option<HistoryEntry>,
}

/// A run whose state could not be saved.
pub(super) struct Failed {
    execution: u64,
    why: String,
}

/// Scans up to this size run inline; larger ones move to a blocking thread.
const MAX_SOON: usize = 4 << 20;

/// What the next outcome reports about a state that could not be saved.
const NOT_KEPT: &str = "the state after an earlier run could not be kept";

impl Core {
    /// Whether the state after the last run is not saved yet.
    pub(in crate::session) fn is_unkept(&self) -> bool {
        self.unkept.is_some()
    }

    /// Whether the unsaved state consists of memory alone, which is saved without waiting.
    pub(in crate::session) fn is_memory_unkept(&mut self) -> bool {
        self.unkept
            .as_mut()
            .is_some_and(|unkept| !unkept.awake.interpreter.instance().has_open_host_files())
    }

    /// Whether saving is so fast that the next caller may do it on any thread.
    pub(in crate::session) fn is_kept_soon(&mut self) -> bool {
        self.is_memory_unkept()
            && self
                .unkept
                .as_mut()
                .is_some_and(|unkept| unkept.awake.interpreter.instance().look() <= MAX_SOON)
    }

    /// Saves the state after the last run, if that was not done yet. If saving fails, the session
    /// is in its state before that run and reports it. Blocks; in an asynchronous runtime, call it
    /// on a thread that may block.
    pub(in crate::session) fn keep(&mut self, context: &Context) {
        let _keeping = context.keeping();
        let Some(mut unkept) = self.unkept.take() else {
            return;
        };
        let record = unkept.record.take();
        let execution = self.execution;
        // Set until saving is done, even if it panics.
        self.lost = Some(NOT_KEPT);
        let past = self.past_in_memory();
        match unkept.keep(&context.storage, &past.state) {
            Ok((awake, state)) => {
                past.state = Arc::new(state);
                self.awake = Some(awake);
                self.lost = None;
            }
            Err(error) => {
                let why = error.with_causes();
                tracing::warn!(session = context.id, why, "a session's state is not kept");
                self.not_kept = Some(Failed { execution, why });
            }
        }
        if let Some(record) = record {
            let past = self.past_in_memory();
            let state = Arc::clone(&past.state);
            past.history.push(record, state);
        }
    }

    /// Saves the state for a waiting caller: if dropped meanwhile, the state is lost.
    pub(super) async fn keep_now(&mut self, context: &Context) -> Result<(), Error> {
        let Some(unkept) = self.unkept.take() else {
            return Ok(());
        };
        let before = Arc::clone(&self.past_in_memory().state);
        let storage = Arc::clone(&context.storage);
        self.lost = Some(ENGINE_FAILED);
        let (awake, state) = aside(true, move || unkept.keep(&storage, &before)).await??;
        self.lost = None;
        self.past_in_memory().state = Arc::new(state);
        self.awake = Some(awake);
        Ok(())
    }

    /// Fails if the state after the last run is missing, so that no caller takes the previous state
    /// for it.
    pub(in crate::session) fn check_kept(&self, context: &Context) -> Result<(), Error> {
        match &self.not_kept {
            Some(Failed { execution, why }) => Err(SessionError::NotKept {
                id: context.id.clone(),
                execution: *execution,
                why: why.clone(),
            }
            .into()),
            None => Ok(()),
        }
    }

    /// Adds the last run to the history, with its state once it is saved.
    pub(super) fn record(&mut self, record: HistoryEntry) {
        if let Some(unkept) = &mut self.unkept {
            unkept.record = Some(record);
        } else {
            let past = self.past_in_memory();
            let state = Arc::clone(&past.state);
            past.history.push(record, state);
        }
    }
}

impl Unkept {
    pub(super) fn new(awake: Awake, placed: (u64, u64)) -> Self {
        Self {
            awake,
            placed,
            record: None,
        }
    }

    /// Returns the interpreter and its current state. Blocks; in an asynchronous runtime, call it
    /// on a thread that may block.
    pub(super) fn keep(self, storage: &Storage, before: &State) -> Result<(Awake, State), Error> {
        let Self {
            mut awake, placed, ..
        } = self;
        let instance = awake.interpreter.instance();
        let hosts = if instance.has_open_host_files() {
            tokio::runtime::Handle::current().block_on(instance.host_files())?
        } else {
            Vec::new()
        };
        let files = instance.files().clone();
        let kept = instance.keep(&before.kept, hosts, &storage.pages)?;
        let is_same =
            files.version() == before.files.version() && files.has_same_open(&before.files);
        let files = if is_same {
            Arc::clone(&before.files)
        } else {
            Arc::new(files)
        };
        let state = State {
            kept,
            files,
            placed,
        };
        tracing::debug!(bytes = state.beyond(before), "a session's state is kept");
        Ok((awake, state))
    }
}

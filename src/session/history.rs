//! History of a session: its runs, and the states that it can go back to.

use std::collections::VecDeque;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::options::HistoryBounds;
use super::state::State;
use crate::api::outcome::Outcome;

/// One run of a session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct HistoryEntry {
    /// Its number, counting from 1.
    pub execution: u64,
    /// The code that ran; of long code the first 64 KiB.
    pub code: String,
    /// Whether it succeeded.
    pub success: bool,
    /// Its error on one line.
    pub error: Option<String>,
    /// Milliseconds that it took.
    pub wall_ms: f64,
    /// Fuel that it used.
    pub fuel: u64,
}

/// The most bytes of a run's code that are kept.
const MAX_CODE: usize = 64 << 10;

/// The runs that a session remembers, the latest last.
#[derive(Clone, Debug)]
pub(super) struct History {
    entries: VecDeque<Entry>,
    bounds: HistoryBounds,
    bytes: u64,
}

/// One run, and the state after it.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub record: HistoryEntry,
    pub state: Arc<State>,
    /// Bytes that this state holds and the one after it does not.
    alone: u64,
}

impl History {
    pub(super) fn new(bounds: HistoryBounds) -> Self {
        Self {
            entries: VecDeque::new(),
            bounds,
            bytes: 0,
        }
    }

    /// Adds the latest run, and drops the oldest that there is no room for.
    pub(super) fn push(&mut self, record: HistoryEntry, state: Arc<State>) {
        if let Some(before) = self.entries.back_mut() {
            before.alone = before.state.beyond(&state);
            self.bytes += before.alone;
        }
        self.entries.push_back(Entry {
            record,
            state,
            alone: 0,
        });
        while self.entries.len() > self.bounds.runs
            || (self.bytes > self.bounds.bytes && self.entries.len() > 1)
        {
            let Some(oldest) = self.entries.pop_front() else {
                break;
            };
            self.bytes -= oldest.alone;
        }
    }

    /// Forgets what came after a run; false when that run is not here.
    pub(super) fn cut_after(&mut self, execution: u64) -> bool {
        let Some(index) = self.entries.iter().position(|e| e.record.execution == execution) else {
            return false;
        };
        self.entries.truncate(index + 1);
        if let Some(last) = self.entries.back_mut() {
            last.alone = 0;
        }
        self.bytes = self.entries.iter().map(|entry| entry.alone).sum();
        true
    }

    pub(super) fn clear(&mut self) {
        self.entries.clear();
        self.bytes = 0;
    }

    /// The state after a run.
    pub(super) fn state(&self, execution: u64) -> Option<&Arc<State>> {
        self.entries.iter().find(|e| e.record.execution == execution).map(|entry| &entry.state)
    }

    pub(super) fn entries(&self) -> impl ExactSizeIterator<Item = &Entry> {
        self.entries.iter()
    }

    pub(super) fn records(&self) -> Vec<HistoryEntry> {
        self.entries.iter().map(|entry| entry.record.clone()).collect()
    }

    /// Says in words which runs are here.
    pub(super) fn describe(&self) -> String {
        match (self.entries.front(), self.entries.back()) {
            (Some(first), Some(last)) => format!(
                "its history holds runs {} to {}, and 0 is its beginning",
                first.record.execution, last.record.execution
            ),
            _ => "its history holds nothing but its beginning, which is 0".into(),
        }
    }
}

impl HistoryEntry {
    pub(super) fn of(outcome: &Outcome, execution: u64) -> Self {
        Self {
            execution,
            code: outcome.code[..outcome.code.floor_char_boundary(MAX_CODE)].to_owned(),
            success: outcome.success,
            error: outcome.error.clone(),
            wall_ms: outcome.usage.wall_ms,
            fuel: outcome.usage.fuel,
        }
    }
}

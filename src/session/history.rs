//! A session's history: its runs, and the states that it can return to.

use std::collections::VecDeque;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::lazy::Earlier;
use super::options::HistoryLimits;
use super::state::State;
use crate::api::outcome::Outcome;
use crate::error::Error;
use crate::limits::MAX_HISTORY_RECORDS;
use crate::workspace::json_bytes;

/// A run in the history of a session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct HistoryEntry {
    /// Number of the run, counted from 1.
    pub execution: u64,
    /// The code that ran, up to its first 64 KiB.
    pub code: String,
    /// Whether the run succeeded.
    pub success: bool,
    /// The error, on one line.
    pub error: Option<String>,
    /// Wall clock time, in milliseconds.
    pub wall_ms: f64,
    /// Fuel used.
    pub fuel: u64,
}

/// Maximum size of a run's code in the history, in bytes.
const MAX_CODE: usize = 64 << 10;

/// The runs in a session's history, oldest first.
#[derive(Clone, Debug)]
pub(super) struct History {
    entries: VecDeque<Entry>,
    bounds: HistoryLimits,
    /// Size of the records, and of data that only earlier states hold, in bytes.
    bytes: u64,
    /// Size of the records, in bytes.
    records: u64,
}

/// A run and the state after it.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub record: HistoryEntry,
    pub state: Earlier,
    /// Size of data in this state that the next state does not share, in bytes; zero until the
    /// state is read.
    alone: u64,
    /// Size of the record, in bytes.
    own: u64,
}

impl History {
    pub(super) fn new(bounds: HistoryLimits) -> Self {
        Self {
            entries: VecDeque::new(),
            bounds,
            bytes: 0,
            records: 0,
        }
    }

    /// Adds the latest run, and drops the oldest runs that exceed the limits.
    pub(super) fn push(&mut self, record: HistoryEntry, state: impl Into<Earlier>) {
        let state = state.into();
        if let Some(before) = self.entries.back_mut() {
            let both = before.state.here().zip(state.here());
            before.alone = both.map_or(0, |(before, state)| before.beyond(state));
            self.bytes += before.alone;
        }
        let own = record.json_bytes();
        self.bytes += own;
        self.records += own;
        self.entries.push_back(Entry {
            record,
            state,
            alone: 0,
            own,
        });
        while self.entries.len() > self.bounds.runs || (self.is_full() && self.entries.len() > 1) {
            let Some(oldest) = self.entries.pop_front() else {
                break;
            };
            self.bytes -= oldest.alone + oldest.own;
            self.records -= oldest.own;
        }
    }

    fn is_full(&self) -> bool {
        self.bytes > self.bounds.bytes || self.records > MAX_HISTORY_RECORDS
    }

    /// Forgets the runs after `execution`. Returns false if that run is not in the history.
    pub(super) fn cut_after(&mut self, execution: u64) -> bool {
        let Some(index) = self.entries.iter().position(|e| e.record.execution == execution) else {
            return false;
        };
        self.entries.truncate(index + 1);
        if let Some(last) = self.entries.back_mut() {
            last.alone = 0;
        }
        self.records = self.entries.iter().map(|entry| entry.own).sum();
        self.bytes = self.records + self.entries.iter().map(|entry| entry.alone).sum::<u64>();
        true
    }

    pub(super) fn clear(&mut self) {
        *self = Self::new(self.bounds);
    }

    /// Replaces all lazy states by the states read. This may drop the oldest runs.
    pub(super) fn settle(&mut self) -> Result<(), Error> {
        self.replace(Earlier::read)
    }

    /// Replaces all states by the results of `read`. This may drop the oldest runs.
    pub(super) fn replace(
        &mut self,
        read: impl Fn(&Earlier) -> Result<Arc<State>, Error>,
    ) -> Result<(), Error> {
        let mut replaced = Self::new(self.bounds);
        for entry in &self.entries {
            replaced.push(entry.record.clone(), read(&entry.state)?);
        }
        *self = replaced;
        Ok(())
    }

    /// Removes and returns the runs whose states are not available.
    pub(super) fn part(
        &mut self,
        had: impl Fn(&Earlier) -> Option<Arc<State>>,
    ) -> Vec<(HistoryEntry, Earlier)> {
        let (mut here, mut elsewhere) = (Self::new(self.bounds), Vec::new());
        for Entry { record, state, .. } in self.entries.drain(..) {
            match had(&state) {
                Some(state) => here.push(record, state),
                None => elsewhere.push((record, state)),
            }
        }
        *self = here;
        elsewhere
    }

    /// Adds runs that were removed.
    pub(super) fn join(&mut self, elsewhere: &[(HistoryEntry, Earlier)]) {
        if elsewhere.is_empty() {
            return;
        }
        let here = self.entries.drain(..).map(|entry| (entry.record, entry.state));
        let mut all: Vec<_> = here.chain(elsewhere.iter().cloned()).collect();
        all.sort_by_key(|(record, _)| record.execution);
        *self = Self::new(self.bounds);
        for (record, state) in all {
            self.push(record, state);
        }
    }

    /// Returns the state after a run.
    pub(super) fn state(&self, execution: u64) -> Option<&Earlier> {
        self.entries.iter().find(|e| e.record.execution == execution).map(|entry| &entry.state)
    }

    pub(super) fn entries(&self) -> impl ExactSizeIterator<Item = &Entry> {
        self.entries.iter()
    }

    pub(super) fn records(&self) -> Vec<HistoryEntry> {
        self.entries.iter().map(|entry| entry.record.clone()).collect()
    }

    /// Describes in words which runs are available.
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

    /// Returns the maximum size of the record in a manifest, in bytes.
    pub(super) fn json_bytes(&self) -> u64 {
        /// Size of the other fields, their names, and the number of the state.
        const REST: u64 = 256;
        json_bytes(&self.code) + self.error.as_deref().map_or(0, json_bytes) + REST
    }
}

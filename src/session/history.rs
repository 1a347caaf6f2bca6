//! History of a session: its runs, and the states that it can go back to.

use std::collections::VecDeque;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::earlier::Earlier;
use super::options::HistoryBounds;
use super::state::State;
use crate::api::outcome::Outcome;
use crate::error::Error;
use crate::limits::MAX_HISTORY_RECORDS;
use crate::workspace::json_bytes;

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
    /// Bytes that only its states hold, and of its records.
    bytes: u64,
    /// Bytes of its records.
    records: u64,
}

/// One run, and the state after it.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub record: HistoryEntry,
    pub state: Earlier,
    /// Bytes that this state holds and the one after it does not: none as long as it is not read.
    alone: u64,
    /// Bytes of the record.
    own: u64,
}

impl History {
    pub(super) fn new(bounds: HistoryBounds) -> Self {
        Self {
            entries: VecDeque::new(),
            bounds,
            bytes: 0,
            records: 0,
        }
    }

    /// Adds the latest run, and drops the oldest that there is no room for.
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

    /// Forgets what came after a run; false when that run is not here.
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

    /// Has all states here, which were read. There may be no room for some then.
    pub(super) fn settle(&mut self) -> Result<(), Error> {
        self.replace(Earlier::read)
    }

    /// Has all states here, as `read` finds them. There may be no room for some then.
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

    /// Leaves out the runs whose states cannot be `had`, and returns them.
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

    /// Adds runs that were left out.
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

    /// The state after a run.
    pub(super) fn state(&self, execution: u64) -> Option<&Earlier> {
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

    /// Bytes that it takes in a manifest, at most.
    pub(super) fn json_bytes(&self) -> u64 {
        /// The other fields, their names, and the number of the state.
        const REST: u64 = 256;
        json_bytes(&self.code) + self.error.as_deref().map_or(0, json_bytes) + REST
    }
}

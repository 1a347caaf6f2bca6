//! Accounting of a run's calls: admission, answers, fetches and cancellation.

use std::time::Instant;

use serde_json::Value;

use super::frames;
use super::record::Record;
use super::{Fresh, Inner, Logged, LoggedAnswer, Settled};
use crate::api::outcome::ToolErrorKind;
use crate::api::tool::ToolError;
use crate::limits::{MAX_OPEN_CALLS, MAX_RECORDED_TOGETHER};

impl Inner {
    /// Admits a call of `bytes` bytes, or returns why a limit forbids it. Only the first rejected
    /// call is recorded.
    pub(super) fn admit(&mut self, bytes: usize) -> Result<u64, ToolError> {
        let total = self.bytes.saturating_add(bytes as u64);
        let (is_lasting, problem) = if self.count >= u64::from(self.limits.calls) {
            (true, format!("the run has used up its {} calls", self.limits.calls))
        } else if total > self.limits.total_bytes {
            (true, format!("the run has used up its {} bytes for calls", self.limits.total_bytes))
        } else if self.fresh.len() + self.open.len() + self.answered.len() >= MAX_OPEN_CALLS {
            (false, format!("{MAX_OPEN_CALLS} calls are open already"))
        } else {
            self.bytes = total;
            return Ok(self.next());
        };
        if is_lasting && !std::mem::replace(&mut self.is_spent, true) {
            let record = Record::new(self.next(), Instant::now());
            self.note(record.failed(ToolErrorKind::BudgetExceeded, &problem));
        }
        Err(ToolError::of(ToolErrorKind::BudgetExceeded, problem))
    }

    /// Adds the log's entry to a call.
    pub(super) fn with_logged(&self, fresh: Fresh) -> (Fresh, Option<Logged>) {
        let logged = self.log.as_ref().and_then(|log| log.get(&fresh.id)).cloned();
        (fresh, logged)
    }

    /// Returns the number for the next call.
    fn next(&mut self) -> u64 {
        self.count += 1;
        self.latest += 1;
        self.latest
    }

    /// Stores an answer for the guest, and in the log if the call is `logged`.
    pub(super) fn settle(
        &mut self,
        record: Record,
        answer: Settled,
        logged: Option<(String, Value)>,
    ) -> Record {
        let id = record.id();
        let is_typed = record.is_typed();
        let given = logged.is_some().then(|| LoggedAnswer::of(&answer));
        let mut answer = answer.and_then(|value| self.weigh(value, is_typed));
        if let (Some((name, arguments)), Some(given)) = (logged, given) {
            // A replayed guest must get the same answer.
            let mut given = answer.as_ref().err().map_or(given, LoggedAnswer::failed);
            if let Err(error) = given.take_room(&mut self.room) {
                given = LoggedAnswer::failed(&error);
                answer = Err(error);
            }
            let call = Logged {
                id,
                name,
                arguments,
                answer: given,
                is_for_any: false,
            };
            self.log.get_or_insert_default().insert(id, call);
        }
        let (sent, record) = match answer {
            Ok(bytes) => {
                let length = bytes.len();
                let sent = if is_typed {
                    frames::typed(&bytes)
                } else {
                    frames::answer(&bytes)
                };
                (sent, record.answered(length))
            }
            Err(error) => {
                let (kind, message) = error.into_parts();
                (frames::failure(kind, &message), record.failed(kind, &message))
            }
        };
        self.answered.insert(id, sent);
        record
    }

    /// Encodes an answer, if it is not too large.
    fn weigh(&mut self, value: Value, is_typed: bool) -> Result<Vec<u8>, ToolError> {
        let bytes = if is_typed {
            // A mistake in an answer concerns its author; the code sees an internal error.
            belljar_value::wire::write(&serde_json::from_value(value)?)?
        } else {
            serde_json::to_vec(&value)?
        };
        let most = self.limits.answer_bytes;
        if bytes.len() > most as usize {
            let message = format!("the answer has {} bytes, at most {most} are sent", bytes.len());
            return Err(ToolError::of(ToolErrorKind::TooLarge, message));
        }
        let total = self.bytes.saturating_add(bytes.len() as u64);
        if total > self.limits.total_bytes {
            let total = self.limits.total_bytes;
            let message = format!("the run has used up its {total} bytes for calls");
            return Err(ToolError::of(ToolErrorKind::BudgetExceeded, message));
        }
        self.bytes = total;
        Ok(bytes)
    }

    pub(super) fn note(&mut self, mut record: Record) {
        if record.is_listed() {
            record.keep_arguments_within(MAX_RECORDED_TOGETHER.saturating_sub(self.recorded));
            self.recorded += record.kept_bytes();
            self.records.push(record);
        }
    }

    /// Whether a wait for these calls can end: one is answered, or, in a deterministic run, none is
    /// open.
    pub(super) fn is_ready(&self, ids: &[u64]) -> bool {
        let is_open = |id: &u64| {
            self.open.iter().any(|call| call.record.id() == *id)
                || self.fresh.iter().any(|fresh| fresh.id == *id)
        };
        match ids {
            [id] => !is_open(id),
            _ if self.repeatable => !ids.iter().any(is_open),
            _ => !ids.iter().all(is_open),
        }
    }

    /// Takes the answers of these calls. An unknown call is answered with an error.
    pub(super) fn fetch(&mut self, ids: &[u64]) -> Vec<(u64, Vec<u8>)> {
        let mut found = Vec::new();
        for id in ids {
            if let Some(answer) = self.answered.remove(id) {
                found.push((*id, answer));
            } else if !self.open.iter().any(|call| call.record.id() == *id)
                && !self.fresh.iter().any(|fresh| fresh.id == *id)
            {
                found.push((
                    *id,
                    frames::failure(ToolErrorKind::Cancelled, "there is no such call"),
                ));
            }
        }
        found
    }

    /// Cancels a call.
    pub(super) fn cancel(&mut self, id: u64) {
        self.answered.remove(&id);
        let why = "the code gave it up";
        if let Some(at) = self.open.iter().position(|call| call.record.id() == id) {
            let call = self.open.swap_remove(at);
            self.note(call.record.failed(ToolErrorKind::Cancelled, why));
        }
        if let Some(at) = self.fresh.iter().position(|fresh| fresh.id == id) {
            let fresh = self.fresh.swap_remove(at);
            let record = Record::new(fresh.id, fresh.since);
            self.note(record.failed(ToolErrorKind::Cancelled, why));
        }
    }
}

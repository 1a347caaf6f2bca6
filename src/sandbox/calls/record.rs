//! The record of a call in the outcome.

use std::time::Instant;

use serde_json::Value;

use super::frames::CallFrame;
use crate::api::outcome::event::EventKind;
use crate::api::outcome::{ToolCall, ToolCallError, ToolErrorKind};
use crate::limits::{MAX_RECORDED_ARGUMENTS, MAX_TOOL_NAME};

/// A call with its progress so far.
#[derive(Clone)]
pub(super) struct Record {
    call: ToolCall,
    since: Instant,
    is_listed: bool,
    /// Whether its answer is a typed value.
    is_typed: bool,
    /// Size of the recorded arguments, in bytes.
    kept: usize,
}

impl Record {
    /// Creates the record of a call that was not parsed yet.
    pub(super) fn new(id: u64, since: Instant) -> Self {
        let call = ToolCall {
            id,
            name: String::new(),
            arguments: Value::Null,
            ok: false,
            error: None,
            duration_ms: 0.0,
            argument_bytes: 0,
            answer_bytes: 0,
        };
        Self {
            call,
            since,
            is_listed: true,
            is_typed: false,
            kept: 0,
        }
    }

    /// Excludes the call from the outcome, because it is not a tool's.
    pub(super) fn unlisted(mut self) -> Self {
        self.is_listed = false;
        self
    }

    /// Adds the parsed call.
    pub(super) fn of(mut self, call: &CallFrame) -> Self {
        let name = &call.name;
        let end = name.floor_char_boundary(2 * MAX_TOOL_NAME + 1);
        name[..end].clone_into(&mut self.call.name);
        self.is_typed = call.is_typed;
        // Bytes of typed values are a third larger as text.
        let most = if call.is_typed {
            usize::MAX
        } else {
            call.bytes
        };
        let (kept, bytes) = repeat(&call.arguments, most);
        self.kept = bytes.min(MAX_RECORDED_ARGUMENTS);
        self.call.arguments = kept;
        self.call.argument_bytes = bytes as u64;
        self
    }

    /// Returns the event for the start of the call.
    pub(super) fn begun(&self) -> EventKind {
        EventKind::ToolCall {
            id: self.call.id,
            name: self.call.name.clone(),
            arguments: self.call.arguments.clone(),
        }
    }

    pub(super) fn answered(mut self, bytes: usize) -> Self {
        self.call.ok = true;
        self.call.answer_bytes = bytes as u64;
        self.ended()
    }

    pub(super) fn failed(mut self, kind: ToolErrorKind, message: &str) -> Self {
        let end = message.floor_char_boundary(MAX_RECORDED_ARGUMENTS);
        let message = message[..end].to_owned();
        self.call.error = Some(ToolCallError { kind, message });
        self.ended()
    }

    fn ended(mut self) -> Self {
        // In milliseconds, to the microsecond.
        self.call.duration_ms = self.since.elapsed().as_micros() as f64 / 1_000.0;
        self
    }

    /// Drops the arguments if they exceed `bytes`.
    pub(super) fn keep_arguments_within(&mut self, bytes: usize) {
        if self.kept > bytes {
            self.call.arguments = Value::Null;
            self.kept = 0;
        }
    }

    pub(super) fn kept_bytes(&self) -> usize {
        self.kept
    }

    pub(super) fn is_listed(&self) -> bool {
        self.is_listed
    }

    pub(super) fn is_typed(&self) -> bool {
        self.is_typed
    }

    pub(super) fn id(&self) -> u64 {
        self.call.id
    }

    pub(super) fn name(&self) -> &str {
        &self.call.name
    }

    /// Returns the entry for the outcome; without times in a deterministic run.
    pub(super) fn finish(mut self, repeatable: bool) -> ToolCall {
        if repeatable {
            self.call.duration_ms = 0.0;
        }
        self.call
    }
}

/// Returns the start of a value's JSON, for a message.
pub(super) fn shortened(value: &Value) -> String {
    let text = value.to_string();
    text[..text.floor_char_boundary(200)].to_owned()
}

/// Returns the arguments as the outcome records them, with their size; `frame` is the maximum.
fn repeat(arguments: &Value, frame: usize) -> (Value, usize) {
    if frame <= MAX_RECORDED_ARGUMENTS {
        return (arguments.clone(), arguments.to_string().len());
    }
    let text = arguments.to_string();
    if text.len() <= MAX_RECORDED_ARGUMENTS {
        return (arguments.clone(), text.len());
    }
    let end = text.floor_char_boundary(MAX_RECORDED_ARGUMENTS);
    (Value::String(text[..end].to_owned()), text.len())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn long_arguments_are_cut_and_counted() {
        let long = json!({"a": "é".repeat(MAX_RECORDED_ARGUMENTS)});
        let read = CallFrame {
            name: "x".into(),
            arguments: long,
            is_typed: false,
            bytes: 1 << 20,
        };
        let record = Record::new(1, Instant::now()).of(&read);
        let call = record.finish(false);
        assert!(call.arguments.as_str().unwrap().len() <= MAX_RECORDED_ARGUMENTS);
        assert_eq!(call.argument_bytes, 8 + 2 * MAX_RECORDED_ARGUMENTS as u64);
    }
}

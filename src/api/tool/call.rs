//! Calls and questions of a started run, which its caller answers between two turns.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;
use tokio::sync::oneshot;

use super::{ToolError, arguments_of};
use belljar_value::Value as Typed;

/// A call of a tool without a function, in a [started](crate::event::Running) run. The code, or one
/// of its tasks, waits for the answer. A call that is dropped fails.
#[derive(Debug)]
#[non_exhaustive]
pub struct Call {
    /// Number of the call in the run.
    pub id: u64,
    /// Name of the tool.
    pub name: String,
    /// All arguments, which match the tool's schema. Typed values are in their tagged form.
    pub arguments: Value,
    answer: oneshot::Sender<Result<Value, ToolError>>,
}

impl Call {
    pub(crate) fn new(
        (id, name, arguments): (u64, String, Value),
        answer: oneshot::Sender<Result<Value, ToolError>>,
    ) -> Self {
        Self {
            id,
            name,
            arguments,
            answer,
        }
    }

    /// Returns the arguments as values, also for a tool without typed values; `None` if they are
    /// not valid typed values.
    pub fn values(&self) -> Option<BTreeMap<String, Typed>> {
        arguments_of(self.arguments.clone()).ok()
    }

    /// Answers the call: with a [typed value](crate::value::Value) if the tool returns typed
    /// values, otherwise with anything that JSON can represent. Ignored if the call has ended.
    pub fn answer(self, value: impl Serialize) {
        self.settle(serde_json::to_value(value).map_err(ToolError::from));
    }

    /// Fails the call. Ignored if the call has ended.
    pub fn fail(self, error: ToolError) {
        self.settle(Err(error));
    }

    fn settle(self, answer: Result<Value, ToolError>) {
        // A call whose time is over has no receiver.
        let _ = self.answer.send(answer);
    }

    /// Whether the run still waits for the answer.
    pub(crate) fn is_open(&self) -> bool {
        !self.answer.is_closed()
    }
}

/// A call of `input()` in a [started](crate::event::Running) run. A question that is dropped gets
/// the end of the input.
#[derive(Debug)]
#[non_exhaustive]
pub struct Question {
    /// The prompt.
    pub prompt: String,
    answer: oneshot::Sender<Option<String>>,
}

impl Question {
    pub(crate) fn new(prompt: String, answer: oneshot::Sender<Option<String>>) -> Self {
        Self { prompt, answer }
    }

    /// Answers with a line without its line break, or with `None` for the end of the input.
    pub fn answer(self, line: Option<String>) {
        // A run that has ended has no receiver.
        let _ = self.answer.send(line);
    }

    /// Whether the run still waits for the answer.
    pub(crate) fn is_open(&self) -> bool {
        !self.answer.is_closed()
    }
}

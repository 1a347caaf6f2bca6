//! The log of a run with deferred tools: the answers to its calls, for its replay.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{LogRoom, Settled};
use crate::api::outcome::ToolErrorKind;
use crate::api::tool::{ToolAnswer, ToolError};

/// A call and its answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Logged {
    /// Number of the call in the run.
    pub id: u64,
    pub name: String,
    pub arguments: Value,
    pub answer: LoggedAnswer,
    /// Whether the answer was given for a number only, so it applies to any call with that number.
    #[serde(skip)]
    pub is_for_any: bool,
}

impl Logged {
    /// Creates an entry for an answer given before the call.
    pub(crate) fn beforehand(answer: &ToolAnswer) -> Self {
        Self {
            id: answer.id,
            name: String::new(),
            arguments: Value::Null,
            answer: LoggedAnswer::given(answer.answer.clone()),
            is_for_any: true,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum LoggedAnswer {
    Ok(Value),
    Error {
        kind: ToolErrorKind,
        message: String,
    },
}

impl LoggedAnswer {
    /// Creates an answer from a caller's value or error.
    pub(crate) fn given(answer: Result<Value, String>) -> Self {
        match answer {
            Ok(value) => Self::Ok(value),
            Err(message) => Self::Error {
                kind: ToolErrorKind::ToolError,
                message,
            },
        }
    }

    pub(super) fn of(answer: &Settled) -> Self {
        match answer {
            Ok(value) => Self::Ok(value.clone()),
            Err(error) => Self::failed(error),
        }
    }

    pub(super) fn failed(error: &ToolError) -> Self {
        let (kind, message) = error.parts();
        Self::Error {
            kind,
            message: message.to_owned(),
        }
    }

    /// Takes the room for this answer.
    pub(crate) fn take_room(&self, room: &mut LogRoom) -> Result<(), ToolError> {
        match self {
            Self::Ok(value) => room.take_answer(value),
            Self::Error { message, .. } => room.take_answer(message),
        }
    }

    pub(super) fn settled(&self) -> Settled {
        match self {
            Self::Ok(value) => Ok(value.clone()),
            Self::Error { kind, message } => Err(ToolError::of(*kind, message)),
        }
    }
}

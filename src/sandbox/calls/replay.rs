//! The log of a run that may wait: what its calls were answered, for when it is run again.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{LogRoom, Settled};
use crate::api::outcome::ToolErrorKind;
use crate::api::tool::{ToolAnswer, ToolError};

/// A call and its answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Logged {
    /// Which of the run's calls it was.
    pub id: u64,
    pub name: String,
    pub arguments: Value,
    pub answer: LoggedAnswer,
    /// Whoever gave the answer did not say to what, so it belongs to whatever call has the number.
    #[serde(skip)]
    pub is_for_any: bool,
}

impl Logged {
    /// An answer that was given before its call was made.
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
    /// What a caller gave.
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

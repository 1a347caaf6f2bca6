//! What happens in a run, in order: see `docs/reference/events.md`.

use std::borrow::Cow;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

use super::{ErrorDetail, ErrorKind, ToolCall};

/// Something that happened in a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct Event {
    /// When, counted from the start of the run; in a deterministic one on the guest's clock. In
    /// JSON it is `at_ms`, a number of milliseconds.
    #[serde(rename = "at_ms", with = "milliseconds")]
    #[schemars(with = "Milliseconds")]
    pub at: Duration,
    /// What.
    #[serde(flatten)]
    pub kind: EventKind,
}

/// What happened. More kinds may come: readers pass over those that they do not know.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum EventKind {
    /// The run began: the first event.
    Started,
    /// The code wrote to standard output.
    Stdout {
        /// Whole characters; bytes that are not UTF-8 are replaced by U+FFFD.
        text: String,
    },
    /// The code wrote to standard error. The traceback of the error that ends the code is not here,
    /// but in the error.
    Stderr {
        /// Whole characters; bytes that are not UTF-8 are replaced by U+FFFD.
        text: String,
    },
    /// The code displayed a value, or a figure was captured.
    Display(Display),
    /// What was displayed under an id is to be shown anew, wherever it stands.
    UpdateDisplay(Display),
    /// The value of the last expression, where the request asks for it.
    Result(Display),
    /// What was shown so far is to be removed.
    Clear {
        /// Not before there is something to show in its place.
        wait: bool,
    },
    /// The run left a file that is new or changed. These come when the code is over.
    FileWritten {
        /// Path relative to the workspace, separated by `/`.
        path: String,
        /// Size in bytes.
        size: u64,
    },
    /// The code called a tool.
    ToolCall {
        /// Which of the run's calls it is.
        id: u64,
        /// The tool, as the code named it.
        name: String,
        /// The arguments; of long ones the beginning of their JSON, as a string.
        arguments: Value,
    },
    /// A call of a tool has ended.
    ToolAnswer(ToolCall),
    /// The code was told to stop.
    Interrupted {
        /// Why: `timeout`, `fuel`, `output` or `interrupted`.
        reason: ErrorKind,
    },
    /// The run failed. It is the outcome's error, and comes after all that the code did.
    Error {
        /// The error on one line.
        error: String,
        /// The error in parts.
        detail: ErrorDetail,
    },
    /// So much is missing here, because the reader was too slow.
    Dropped {
        /// How many events.
        events: u64,
        /// How many bytes they had.
        bytes: u64,
    },
    /// The run ended: the last event.
    Ended {
        /// Whether it succeeded.
        success: bool,
    },
}

/// A value as its reader may show it, in one or more forms. All of it is the guest's claim: HTML and
/// scripts in it are a stranger's, and what is called a picture may be anything.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct Display {
    /// The forms by their media type, such as `text/plain`, `text/html` and `image/png`. Text is a
    /// string, what is binary is base64, and what is JSON is itself.
    pub data: Map<String, Value>,
    /// What else is known of them, mostly by media type, such as a picture's width.
    #[serde(default)]
    pub metadata: Map<String, Value>,
    /// The name under which it can be updated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub display_id: Option<String>,
}

impl EventKind {
    /// What any of them takes at least, in bytes.
    pub(crate) const LEAST: usize = 64;

    /// Adds text to text of the same stream; whether it was that.
    pub(crate) fn join(&mut self, next: &Self) -> bool {
        match (self, next) {
            (Self::Stdout { text }, Self::Stdout { text: more })
            | (Self::Stderr { text }, Self::Stderr { text: more }) => {
                text.push_str(more);
                true
            }
            _ => false,
        }
    }

    /// Bytes that it takes in memory, about.
    pub(crate) fn size(&self) -> usize {
        let own = match self {
            Self::Stdout { text } | Self::Stderr { text } => text.len(),
            Self::Display(display) | Self::UpdateDisplay(display) | Self::Result(display) => {
                display.size()
            }
            Self::FileWritten { path, .. } => path.len(),
            Self::Error { error, detail } => {
                let traceback = detail.traceback.as_ref().map_or(0, String::len);
                error.len() + detail.message.len() + traceback
            }
            Self::ToolCall {
                name, arguments, ..
            } => name.len() + value_size(arguments),
            Self::ToolAnswer(call) => {
                let message = call.error.as_ref().map_or(0, |error| error.message.len());
                call.name.len() + value_size(&call.arguments) + message
            }
            Self::Started
            | Self::Clear { .. }
            | Self::Interrupted { .. }
            | Self::Dropped { .. }
            | Self::Ended { .. } => 0,
        };
        own + Self::LEAST
    }
}

impl Display {
    fn size(&self) -> usize {
        let of = |map: &Map<String, Value>| -> usize {
            map.iter().map(|(key, value)| key.len() + value_size(value)).sum()
        };
        of(&self.data) + of(&self.metadata)
    }
}

/// Bytes that a value takes in memory, about.
fn value_size(value: &Value) -> usize {
    size_of::<Value>()
        + match value {
            Value::String(text) => text.len(),
            Value::Array(items) => items.iter().map(value_size).sum(),
            Value::Object(map) => map.iter().map(|(k, v)| 2 * k.len() + value_size(v)).sum(),
            Value::Null | Value::Bool(_) | Value::Number(_) => 0,
        }
}

/// A duration as a number of milliseconds, to the microsecond.
mod milliseconds {
    use super::{Deserialize, Deserializer, Duration, Serializer};

    pub(super) fn serialize<S: Serializer>(at: &Duration, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_f64(at.as_micros() as f64 / 1_000.0)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
        let at = f64::deserialize(from)?;
        Duration::try_from_secs_f64(at / 1_000.0).map_err(serde::de::Error::custom)
    }
}

struct Milliseconds;

impl JsonSchema for Milliseconds {
    fn schema_name() -> Cow<'static, str> {
        "Milliseconds".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "number", "minimum": 0})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_one_flat_object() {
        let event = Event {
            at: Duration::from_micros(1_500),
            kind: EventKind::Stdout { text: "a".into() },
        };
        let text = serde_json::to_string(&event).unwrap();
        assert_eq!(text, r#"{"at_ms":1.5,"type":"stdout","text":"a"}"#);
        assert_eq!(serde_json::from_str::<Event>(&text).unwrap(), event);
    }

    #[test]
    fn every_kind_is_read_back() {
        let display = Display {
            data: Map::from_iter([("text/plain".to_owned(), Value::from("1"))]),
            metadata: Map::new(),
            display_id: Some("x".into()),
        };
        let kinds = [
            EventKind::Started,
            EventKind::UpdateDisplay(display),
            EventKind::Interrupted {
                reason: ErrorKind::Fuel,
            },
            EventKind::Ended { success: true },
        ];
        for kind in kinds {
            let at = Duration::from_millis(3);
            let event = Event { at, kind };
            let text = serde_json::to_string(&event).unwrap();
            assert_eq!(serde_json::from_str::<Event>(&text).unwrap(), event, "{text}");
        }
    }
}

//! Events of a run, in order. See `docs/reference/events.md`.

use std::borrow::Cow;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

use super::{ErrorDetail, ErrorKind, ToolCall};

/// An event of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct Event {
    /// Time since the start of the run. Deterministic runs use the guest's clock. In JSON, the key
    /// is `at_ms`, in milliseconds.
    #[serde(rename = "at_ms", with = "milliseconds")]
    #[schemars(with = "Milliseconds")]
    pub at: Duration,
    /// Kind of event, with its data.
    #[serde(flatten)]
    pub kind: EventKind,
}

/// Kinds of events. Later versions may add kinds: readers should ignore unknown kinds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum EventKind {
    /// The run started. First event.
    Started,
    /// The code wrote to standard output.
    Stdout {
        /// Whole characters. Invalid UTF-8 is replaced by U+FFFD.
        text: String,
    },
    /// The code wrote to standard error. The traceback of an error that ends the code is in the
    /// event `error` instead.
    Stderr {
        /// Whole characters. Invalid UTF-8 is replaced by U+FFFD.
        text: String,
    },
    /// The code displayed a value, or a figure was captured.
    Display(Display),
    /// The display with the same id should be replaced wherever it is shown.
    UpdateDisplay(Display),
    /// The value of the last expression, if the request asks for it.
    Result(Display),
    /// Everything displayed so far should be removed.
    Clear {
        /// Whether to wait until there is new content to show.
        wait: bool,
    },
    /// The run left a new or changed file. Sent after the code has ended.
    FileWritten {
        /// Path relative to the workspace, separated by `/`.
        path: String,
        /// Size in bytes.
        size: u64,
    },
    /// The code called a tool.
    ToolCall {
        /// Number of the call in the run.
        id: u64,
        /// Name of the tool, as used by the code.
        name: String,
        /// Arguments of the call. Long arguments are cut to the start of their JSON, as a string.
        arguments: Value,
    },
    /// A tool call ended.
    ToolAnswer(ToolCall),
    /// The code was told to stop.
    Interrupted {
        /// The reason: `timeout`, `fuel`, `output` or `interrupted`.
        reason: ErrorKind,
    },
    /// The run failed. This is the outcome's error, and follows all other events of the code.
    Error {
        /// The error on one line.
        error: String,
        /// The error in structured form.
        detail: ErrorDetail,
    },
    /// Events are missing here, because the reader was too slow.
    Dropped {
        /// Number of missing events.
        events: u64,
        /// Size of the missing events, in bytes.
        bytes: u64,
    },
    /// The run ended. Last event.
    Ended {
        /// Whether the run succeeded.
        success: bool,
    },
}

/// A displayed value in one or more forms. All forms are untrusted guest data: HTML may contain
/// scripts, and the bytes may not match the media type.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct Display {
    /// The forms by media type, such as `text/plain`, `text/html` and `image/png`. Text is a
    /// string, binary data is base64, and JSON is embedded.
    pub data: Map<String, Value>,
    /// Metadata of the forms, usually by media type, such as a picture's width.
    #[serde(default)]
    pub metadata: Map<String, Value>,
    /// Id under which the display can be updated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub display_id: Option<String>,
}

impl EventKind {
    /// Minimum size of an event in memory, in bytes.
    pub(crate) const LEAST: usize = 64;

    /// Appends the text of `next` if both are text of the same stream. Returns whether it did.
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

    /// Returns the approximate size in memory, in bytes.
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

/// Returns the approximate size of a value in memory, in bytes.
fn value_size(value: &Value) -> usize {
    size_of::<Value>()
        + match value {
            Value::String(text) => text.len(),
            Value::Array(items) => items.iter().map(value_size).sum(),
            Value::Object(map) => map.iter().map(|(k, v)| 2 * k.len() + value_size(v)).sum(),
            Value::Null | Value::Bool(_) | Value::Number(_) => 0,
        }
}

/// Serializes a duration as milliseconds, to the microsecond.
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

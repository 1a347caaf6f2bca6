//! Lines of an execution: events of a run, as E2B's interpreter tells them.

use belljar::event::{Display, EventKind};
use belljar::outcome::ErrorDetail;
use bytes::Bytes;
use chrono::{SecondsFormat, Utc};
use serde::Serialize;
use serde_json::{Map, Value};

/// One line of the answer of `/execute`.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Line {
    NumberOfExecutions {
        execution_count: u64,
    },
    Stdout {
        text: String,
        timestamp: String,
    },
    Stderr {
        text: String,
        timestamp: String,
    },
    Result(Box<Shown>),
    Error {
        name: String,
        value: String,
        traceback: String,
    },
    Keepalive,
    EndOfExecution,
}

/// A value in all its forms.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(super) struct Shown {
    text: Option<Value>,
    is_main_result: bool,
    extra: Map<String, Value>,
    html: Option<Value>,
    markdown: Option<Value>,
    svg: Option<Value>,
    png: Option<Value>,
    jpeg: Option<Value>,
    pdf: Option<Value>,
    latex: Option<Value>,
    json: Option<Value>,
    javascript: Option<Value>,
    data: Option<Value>,
    chart: Option<Value>,
}

impl Line {
    /// What an event is in the answer, if it is anything there: a place that is shown anew is not, nor is one
    /// that is removed.
    pub(super) fn of(event: EventKind) -> Option<Self> {
        Some(match event {
            EventKind::Stdout { text } => Self::Stdout {
                text,
                timestamp: now(),
            },
            EventKind::Stderr { text } => Self::stderr(text),
            EventKind::Display(display) => Self::Result(Box::new(Shown::of(display, false))),
            EventKind::Result(display) => Self::Result(Box::new(Shown::of(display, true))),
            EventKind::Error { error, detail } => Self::failed(error, detail),
            EventKind::Dropped { events, bytes } => Self::stderr(format!(
                "[{events} lines, {bytes} bytes, are missing here: they were not read in time]\n"
            )),
            _ => return None,
        })
    }

    /// Whether it is text of a stream.
    pub(super) fn is_text(&self) -> bool {
        matches!(self, Self::Stdout { .. } | Self::Stderr { .. })
    }

    /// Whether it is not text that ends within a line.
    pub(super) fn is_whole(&self) -> bool {
        match self {
            Self::Stdout { text, .. } | Self::Stderr { text, .. } => text.ends_with('\n'),
            _ => true,
        }
    }

    /// Adds text of the same stream, and says how much that is together; anything else is given back.
    pub(super) fn join(&mut self, next: Self) -> Result<usize, Self> {
        match (self, next) {
            (Self::Stdout { text, .. }, Self::Stdout { text: more, .. })
            | (Self::Stderr { text, .. }, Self::Stderr { text: more, .. }) => {
                text.push_str(&more);
                Ok(text.len())
            }
            (_, next) => Err(next),
        }
    }

    pub(super) fn stderr(text: String) -> Self {
        Self::Stderr {
            text,
            timestamp: now(),
        }
    }

    pub(super) fn failed(error: String, detail: ErrorDetail) -> Self {
        let ErrorDetail {
            type_,
            message,
            traceback,
            hint,
            ..
        } = detail;
        let mut traceback = traceback.unwrap_or(error);
        if let Some(hint) = hint {
            traceback = format!("{}\nhint: {hint}\n", traceback.trim_end());
        }
        Self::Error {
            name: type_,
            value: message,
            traceback,
        }
    }

    /// As it is sent: ASCII only, since a client may decode each piece of the stream by itself.
    pub(super) fn to_bytes(&self) -> Bytes {
        let text = serde_json::to_string(self).unwrap_or_else(|_| r#"{"type":"keepalive"}"#.into());
        let mut line = Vec::with_capacity(text.len() + 1);
        if text.is_ascii() {
            line.extend(text.as_bytes());
        } else {
            for character in text.chars() {
                if character.is_ascii() {
                    line.push(character as u8);
                } else {
                    for unit in character.encode_utf16(&mut [0; 2]) {
                        line.extend(format!("\\u{unit:04x}").bytes());
                    }
                }
            }
        }
        line.push(b'\n');
        line.into()
    }
}

impl Shown {
    fn of(display: Display, is_main_result: bool) -> Self {
        let mut forms = display.data;
        let mut take = |form: &str| forms.shift_remove(form);
        let text = take("text/plain").map(unquoted);
        let mut shown = Self {
            text,
            is_main_result,
            html: take("text/html"),
            markdown: take("text/markdown"),
            svg: take("image/svg+xml"),
            png: take("image/png"),
            jpeg: take("image/jpeg"),
            pdf: take("application/pdf"),
            latex: take("text/latex"),
            json: take("application/json"),
            javascript: take("application/javascript"),
            data: take("application/vnd.belljar.columns+json"),
            chart: take("application/vnd.belljar.chart+json"),
            extra: Map::new(),
        };
        shown.extra = forms;
        shown
    }
}

/// A string's text, of what `repr` makes of it, as E2B's interpreter gives it.
fn unquoted(text: Value) -> Value {
    let Value::String(text) = text else {
        return text;
    };
    let inside =
        ['\'', '"'].iter().find_map(|quote| text.strip_prefix(*quote)?.strip_suffix(*quote));
    Value::String(inside.map(str::to_owned).unwrap_or(text))
}

fn now() -> String {
    Utc::now().to_rfc3339_opts(SecondsFormat::Micros, false)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn display(data: impl Into<Value>) -> Display {
        let data: Value = data.into();
        serde_json::from_value(json!({ "data": data })).unwrap()
    }

    #[test]
    fn forms_have_the_names_that_clients_know() {
        let data = json!({
            "text/plain": "'a'", "text/html": "<b>", "image/png": "iVBO", "application/json": [1],
            "application/vnd.belljar.chart+json": {"type": "line"},
            "application/vnd.belljar.columns+json": {"a": [1]},
            "application/vnd.plotly.v1+json": {"data": []},
        });
        let line = Line::of(EventKind::Result(display(data))).unwrap();
        let line: Value = serde_json::from_slice(&line.to_bytes()).unwrap();
        assert_eq!(line["type"], "result");
        assert_eq!((&line["text"], &line["is_main_result"]), (&json!("a"), &json!(true)));
        assert_eq!(
            (&line["html"], &line["png"], &line["latex"]),
            (&json!("<b>"), &json!("iVBO"), &Value::Null)
        );
        assert_eq!((&line["json"], &line["data"]), (&json!([1]), &json!({"a": [1]})));
        assert_eq!(line["chart"], json!({"type": "line"}));
        assert_eq!(line["extra"], json!({"application/vnd.plotly.v1+json": {"data": []}}));
    }

    #[test]
    fn quotes_go_only_in_pairs() {
        for (text, expected) in
            [("'", "'"), ("''", ""), ("\"it's\"", "it's"), ("'a", "'a"), ("'a\"", "'a\"")]
        {
            assert_eq!(unquoted(text.into()), Value::from(expected), "{text}");
        }
    }

    #[test]
    fn what_no_client_knows_is_no_line() {
        assert_eq!(Line::of(EventKind::Clear { wait: true }), None);
        assert_eq!(Line::of(EventKind::Started), None);
    }

    proptest! {
        #[test]
        fn a_line_is_one_line_of_ascii(text in ".{0,80}") {
            let line = Line::Stdout { text: text.clone(), timestamp: String::new() };
            let bytes = line.to_bytes();
            prop_assert!(bytes.is_ascii());
            prop_assert_eq!(bytes.split(|byte| *byte == b'\n').count(), 2);
            let read: Value = serde_json::from_slice(&bytes).unwrap();
            prop_assert_eq!(read["text"].as_str().unwrap(), text);
        }
    }
}

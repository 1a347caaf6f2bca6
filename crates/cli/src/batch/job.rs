//! One line of a batch: parse, run, answer.

use belljar::request::{Field, HostPaths, RunRequest};
use belljar::{Error, Outcome, Runtime};
use serde::Serialize;
use serde_json::Value;

use super::lines::Line;
use crate::exit::described;
#[cfg(feature = "server")]
use crate::remote::{self, Link, Order};

/// The JSON key of a field, if it differs from the field's name.
fn key(field: Field) -> Option<&'static str> {
    Some(match field {
        Field::Timeout => "timeout",
        Field::Memory => "memory_mb",
        Field::Fuel => "fuel",
        Field::Output => "output_bytes",
        Field::Workspace => "workspace_mb",
        Field::MaxFiles => "max_files",
        Field::Variables => "set",
        _ => return None,
    })
}

/// A line of output.
#[derive(Debug)]
pub(super) struct Answer {
    /// A line of JSON, with the line break.
    pub line: String,
    pub kind: Kind,
    /// Input bytes that it accounts for.
    pub bytes_read: u64,
}

/// The result of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// The code succeeded.
    Succeeded,
    /// The code failed.
    Failed,
    /// The request was rejected.
    Refused,
}

#[derive(Serialize)]
struct Done<'a> {
    id: &'a Value,
    #[serde(flatten)]
    outcome: &'a Outcome,
}

#[derive(Serialize)]
struct Refused<'a> {
    id: &'a Value,
    line: u64,
    error: &'a str,
}

/// The runtime or the server that runs lines.
pub(super) enum Place {
    Here(Runtime),
    #[cfg(feature = "server")]
    Elsewhere(Box<Link>),
}

impl Place {
    async fn run(&self, asked: RunRequest) -> anyhow::Result<Outcome> {
        let runtime = match self {
            Self::Here(runtime) => runtime,
            #[cfg(feature = "server")]
            Self::Elsewhere(link) => {
                let order = tokio::task::spawn_blocking(|| Order::from(asked)).await??;
                let answer = remote::plain(link, &order).await?;
                if let Some(run) = &answer.run {
                    remote::forget(link, run).await;
                }
                return Ok(answer.outcome);
            }
        };
        let request = asked.into_request(HostPaths::Allowed).map_err(Error::from)?;
        Ok(runtime.run(request).await?.outcome.clone())
    }
}

/// Runs a line. Failures become answers, too.
pub(super) async fn answer(place: &Place, line: Line) -> Answer {
    let Line {
        number,
        text,
        bytes_read,
    } = line;
    let (id, outcome) = match text {
        Ok(text) => Box::pin(run(place, &text)).await,
        Err(unread) => (Value::Null, Err(unread.into())),
    };
    let (line, kind) = match outcome {
        Ok(outcome) => {
            let kind = if outcome.success {
                Kind::Succeeded
            } else {
                Kind::Failed
            };
            (
                to_line(&Done {
                    id: &id,
                    outcome: &outcome,
                }),
                kind,
            )
        }
        Err(error) => {
            let error = described(&error, key);
            (
                to_line(&Refused {
                    id: &id,
                    line: number,
                    error: &error,
                }),
                Kind::Refused,
            )
        }
    };
    Answer {
        line,
        kind,
        bytes_read,
    }
}

async fn run(place: &Place, text: &[u8]) -> (Value, anyhow::Result<Outcome>) {
    let mut asked = match parse(text) {
        Ok(asked) => asked,
        Err(error) => return (salvage_id(text), Err(anyhow::anyhow!(error))),
    };
    let id = asked.id.take();
    (id, place.run(asked).await)
}

/// Parses a request, or describes what is wrong with it.
fn parse(text: &[u8]) -> Result<RunRequest, String> {
    // serde would also accept an array of values in field order.
    let is_object = text.trim_ascii_start().starts_with(b"{");
    if !is_object && serde_json::from_slice::<Value>(text).is_ok() {
        return Err("a request must be a JSON object".to_owned());
    }
    serde_json::from_slice(text).map_err(|error| describe(&error))
}

/// The id of a line that is valid JSON but not a valid request.
fn salvage_id(text: &[u8]) -> Value {
    let line: Value = serde_json::from_slice(text).unwrap_or_default();
    line.get("id").cloned().unwrap_or_default()
}

/// Describes a JSON error without the line number, which is always 1 and would mislead.
fn describe(error: &serde_json::Error) -> String {
    let (text, column) = (error.to_string(), error.column());
    let text = match text.strip_suffix(&format!(" at line {} column {column}", error.line())) {
        Some(text) => format!("{} at column {column}", in_words(text)),
        None => text,
    };
    if error.is_data() {
        text
    } else {
        format!("the line is not JSON: {text}")
    }
}

/// Replaces Rust's type names with words.
fn in_words(text: &str) -> String {
    let named = text.rsplit_once("expected ").and_then(|(start, expected)| {
        let expected = match expected {
            "f64" => "a number",
            "u64" | "u32" => "a whole number",
            "a map" => "an object",
            "a sequence" => "an array",
            _ => return None,
        };
        Some(format!("{start}expected {expected}"))
    });
    named.unwrap_or_else(|| text.to_owned())
}

fn to_line(value: &impl Serialize) -> String {
    // All values in these types can be serialized.
    let mut line = serde_json::to_string(value).unwrap_or_default();
    line.push('\n');
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bad_line_keeps_its_id_where_it_has_one() {
        assert_eq!(salvage_id(br#"{"id": [1], "cod": ""}"#), serde_json::json!([1]));
        assert_eq!(salvage_id(br#"{"id": 1"#), Value::Null);
        assert_eq!(salvage_id(b"[]"), Value::Null);
    }

    #[test]
    fn an_error_tells_the_column_alone() {
        let error = parse(br#"{"cod": ""}"#).unwrap_err();
        assert!(error.starts_with("unknown field `cod`, expected one of `id`, `code`"));
        assert!(error.ends_with(" at column 6"), "{error}");
    }

    #[test]
    fn a_request_is_an_object() {
        for text in [r#"[1, "print(6)"]"#, "7", "null", " \"print(6)\""] {
            assert_eq!(
                parse(text.as_bytes()).unwrap_err(),
                "a request must be a JSON object",
                "{text}"
            );
        }
        assert!(parse(b"[1").unwrap_err().starts_with("the line is not JSON: "));
    }

    #[test]
    fn a_value_of_the_wrong_type_is_told_in_words() {
        for (value, expected) in [
            (r#""timeout": "1""#, "expected a number"),
            (r#""fuel": -1"#, "expected a whole number"),
            (r#""env": 1"#, "expected an object"),
            (r#""args": {}"#, "expected an array"),
            (r#""deterministic": [4]"#, "invalid type: sequence, expected an object"),
            (r#""capture": 1"#, "expected an object"),
            (r#""stdin": "expected f64", "args": 1"#, "expected an array"),
        ] {
            let error = parse(format!(r#"{{"code": "", {value}}}"#).as_bytes()).unwrap_err();
            assert!(error.contains(&format!("{expected} at column ")), "{error}");
        }
    }
}

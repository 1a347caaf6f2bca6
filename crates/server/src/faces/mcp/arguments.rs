//! Parsing and validation of tool calls.

use std::collections::BTreeMap;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

/// A valid call of a tool.
#[derive(Debug)]
pub(super) enum Call {
    Run(RunPython),
    Create(CreateSession),
    Fork(OfSession),
    Rewind(Rewind),
    List,
    Delete(OfSession),
    Write(WriteFile),
}

/// Why a call is invalid.
#[derive(Debug)]
pub(super) enum Wrong {
    /// The tool does not exist.
    Tool,
    /// The arguments are invalid.
    Arguments(String),
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RunPython {
    pub code: String,
    #[serde(default, deserialize_with = "filled")]
    pub session_id: Option<String>,
    #[serde(default, deserialize_with = "files")]
    pub files: Vec<GivenFile>,
    #[serde(default, deserialize_with = "seconds")]
    pub timeout: Option<Duration>,
    #[serde(default, deserialize_with = "filled")]
    pub result_var: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CreateSession {
    #[serde(default, deserialize_with = "filled")]
    pub image: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct OfSession {
    pub session_id: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Rewind {
    pub session_id: String,
    pub to: u64,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WriteFile {
    pub session_id: String,
    pub path: String,
    #[serde(default)]
    text: Option<String>,
    #[serde(default)]
    base64: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Nothing {}

/// An input file.
#[derive(Debug)]
pub(super) struct GivenFile {
    pub path: String,
    pub content: GivenContent,
}

/// The content of a file.
#[derive(Debug)]
pub(super) enum GivenContent {
    Bytes(Vec<u8>),
    /// Content of a resource of this server.
    Resource(String),
}

impl Call {
    /// Parses a call of the tool `name`.
    pub(super) fn of(name: &str, arguments: Option<Map<String, Value>>) -> Result<Self, Wrong> {
        let arguments = arguments.unwrap_or_default();
        Ok(match name {
            "run_python" => Self::Run(read(arguments)?),
            "create_session" => Self::Create(read(arguments)?),
            "fork_session" => Self::Fork(read(arguments)?),
            "rewind_session" => Self::Rewind(read(arguments)?),
            "list_sessions" => {
                read::<Nothing>(arguments)?;
                Self::List
            }
            "delete_session" => Self::Delete(read(arguments)?),
            "write_file" => Self::Write(read(arguments)?),
            _ => return Err(Wrong::Tool),
        })
    }
}

impl WriteFile {
    /// Decodes the content.
    pub(super) fn bytes(&self) -> Result<Vec<u8>, Wrong> {
        content(self.text.clone(), self.base64.clone(), None).map_err(Wrong::Arguments).map(
            |content| match content {
                GivenContent::Bytes(bytes) => bytes,
                GivenContent::Resource(_) => Vec::new(),
            },
        )
    }
}

fn read<T: DeserializeOwned>(arguments: Map<String, Value>) -> Result<T, Wrong> {
    serde_json::from_value(Value::Object(arguments)).map_err(|e| Wrong::Arguments(e.to_string()))
}

/// A non-empty text: models write an empty text or null for an omitted value.
fn filled<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    let text = Option::<String>::deserialize(deserializer)?;
    Ok(text.filter(|text| !text.is_empty()))
}

fn seconds<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    let Some(seconds) = Option::<f64>::deserialize(deserializer)? else {
        return Ok(None);
    };
    let wrong = || serde::de::Error::custom("timeout: not a valid number of seconds");
    Duration::try_from_secs_f64(seconds).map(Some).map_err(|_| wrong())
}

/// An entry of a list of files.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Listed {
    path: String,
    #[serde(default)]
    text: Option<String>,
    #[serde(default)]
    base64: Option<String>,
    #[serde(default)]
    uri: Option<String>,
}

/// A file as the value of a map by paths, the other form that models use.
#[derive(Deserialize)]
#[serde(untagged)]
enum Named {
    Text(String),
    Parts(Parts),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Parts {
    #[serde(default)]
    text: Option<String>,
    #[serde(default)]
    base64: Option<String>,
    #[serde(default)]
    uri: Option<String>,
}

fn files<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<GivenFile>, D::Error> {
    let wrong = |error: serde_json::Error| serde::de::Error::custom(format!("files: {error}"));
    let listed: Vec<Listed> = match Value::deserialize(deserializer)? {
        Value::Null => Vec::new(),
        Value::Object(map) => {
            let named: BTreeMap<String, Named> =
                serde_json::from_value(Value::Object(map)).map_err(wrong)?;
            named.into_iter().map(|(path, named)| named.listed(path)).collect()
        }
        list => serde_json::from_value(list).map_err(wrong)?,
    };
    let read = listed.into_iter().map(|one| {
        let content = content(one.text, one.base64, one.uri);
        let content = content
            .map_err(|why| serde::de::Error::custom(format!("files: {}: {why}", one.path)))?;
        Ok(GivenFile {
            path: one.path,
            content,
        })
    });
    read.collect()
}

impl Named {
    fn listed(self, path: String) -> Listed {
        let Parts { text, base64, uri } = match self {
            Self::Parts(parts) => parts,
            Self::Text(text) => Parts {
                text: Some(text),
                base64: None,
                uri: None,
            },
        };
        Listed {
            path,
            text,
            base64,
            uri,
        }
    }
}

fn content(
    text: Option<String>,
    base64: Option<String>,
    uri: Option<String>,
) -> Result<GivenContent, String> {
    // Models pass an empty text for the field that they omit.
    let filled = |text: Option<String>| text.filter(|text| !text.is_empty());
    let is_given = text.is_some() || base64.is_some();
    match (filled(text), filled(base64), filled(uri)) {
        (Some(text), None, None) => Ok(GivenContent::Bytes(text.into_bytes())),
        (None, Some(base64), None) => BASE64
            .decode(base64)
            .map(GivenContent::Bytes)
            .map_err(|error| format!("invalid base64: {error}")),
        (None, None, Some(uri)) => Ok(GivenContent::Resource(uri)),
        (None, None, None) if is_given => Ok(GivenContent::Bytes(Vec::new())),
        (None, None, None) => Err("text or base64 is missing".into()),
        _ => Err("only one of text and base64 is allowed".into()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn call(name: &str, arguments: &Value) -> Result<Call, Wrong> {
        Call::of(name, arguments.as_object().cloned())
    }

    fn run(arguments: &Value) -> RunPython {
        let Ok(Call::Run(run)) = call("run_python", arguments) else {
            panic!("{arguments}");
        };
        run
    }

    #[test]
    fn what_is_left_out_may_be_empty_or_null() {
        for rest in [json!({}), json!({"session_id": "", "files": [], "timeout": null})] {
            let mut arguments = json!({"code": "1"});
            arguments.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
            let run = run(&arguments);
            assert_eq!((run.session_id, run.timeout, run.files.len()), (None, None, 0));
        }
    }

    #[test]
    fn files_come_as_a_list_or_by_name() {
        for files in [
            json!([{"path": "a", "text": "x", "base64": ""}, {"path": "b", "base64": "AAE="},
                   {"path": "c", "uri": "belljar://x"}, {"path": "d", "text": ""}]),
            json!({"a": "x", "b": {"base64": "AAE="}, "c": {"uri": "belljar://x"}, "d": ""}),
        ] {
            let run = run(&json!({"code": "1", "files": files}));
            let paths: Vec<_> = run.files.iter().map(|file| file.path.as_str()).collect();
            assert_eq!(paths, ["a", "b", "c", "d"]);
            assert!(matches!(&run.files[0].content, GivenContent::Bytes(b) if b == b"x"));
            assert!(matches!(&run.files[1].content, GivenContent::Bytes(b) if b == b"\0\x01"));
            assert!(
                matches!(&run.files[2].content, GivenContent::Resource(u) if u == "belljar://x")
            );
            assert!(matches!(&run.files[3].content, GivenContent::Bytes(b) if b.is_empty()));
        }
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (name, arguments, says) in [
            ("run_python", json!({}), "code"),
            ("run_python", json!({"code": "1", "codes": 2}), "codes"),
            ("run_python", json!({"code": "1", "timeout": -1}), "timeout"),
            ("run_python", json!({"code": "1", "timeout": 1e300}), "timeout"),
            ("run_python", json!({"code": "1", "files": 7}), "files"),
            ("run_python", json!({"code": "1", "files": {"a": {"base64": "!"}}}), "base64"),
            (
                "run_python",
                json!({"code": "1", "files": [{"path": "a"}]}),
                "a: text or base64 is missing",
            ),
            ("rewind_session", json!({"session_id": "a", "to": -1}), "-1"),
            ("list_sessions", json!({"x": 1}), "x"),
        ] {
            match call(name, &arguments) {
                Err(Wrong::Arguments(why)) => assert!(why.contains(says), "{arguments}: {why}"),
                other => panic!("{arguments}: {other:?}"),
            }
        }
        assert!(matches!(call("rm", &json!({})), Err(Wrong::Tool)));
    }
}

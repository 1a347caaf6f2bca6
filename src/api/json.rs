//! The JSON form of a request, which `belljar batch` reads one object per line.

mod inverse;

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;
use std::path::PathBuf;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use belljar_value::Value as PythonValue;
use schemars::{JsonSchema, Schema, schema_for};
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::api::outcome::titled;
use crate::api::refusal::{Field, Reason, ReasonKind, Refusal};
use crate::api::request::{
    Capture, Content, Deterministic, Dialect, Echo, ImageChoice, InputFile, Policy, Request,
    RequestLimits, Threads,
};
use crate::api::tool::{DeferredTool, Tool, ToolAnswer};

/// A run as a JSON object. Only `code` is required; an unknown key is rejected by name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct RunRequest {
    /// Any JSON value. It does not affect the run and is returned with the outcome.
    #[serde(default)]
    pub id: Value,
    /// Python source.
    pub code: String,
    /// Image to start from. Default `auto`: the smallest built-in image that has imported the
    /// modules that the code names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// Variables to define before the code runs, by name. Values are in the typed form of
    /// `docs/reference/values.md`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub set: BTreeMap<String, PythonValue>,
    /// Files to place in the workspace before the code runs, by path in the workspace.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub files: BTreeMap<String, FileSource>,
    /// Standard input of the code. Default: empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdin: Option<String>,
    /// Environment variables.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// Environment variables of this run only. A session removes them after the run.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub run_env: BTreeMap<String, String>,
    /// Additional absolute paths of the workspace, next to `/workspace`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub aliases: Vec<String>,
    /// Current directory: the workspace under one of its paths, `/tmp`, or a directory in either.
    /// It is created if missing. Default `/workspace`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// Arguments: `sys.argv[1:]`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
    /// Wall clock time in seconds, including sleep. Default 5. `null` (in Rust infinity) leaves
    /// only the runtime's ceiling.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "seconds_or_null"
    )]
    pub timeout: Option<f64>,
    /// Memory above the image, in MiB. Default 256.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub memory_mb: Option<u64>,
    /// Fuel. Default: as much as the timeout allows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub fuel: Option<u64>,
    /// Bytes to keep of each of stdout and stderr. Default 1,048,576.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_bytes: Option<u64>,
    /// Total size of the run's files, in MiB. Default 64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace_mb: Option<u64>,
    /// Number of files and directories that the run may create. Default 1,000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_files: Option<u64>,
    /// Restrictions on the code. Default `open`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<Policy>,
    /// Top-level expression statements to print. Default `none`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub echo: Option<Echo>,
    /// Language of the code. Default `python`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dialect: Option<Dialect>,
    /// Variable whose value is the result. Default `result`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result_var: Option<String>,
    /// Handling of threads and processes that the code starts: `in_place` runs their work to
    /// completion at once, `refuse` raises an error. Default `in_place`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threads: Option<Threads>,
    /// Makes the run reproducible byte for byte. `{}` uses the defaults.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "object"
    )]
    pub deterministic: Option<Deterministic>,
    /// Optional parts of the outcome.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "object"
    )]
    pub capture: Option<Capture>,
    /// Tools that the code can call and that are answered later. For runs in sessions and
    /// deterministic runs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<DeferredTool>,
    /// Answers to tool calls, for deterministic runs, by the call numbers of an outcome of kind
    /// `waiting`. Sessions take answers in a separate call.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub answers: Vec<ToolAnswer>,
}

/// The content of a file: text, or an object that names the source of its bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(untagged)]
#[non_exhaustive]
pub enum FileSource {
    /// The content as text, stored as UTF-8.
    Text(String),
    /// Bytes from another source.
    Bytes(ByteSource),
}

/// The source of a file's bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum ByteSource {
    /// The bytes in standard base64 with padding.
    Base64(String),
    /// A file on the host to copy. Only for senders that may read the host's files.
    Path(PathBuf),
}

impl RunRequest {
    /// Returns the JSON Schema of a request. `docs/schema/request.schema.json` contains it.
    ///
    /// ```
    /// let schema = belljar::request::RunRequest::schema();
    /// assert_eq!(schema.get("required").unwrap()[0], "code");
    /// ```
    pub fn schema() -> Schema {
        titled("request", schema_for!(Self))
    }

    /// Converts to a [`Request`]. Encoded values are decoded; limits are checked when the request
    /// runs.
    ///
    /// ```
    /// use belljar::request::{HostPaths, RunRequest};
    ///
    /// let line = r#"{"id": 7, "code": "print(open('a.txt').read())", "files": {"a.txt": "Ada"}}"#;
    /// let asked: RunRequest = serde_json::from_str(line)?;
    /// let request = asked.into_request(HostPaths::Refused)?;
    /// assert_eq!(request.files[0].path, "a.txt");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If a value cannot be decoded, or a file is to be copied from the host and the sender may not
    /// name host paths.
    pub fn into_request(self, host_paths: HostPaths) -> Result<Request, Refusal> {
        let mut reasons = Vec::new();
        let limits = limits(&self, &mut reasons);
        let files = input_files(self.files, host_paths, &mut reasons);
        Refusal::unless_empty(reasons)?;
        let image = match self.image.as_deref() {
            None | Some("auto") => ImageChoice::Auto,
            Some(name) => ImageChoice::Named(name.to_owned()),
        };
        Ok(Request {
            code: self.code,
            image,
            variables: self.set,
            files,
            mounts: Vec::new(),
            stdin: self.stdin.unwrap_or_default().into_bytes(),
            env: self.env,
            run_env: self.run_env,
            aliases: self.aliases,
            cwd: self.cwd,
            args: self.args,
            limits,
            policy: self.policy.unwrap_or_default(),
            echo: self.echo,
            dialect: self.dialect.unwrap_or_default(),
            result_var: self.result_var,
            threads: self.threads.unwrap_or_default(),
            deterministic: self.deterministic,
            capture: self.capture.unwrap_or_default(),
            tools: self.tools.into_iter().map(Tool::from).collect(),
            answers: self.answers,
            ..Request::default()
        })
    }
}

/// Whether a JSON request may name host files, which are then copied into the sandbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostPaths {
    /// Host paths are allowed: the sender can read this machine's files anyway.
    Allowed,
    /// A request that names a host path is rejected.
    Refused,
}

fn limits(asked: &RunRequest, reasons: &mut Vec<Reason>) -> RequestLimits {
    let timeout = asked.timeout.and_then(|seconds| {
        if seconds == f64::INFINITY {
            return Some(Duration::MAX);
        }
        let duration = Duration::try_from_secs_f64(seconds).ok();
        if duration.is_none() {
            let message = format!("{seconds} is not a number of seconds");
            reasons.push(Reason::new(Field::Timeout, ReasonKind::OutOfRange, message));
        }
        duration
    });
    let bytes = |mib: Option<u64>| mib.map(|mib| mib.saturating_mul(1 << 20));
    RequestLimits {
        timeout,
        memory: bytes(asked.memory_mb),
        fuel: asked.fuel,
        output: asked.output_bytes,
        workspace: bytes(asked.workspace_mb),
        files: asked.max_files,
    }
}

fn input_files(
    asked: BTreeMap<String, FileSource>,
    host_paths: HostPaths,
    reasons: &mut Vec<Reason>,
) -> Vec<InputFile> {
    let mut files = Vec::with_capacity(asked.len());
    for (path, source) in asked {
        let content = match source {
            FileSource::Text(text) => Content::Bytes(text.into_bytes()),
            FileSource::Bytes(ByteSource::Path(_)) if host_paths == HostPaths::Refused => {
                let message =
                    format!("{path:?} is to be a file of the host, which may not be named");
                reasons.push(Reason::new(Field::Files, ReasonKind::HostPath, message));
                continue;
            }
            FileSource::Bytes(ByteSource::Path(host)) => Content::Host(host),
            FileSource::Bytes(ByteSource::Base64(text)) => match BASE64.decode(text) {
                Ok(bytes) => Content::Bytes(bytes),
                Err(error) => {
                    let message = format!("{path:?} is not base64: {error}");
                    reasons.push(Reason::new(Field::Files, ReasonKind::Invalid, message));
                    continue;
                }
            },
        };
        files.push(InputFile { path, content });
    }
    files
}

/// Deserializes null as infinity, unlike a missing key. serde_json writes infinity as null.
fn seconds_or_null<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<f64>, D::Error> {
    Ok(Some(Option::deserialize(deserializer)?.unwrap_or(f64::INFINITY)))
}

/// Deserializes an object or null. The derived code would also accept an array, and its error would
/// show the name of the Rust type.
fn object<'de, T, D>(deserializer: D) -> Result<Option<T>, D::Error>
where
    T: Deserialize<'de>,
    D: Deserializer<'de>,
{
    struct Object<T>(PhantomData<T>);

    impl<'de, T: Deserialize<'de>> Visitor<'de> for Object<T> {
        type Value = Option<T>;

        fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
            f.write_str("an object")
        }

        fn visit_unit<E>(self) -> Result<Option<T>, E> {
            Ok(None)
        }

        fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Option<T>, A::Error> {
            T::deserialize(MapAccessDeserializer::new(map)).map(Some)
        }
    }

    deserializer.deserialize_any(Object(PhantomData))
}

/// Written by hand, because a derived untagged enum gives the same error for every mistake.
impl<'de> Deserialize<'de> for FileSource {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Source;

        impl<'de> Visitor<'de> for Source {
            type Value = FileSource;

            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str(r#"a file's text, {"base64": text} or {"path": path}"#)
            }

            fn visit_str<E>(self, text: &str) -> Result<FileSource, E> {
                Ok(FileSource::Text(text.to_owned()))
            }

            fn visit_string<E>(self, text: String) -> Result<FileSource, E> {
                Ok(FileSource::Text(text))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<FileSource, A::Error> {
                ByteSource::deserialize(MapAccessDeserializer::new(map)).map(FileSource::Bytes)
            }
        }

        deserializer.deserialize_any(Source)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<RunRequest, String> {
        serde_json::from_str(text).map_err(|e| e.to_string())
    }

    fn request(text: &str) -> Result<Request, Vec<Reason>> {
        parse(text).unwrap().into_request(HostPaths::Allowed).map_err(|e| e.reasons)
    }

    #[test]
    fn code_alone_is_a_request_with_every_default() {
        assert_eq!(request(r#"{"code": "1"}"#).unwrap(), Request::new("1"));
    }

    #[test]
    fn every_key_arrives() {
        let request = request(
            r#"{"id": [1], "code": "c", "set": {"x": {"$": "bytes", "data": "AAE="}}, "image": "core", "stdin": "in", "env": {"A": "b"},
                "run_env": {"C": "d"}, "aliases": ["/mnt/data"], "cwd": "/mnt/data",
                "files": {"t": "text", "b": {"base64": "AAE="}, "h": {"path": "/x"}},
                "args": ["-n"], "timeout": 0.5, "memory_mb": 64, "fuel": 9, "output_bytes": 7,
                "workspace_mb": 1, "max_files": 3, "policy": "strict", "echo": "last", "dialect": "ipython",
                "result_var": "r", "threads": "refuse", "deterministic": {"seed": 4}, "capture": {"figures": false}}"#,
        )
        .unwrap();
        let expected = Request::new("c")
            .set("x", vec![0u8, 1])
            .image("core")
            .stdin("in")
            .env("A", "b")
            .run_env("C", "d")
            .alias("/mnt/data")
            .cwd("/mnt/data")
            .file("b", [0, 1])
            .host_file("h", "/x")
            .file("t", "text")
            .arg("-n")
            .limits(RequestLimits {
                timeout: Some(Duration::from_millis(500)),
                memory: Some(64 << 20),
                fuel: Some(9),
                output: Some(7),
                workspace: Some(1 << 20),
                files: Some(3),
            })
            .policy(Policy::Strict)
            .echo(Echo::Last)
            .dialect(Dialect::Ipython)
            .result_var("r")
            .threads(Threads::Refuse)
            .deterministic(Deterministic {
                seed: 4,
                ..Deterministic::default()
            })
            .capture(Capture {
                figures: false,
                ..Capture::default()
            });
        assert_eq!(request, expected);
    }

    #[test]
    fn tools_are_declared_and_answered() {
        let request = request(
            r#"{"code": "c", "deterministic": {}, "answers": [{"id": 1, "answer": 5}],
                "tools": [{"name": "a", "description": "d", "schema": {"properties": {}}, "typed": true}]}"#,
        )
        .unwrap();
        assert_eq!(request.answers, [ToolAnswer::new(1, 5)]);
        let [tool] = &request.tools[..] else {
            panic!("{:?}", request.tools);
        };
        assert!(tool.is_deferred() && tool.takes_values());
        assert_eq!((tool.name(), tool.describe()), ("a", "d"));
    }

    #[test]
    fn a_request_is_what_it_was_after_it_was_written() {
        let request = Request::new("c")
            .set("x", vec![0u8, 1])
            .image("core")
            .stdin("in")
            .env("A", "b")
            .cwd("/workspace/d")
            .file("b", [0, 255])
            .file("t", "text")
            .arg("-n")
            .limits(RequestLimits::default().timeout(Duration::from_millis(500)).memory(64 << 20))
            .policy(Policy::Strict)
            .echo(Echo::Last)
            .deterministic(Deterministic::new(4))
            .capture(Capture::default().typed(true));
        let written = serde_json::to_string(&RunRequest::of(&request).unwrap()).unwrap();
        let read: RunRequest = serde_json::from_str(&written).unwrap();
        assert_eq!(read.into_request(HostPaths::Refused).unwrap(), request);
        for request in [
            Request::new("c").mount("/x", "/data"),
            Request::new("c").stdin([255]),
            Request::new("c").limits(RequestLimits::default().memory(1000)),
        ] {
            assert_eq!(RunRequest::of(&request).unwrap_err().reasons.len(), 1);
        }
    }

    #[test]
    fn a_timeout_of_null_is_not_a_missing_one() {
        let unlimited = Request::new("1").timeout(Duration::MAX);
        assert_eq!(request(r#"{"code": "1", "timeout": null}"#).unwrap(), unlimited);
        assert_eq!(request(r#"{"code": "1", "fuel": null}"#).unwrap(), Request::new("1"));
        let written = serde_json::to_value(RunRequest::of(&unlimited).unwrap()).unwrap();
        assert_eq!(written.get("timeout"), Some(&Value::Null));
        let written = serde_json::to_value(RunRequest::of(&Request::new("1")).unwrap()).unwrap();
        assert_eq!(written.get("timeout"), None);
    }

    #[test]
    fn an_unknown_key_is_named() {
        let cases = [
            (r#"{"code": "", "timeuot": 1}"#, "timeuot"),
            (r#"{"code": "", "capture": {"figure": true}}"#, "figure"),
            (r#"{"code": "", "files": {"a": {"url": "x"}}}"#, "url"),
            (r#"{"code": "", "policy": {"custom": {"import": []}}}"#, "import"),
        ];
        for (text, name) in cases {
            assert!(parse(text).unwrap_err().contains(&format!("`{name}`")), "{text}");
        }
    }

    #[test]
    fn a_file_of_the_wrong_type_is_told_what_a_file_is() {
        let error = parse(r#"{"code": "", "files": {"a": 3}}"#).unwrap_err();
        assert!(error.contains(r#"{"base64": text}"#), "{error}");
    }

    #[test]
    fn every_value_that_cannot_be_decoded_is_listed() {
        let reasons =
            request(r#"{"code": "", "timeout": -1, "files": {"a": {"base64": "?"}}}"#).unwrap_err();
        assert_eq!(reasons.len(), 2, "{reasons:?}");
    }

    #[test]
    fn paths_of_the_host_are_refused_where_they_may_not_be_named() {
        let asked = parse(r#"{"code": "", "files": {"a": {"path": "/etc/passwd"}, "b": "b"}}"#);
        let reasons = asked.unwrap().into_request(HostPaths::Refused).unwrap_err().reasons;
        assert_eq!(reasons.len(), 1, "{reasons:?}");
        assert_eq!((reasons[0].field, reasons[0].kind), (Field::Files, ReasonKind::HostPath));
    }

    #[test]
    fn what_is_written_is_read_back() {
        let asked =
            parse(r#"{"code": "1", "files": {"a": {"base64": "AA=="}}, "fuel": 1}"#).unwrap();
        let again = serde_json::to_string(&asked).unwrap();
        assert_eq!(parse(&again).unwrap(), asked);
    }
}

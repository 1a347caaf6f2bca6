//! The outcome: what one run returns, as one JSON document.

pub(crate) mod event;

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Serialize};

use self::event::Event;
use crate::value::Value;

/// The version of the outcome's and the request's shape; raised when a key changes its meaning.
pub const SCHEMA_VERSION: u32 = 1;

/// What a run did. Keys are always present, and in this order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct Outcome {
    /// The code ran to its end, or called `sys.exit()` or `exit(0)`.
    pub success: bool,
    /// The value asked for: `result_var` if given, else the variable `result`, else null.
    pub result: serde_json::Value,
    /// Everything written to standard output, file descriptor 1 included. Bytes that are not
    /// UTF-8 are replaced by U+FFFD.
    pub stdout: String,
    /// Tracebacks, warnings and whatever the code wrote to standard error.
    pub stderr: String,
    /// Every file that the run wrote, sorted by path.
    pub files: Vec<FileEntry>,
    /// Every figure captured or saved, in the order in which they were made.
    pub plots: Vec<PlotEntry>,
    /// Every pandas object among the global variables, in namespace order.
    pub dataframes: Vec<DataFrameEntry>,
    /// `Type: message` on one line, or a fixed text; null on success.
    pub error: Option<String>,
    /// The error in parts; null on success.
    pub error_detail: Option<ErrorDetail>,
    /// The code that ran.
    pub code: String,
    /// Which of `stdout`, `stderr`, `dataframes`, `result` and `events` were cut.
    pub truncated: Vec<Truncated>,
    /// What the run used.
    pub usage: Usage,
    /// The value asked for, typed, in the form of `docs/reference/values.md`; only where the
    /// request asked for it. `result` is null then.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "present"
    )]
    pub typed: Option<Value>,
    /// What happened, in order; only where the request asked for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub events: Option<Vec<Event>>,
    /// Every call of a tool, in the order in which they were made; absent when there was none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<ToolCall>,
    /// What a session adds; nothing for a run of its own.
    #[serde(flatten)]
    pub session: Option<SessionReport>,
}

/// A null that is there is a value too.
fn present<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

/// What the outcome of a run in a session says besides.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct SessionReport {
    /// The session.
    pub interpreter_id: String,
    /// Which of the session's runs this was, counting from 1.
    pub execution: u64,
    /// The interpreter was lost, in this run or since the one before, and the session is back in
    /// the state after its last completed run. Nothing was run twice. Absent otherwise.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub interpreter_restarted: bool,
    /// Why, when it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restart_reason: Option<String>,
    /// The interpreter was lost and could not be brought back; the next run tries again. Absent
    /// otherwise.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub interpreter_crashed: bool,
}

impl Outcome {
    /// The JSON Schema of an outcome as it is written, with every key that is always there
    /// required. `docs/schema/outcome.schema.json` holds it.
    ///
    /// ```
    /// let schema = belljar::Outcome::schema();
    /// assert_eq!(schema.get("required").unwrap()[0], "success");
    /// ```
    pub fn schema() -> Schema {
        let settings = SchemaSettings::draft2020_12().for_serialize();
        titled("outcome", settings.into_generator().into_root_schema_for::<Self>())
    }
}

/// Says in a schema's title what it is of, and in which version.
pub(crate) fn titled(what: &str, mut schema: Schema) -> Schema {
    schema.insert("title".into(), format!("belljar {what}, version {SCHEMA_VERSION}").into());
    schema
}

/// A file in the workspace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct FileEntry {
    /// Path relative to the workspace, separated by `/`.
    pub path: String,
    /// Size in bytes. For a symbolic link, the length of its target.
    pub size: u64,
    /// Where a symbolic link points to; absent for a file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub symlink: Option<String>,
    /// SHA-256 in hexadecimal, when the request asked for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
    /// Media type, when the request asked for it and it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub media_type: Option<String>,
}

/// A figure in the workspace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct PlotEntry {
    /// Path relative to the workspace, separated by `/`.
    pub path: String,
    /// Size in bytes.
    pub size: u64,
    /// The figure as a `data:` URI, when the request asked for inline images.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base64_uri: Option<String>,
    /// The path of an earlier plot of the run that shows the same figure, unchanged: where the code
    /// saved it itself, and it was captured as well. Not in the document.
    #[serde(skip)]
    pub repeats: Option<String>,
}

/// A pandas object.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct DataFrameEntry {
    /// The variable's name.
    pub name: String,
    /// Its `repr`, under the display options that the code set.
    pub repr: String,
    /// Columns, types and first rows, when the request asked for them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub table: Option<Table>,
}

/// A DataFrame's or Series' beginning, as data.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct Table {
    /// Column labels, as text.
    pub columns: Vec<String>,
    /// The columns' types, as pandas names them.
    pub dtypes: Vec<String>,
    /// Row labels of the rows given.
    pub index: Vec<serde_json::Value>,
    /// Rows and columns of the whole object.
    pub shape: [u64; 2],
    /// The first rows, a value for each column.
    pub rows: Vec<Vec<serde_json::Value>>,
    /// Whether rows or columns were left out.
    pub truncated: bool,
}

/// A call of a tool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct ToolCall {
    /// Which of the run's calls it was, counting from 1.
    pub id: u64,
    /// The tool, as the code named it.
    pub name: String,
    /// The arguments; of long ones the beginning of their JSON, as a string.
    pub arguments: serde_json::Value,
    /// Whether it was answered.
    pub ok: bool,
    /// Why it was not; null when it was.
    pub error: Option<ToolCallError>,
    /// How long it took, in milliseconds; 0 in deterministic mode.
    pub duration_ms: f64,
    /// Bytes of the arguments as JSON.
    pub argument_bytes: u64,
    /// Bytes of the answer as JSON.
    pub answer_bytes: u64,
}

/// Why a call of a tool was not answered, as the code was told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct ToolCallError {
    /// The sort of failure.
    pub kind: ToolErrorKind,
    /// What was said of it.
    pub message: String,
}

/// Why a call of a tool failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ToolErrorKind {
    /// There is no tool of that name in this run.
    UnknownTool,
    /// The arguments are not as the schema wants them, or have no form in JSON.
    InvalidArguments,
    /// The tool does not allow the call.
    Denied,
    /// The tool failed.
    ToolError,
    /// It did not answer in time.
    Timeout,
    /// The code gave the call up, or the run ended before it was answered.
    Cancelled,
    /// Nobody has answered yet: the tool is deferred.
    Waiting,
    /// The arguments or the answer are larger than one call's may be.
    TooLarge,
    /// The run has used up its calls, or the bytes of all of them, or has too many open at once.
    BudgetExceeded,
}

impl ToolErrorKind {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::UnknownTool => "unknown_tool",
            Self::InvalidArguments => "invalid_arguments",
            Self::Denied => "denied",
            Self::ToolError => "tool_error",
            Self::Timeout => "timeout",
            Self::Cancelled => "cancelled",
            Self::Waiting => "waiting",
            Self::TooLarge => "too_large",
            Self::BudgetExceeded => "budget_exceeded",
        }
    }
}

/// What went wrong, in parts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct ErrorDetail {
    /// The sort of failure.
    pub kind: ErrorKind,
    /// The exception's type, or the limit's name.
    #[serde(rename = "type")]
    pub type_: String,
    /// The exception's message.
    pub message: String,
    /// The line of the code that failed or was running, counted from 1.
    pub line: Option<u64>,
    /// The full traceback, with the user's frames only.
    pub traceback: Option<String>,
    /// The status that the code exited with; only for kind `exit`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_status: Option<i64>,
    /// One line that says what does work here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// Every violation of the policy; only for kind `policy`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub violations: Vec<Violation>,
}

/// A place where code violates a policy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct Violation {
    /// What is forbidden, such as `Forbidden import: os`.
    pub message: String,
    /// On which line, counted from 1.
    pub line: Option<u64>,
}

/// The sort of a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum ErrorKind {
    /// An exception that the code did not catch.
    Exception,
    /// The code is not Python.
    Syntax,
    /// The wall clock limit.
    Timeout,
    /// The fuel limit.
    Fuel,
    /// The memory limit.
    Memory,
    /// The policy forbids the code.
    Policy,
    /// The code exited with a status other than 0.
    Exit,
    /// The interpreter ended abnormally: a trap, a stack overflow, `os._exit`.
    Crash,
    /// The code printed more than the run allowed.
    Output,
    /// The caller interrupted the run.
    Interrupted,
    /// The code waits for the answer of a deferred tool.
    Waiting,
}

/// A part of the outcome that was cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Truncated {
    /// Standard output went over its limit.
    Stdout,
    /// Standard error went over its limit.
    Stderr,
    /// A pandas object's `repr` was cut, or there were too many of them.
    Dataframes,
    /// The result was cut.
    Result,
    /// More happened than is kept of it.
    Events,
}

/// What a run used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct Usage {
    /// Wall clock time in milliseconds, sleep included.
    pub wall_ms: f64,
    /// Fuel, the deterministic measure of work: see `docs/internals/metering.md`.
    pub fuel: u64,
    /// The largest size of the guest's memory above its image, in bytes.
    pub memory_peak_bytes: u64,
    /// Bytes written to standard output, cut ones included.
    pub stdout_bytes: u64,
    /// Bytes written to standard error, cut ones included.
    pub stderr_bytes: u64,
    /// Bytes that the run's files take in the workspace.
    pub workspace_bytes: u64,
}

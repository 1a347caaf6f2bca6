//! The outcome of one run, as one JSON document.

pub(crate) mod event;

use belljar_value::Value;
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Serialize};

use self::event::Event;

/// Version of the JSON form of outcomes and requests. It increases when a key changes its meaning.
pub const SCHEMA_VERSION: u32 = 1;

/// The result of a run. All keys are always present, in this order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct Outcome {
    /// Whether the code ran to its end or called `sys.exit()` or `exit(0)`.
    pub success: bool,
    /// Value of the variable that `result_var` names, by default `result`; else null.
    pub result: serde_json::Value,
    /// Text written to standard output, including file descriptor 1. Invalid UTF-8 is replaced by
    /// U+FFFD.
    pub stdout: String,
    /// Text written to standard error, including tracebacks and warnings.
    pub stderr: String,
    /// Files that the run wrote, sorted by path.
    pub files: Vec<FileEntry>,
    /// Figures that were captured or saved, in order of creation.
    pub plots: Vec<PlotEntry>,
    /// Pandas objects among the global variables, in namespace order.
    pub dataframes: Vec<DataFrameEntry>,
    /// The error as `Type: message` on one line, or as a fixed text; null on success.
    pub error: Option<String>,
    /// The error in structured form; null on success.
    pub error_detail: Option<ErrorDetail>,
    /// The code that ran.
    pub code: String,
    /// Parts that were cut: `stdout`, `stderr`, `dataframes`, `result` or `events`.
    pub truncated: Vec<Truncated>,
    /// Resources that the run used.
    pub usage: Usage,
    /// The result in the typed form of `docs/reference/values.md`, if the request asked for it.
    /// `result` is null then.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "present"
    )]
    pub typed: Option<Value>,
    /// Events of the run in order, if the request asked for them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub events: Option<Vec<Event>>,
    /// Tool calls in order. Absent if the code made no call.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<ToolCall>,
    /// Additional keys of a run in a session.
    #[serde(flatten)]
    pub session: Option<SessionReport>,
}

/// Keeps an explicit null as a value.
fn present<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

/// Additional keys in the outcome of a run in a session.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct SessionReport {
    /// Identifier of the session.
    pub interpreter_id: String,
    /// Number of this run in the session, counted from 1.
    pub execution: u64,
    /// Whether the interpreter was lost during this run or since the previous run. The session is
    /// then in the state after its last completed run, and no code ran twice. Absent if false.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub interpreter_restarted: bool,
    /// Reason for the restart, if the interpreter was restarted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restart_reason: Option<String>,
    /// Whether the interpreter was lost and could not be restarted. The next run tries again.
    /// Absent if false.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub interpreter_crashed: bool,
}

impl Outcome {
    /// Returns the JSON Schema of an outcome, with all constant keys required.
    /// `docs/schema/outcome.schema.json` contains it.
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

/// Adds a title that names the document and its version.
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
    /// Size in bytes. For a symbolic link, the length of its target path.
    pub size: u64,
    /// Target of a symbolic link. Absent for a file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub symlink: Option<String>,
    /// SHA-256 in hexadecimal, if the request asked for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
    /// Media type, if the request asked for it and it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub media_type: Option<String>,
    /// What is wrong with a document that cannot be opened: DOCX, XLSX, PPTX, ODT, ODS, ODP or PDF.
    /// Absent if nothing is known to be wrong. The document is the guest's, so a program that opens
    /// it must not rely on this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// A figure in the workspace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct PlotEntry {
    /// Path relative to the workspace, separated by `/`.
    pub path: String,
    /// Size in bytes.
    pub size: u64,
    /// The figure as a `data:` URI, if the request asked for inline images.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base64_uri: Option<String>,
    /// Path of an earlier plot with the same content: the code saved a figure that was also
    /// captured. Not part of the JSON document.
    #[serde(skip)]
    pub repeats: Option<String>,
}

/// A pandas object.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct DataFrameEntry {
    /// The variable's name.
    pub name: String,
    /// `repr` of the object, under the display options that the code set.
    pub repr: String,
    /// Columns, types and first rows, if the request asked for them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub table: Option<Table>,
}

/// The first rows of a DataFrame or Series, as data.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct Table {
    /// Column labels, as text.
    pub columns: Vec<String>,
    /// Column types, as pandas names them.
    pub dtypes: Vec<String>,
    /// Row labels of the included rows.
    pub index: Vec<serde_json::Value>,
    /// Number of rows and columns of the whole object.
    pub shape: [u64; 2],
    /// The first rows, with one value per column.
    pub rows: Vec<Vec<serde_json::Value>>,
    /// Whether rows or columns were omitted.
    pub truncated: bool,
}

/// A tool call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct ToolCall {
    /// Number of the call in the run, counted from 1.
    pub id: u64,
    /// Name of the tool, as used by the code.
    pub name: String,
    /// Arguments of the call. Long arguments are cut to the start of their JSON, as a string.
    pub arguments: serde_json::Value,
    /// Whether the call succeeded.
    pub ok: bool,
    /// Why the call failed; null on success.
    pub error: Option<ToolCallError>,
    /// Duration in milliseconds; 0 in deterministic mode.
    pub duration_ms: f64,
    /// Size of the arguments as JSON, in bytes.
    pub argument_bytes: u64,
    /// Size of the answer as JSON, in bytes.
    pub answer_bytes: u64,
}

/// The error of a tool call, as raised in the code.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct ToolCallError {
    /// Kind of failure.
    pub kind: ToolErrorKind,
    /// Error message.
    pub message: String,
}

/// Why a tool call failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ToolErrorKind {
    /// The run has no tool of that name.
    UnknownTool,
    /// The arguments do not match the schema or cannot be represented in JSON.
    InvalidArguments,
    /// The tool does not allow the call.
    Denied,
    /// The tool failed.
    ToolError,
    /// The tool did not answer in time.
    Timeout,
    /// The code cancelled the call, or the run ended before the answer.
    Cancelled,
    /// The tool is deferred and the call is not answered yet.
    Waiting,
    /// The arguments or the answer exceed the size limit of one call.
    TooLarge,
    /// The run has reached its limit on calls, on their total bytes, or on open calls.
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

/// The error of a run in structured form.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct ErrorDetail {
    /// Kind of failure.
    pub kind: ErrorKind,
    /// Type of the exception, or name of the limit.
    #[serde(rename = "type")]
    pub type_: String,
    /// Message of the exception.
    pub message: String,
    /// Line of the code that failed or was running, counted from 1.
    pub line: Option<u64>,
    /// Full traceback, without frames outside the user's code.
    pub traceback: Option<String>,
    /// Exit status of the code; only for kind `exit`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_status: Option<i64>,
    /// One line of advice on a solution that works in the sandbox.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// All policy violations; only for kind `policy`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub violations: Vec<Violation>,
}

/// A policy violation in the code.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct Violation {
    /// The violation, such as `Forbidden import: os`.
    pub message: String,
    /// Line of the code, counted from 1.
    pub line: Option<u64>,
}

/// Kind of failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum ErrorKind {
    /// An exception that the code did not catch.
    Exception,
    /// The code is not valid Python.
    Syntax,
    /// The run reached its time limit.
    Timeout,
    /// The run used all its fuel.
    Fuel,
    /// The run reached its memory limit.
    Memory,
    /// The policy forbids the code.
    Policy,
    /// The code exited with a status other than 0.
    Exit,
    /// The interpreter ended abnormally: a trap, a stack overflow, `os._exit`.
    Crash,
    /// The code printed more than the output limit.
    Output,
    /// The caller interrupted the run.
    Interrupted,
    /// The code waits for the answer to a deferred tool call.
    Waiting,
}

/// A part of the outcome that was cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Truncated {
    /// Standard output exceeded its limit.
    Stdout,
    /// Standard error exceeded its limit.
    Stderr,
    /// A pandas object's `repr` was cut, or objects were omitted.
    Dataframes,
    /// The result was cut.
    Result,
    /// Events were omitted.
    Events,
}

/// Resources that a run used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct Usage {
    /// Wall clock time in milliseconds, including sleep.
    pub wall_ms: f64,
    /// Fuel, the deterministic measure of work. See `docs/internals/metering.md`.
    pub fuel: u64,
    /// Peak size of the guest's memory above its image, in bytes.
    pub memory_peak_bytes: u64,
    /// Bytes written to standard output, including cut bytes.
    pub stdout_bytes: u64,
    /// Bytes written to standard error, including cut bytes.
    pub stderr_bytes: u64,
    /// Size of the files in the workspace, in bytes.
    pub workspace_bytes: u64,
}

//! The protocol between the host and the Python runner, spoken through the door.
//!
//! A frame is one opcode byte and a JSON text. Every frame is untrusted: it is limited, parsed, and
//! stored as the guest's claim. Facts that the host can observe are never taken from a frame.
//! `docs/reference/security.md` describes the effects of a forged frame.

mod display;
pub(crate) mod fatal;
pub(crate) mod interpreter;
mod question;
mod typed;

use std::sync::{Arc, Mutex, PoisonError};

use belljar_value::Value;
use data_encoding::HEXLOWER;
use serde::{Deserialize, Serialize};

pub(crate) use self::question::Question;
use self::typed::{Exchange, Taken, TypedOrder};

use crate::api::outcome::event::EventKind;
use crate::api::outcome::{DataFrameEntry, Table, Violation};
use crate::api::policy::Plan;
use crate::api::request::{Dialect, Echo, FigureFormat, Rules, Threads};
use crate::api::tool::Tool;
use crate::limits::{
    MAX_DATAFRAME_BYTES, MAX_DATAFRAMES, MAX_DISPLAY_BYTES, MAX_DISPLAY_VALUES, MAX_PLOTS,
    MAX_VALUE_DEPTH, MAX_VALUE_ITEMS, MAX_WARNINGS,
};
use crate::sandbox::calls::{Calls, Reply};
use crate::sandbox::{Answer, Control, Host, Recorder, WORKSPACE_PATH};

/// Version of the protocol; the runner rejects any other.
const VERSION: u32 = 1;

// Limits on the data that a guest's frames make the host keep, in addition to those visible to
// users.
/// Maximum size of a status, with its message and traceback.
const MAX_STATUS_BYTES: usize = 1 << 20;
/// Maximum size of a frame with one path or one message.
const MAX_LINE_BYTES: usize = 16 << 10;
/// Maximum size of a value's frame beyond the value itself.
const VALUE_FRAME: usize = 256;

/// The order for the runner, sent as two lines. The first line is the same for most runs of a
/// session, so that the runner need not parse it again.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct RunOrder {
    version: u32,
    #[serde(skip)]
    own: Own,
    echo: Echo,
    result_var: Option<String>,
    env: std::collections::BTreeMap<String, String>,
    argv: Vec<String>,
    run_env: std::collections::BTreeMap<String, String>,
    cwd: String,
    /// All paths of the workspace.
    workspace: Vec<String>,
    threads: Threads,
    deterministic: Option<Seed>,
    policy: Option<Rules>,
    dedent: bool,
    figures: FigureOrder,
    frames: FrameOrder,
    value: ValueOrder,
    packages: Vec<String>,
    session: bool,
    check: bool,
    /// Limits of the result, if it should be typed.
    #[serde(skip_serializing_if = "Option::is_none")]
    typed: Option<TypedOrder>,
    /// Whether there are variables, which the runner requests.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    given: bool,
    /// The query to answer instead of a run.
    #[serde(skip_serializing_if = "Option::is_none")]
    question: Option<Question>,
    #[serde(skip)]
    variables: Option<Arc<[u8]>>,
    /// Whether the caller takes displayed values.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    displays: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    dialect: Option<Dialect>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    uncounted: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<ToolOrder>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    input: bool,
    /// Whether streams for standard input may have buffered an earlier run's input.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    stdin_used: bool,
}

/// The part that belongs to one run.
#[derive(Clone, Debug, Serialize)]
struct Own {
    code: String,
    entropy: String,
}

/// A tool, as visible to the code.
#[derive(Clone, Debug, Serialize)]
struct ToolOrder {
    name: String,
    description: String,
    schema: serde_json::Value,
    /// Whether the tool takes and returns typed values.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    typed: bool,
}

impl ToolOrder {
    fn of(tool: &Tool) -> Self {
        Self {
            name: tool.name().to_owned(),
            description: tool.describe().to_owned(),
            schema: tool.schema().clone(),
            typed: tool.takes_values(),
        }
    }
}

#[derive(Clone, Debug, Serialize)]
struct Seed {
    seed: u64,
}

#[derive(Clone, Debug, Serialize)]
struct FigureOrder {
    capture: bool,
    format: FigureFormat,
    dpi: Option<u32>,
    max: u32,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    charts: bool,
}

#[derive(Clone, Debug, Serialize)]
struct FrameOrder {
    capture: bool,
    max_repr_chars: u32,
    table_rows: Option<u32>,
}

#[derive(Clone, Debug, Serialize)]
struct ValueOrder {
    max_depth: u32,
    max_items: u32,
    max_bytes: u32,
}

impl RunOrder {
    /// Creates the order for `plan`. `entropy` seeds the guest's random number generators.
    pub(crate) fn new(plan: &Plan, entropy: [u8; 32], session: bool) -> Self {
        let request = &plan.request;
        let capture = &request.capture;
        let default_echo = if session { Echo::All } else { Echo::None };
        let mut argv = vec![String::from("<string>")];
        argv.extend(request.args.iter().cloned());
        let mut workspace = vec![WORKSPACE_PATH.to_owned()];
        workspace.extend(request.aliases.iter().cloned());
        Self {
            version: VERSION,
            own: Own {
                code: request.code.clone(),
                entropy: HEXLOWER.encode(&entropy),
            },
            echo: request.echo.unwrap_or(default_echo),
            result_var: request.result_var.clone(),
            env: request.env.clone(),
            argv,
            run_env: request.run_env.clone(),
            cwd: request.cwd.clone().unwrap_or_else(|| WORKSPACE_PATH.to_owned()),
            workspace,
            threads: request.threads,
            deterministic: request.deterministic.as_ref().map(|d| Seed { seed: d.seed }),
            policy: plan.rules.clone(),
            dedent: true,
            figures: FigureOrder {
                capture: capture.figures,
                format: capture.figure_format,
                dpi: capture.figure_dpi,
                max: capture.figure_count,
                charts: capture.charts,
            },
            frames: FrameOrder {
                capture: capture.dataframes,
                max_repr_chars: capture.dataframe_chars,
                table_rows: capture.table_rows,
            },
            value: ValueOrder {
                max_depth: MAX_VALUE_DEPTH,
                max_items: MAX_VALUE_ITEMS,
                max_bytes: capture.result_bytes,
            },
            packages: Vec::new(),
            session,
            check: false,
            typed: TypedOrder::of(plan),
            given: plan.variables.is_some(),
            variables: plan.variables.clone(),
            question: None,
            displays: request.takes_events(),
            tools: request.tools.iter().map(ToolOrder::of).collect(),
            input: request.answerer.is_some(),
            // A deterministic run must always start in the same way.
            stdin_used: request.deterministic.is_some(),
            dialect: Some(request.dialect).filter(|dialect| *dialect != Dialect::Python),
            uncounted: request.uncounted,
        }
    }

    /// Only checks the code against the plan's rules.
    pub(crate) fn checking(mut self) -> Self {
        self.check = true;
        self
    }

    /// Only answers a query, with a value of at most `max_bytes` bytes.
    pub(crate) fn asking(mut self, question: Question, max_bytes: u64) -> Self {
        self.question = Some(question);
        self.typed = Some(TypedOrder::new(max_bytes));
        self
    }

    /// Makes the runner recreate the streams for standard input.
    pub(crate) fn with_used_stdin(mut self) -> Self {
        self.stdin_used = true;
        self
    }

    /// Adds a mounted directory to the module search path.
    pub(crate) fn with_packages(mut self, path: &str) -> Self {
        self.packages.push(path.to_owned());
        self
    }
}

/// How the user's code ended, according to the runner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum StatusKind {
    Ok,
    Exception,
    Syntax,
    Exit,
    Interrupted,
    Policy,
    Memory,
}

/// The runner's report on the user's code.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Status {
    pub status: StatusKind,
    #[serde(rename = "type")]
    pub type_: Option<String>,
    pub message: Option<String>,
    pub line: Option<u64>,
    pub traceback: Option<String>,
    pub exit_code: Option<i64>,
    pub hint: Option<String>,
    #[serde(default)]
    pub violations: Vec<Violation>,
}

/// A file that the guest claims is a figure.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct NamedPlot {
    pub path: String,
    /// Another file of the run with the same figure.
    #[serde(default)]
    pub repeats: Option<String>,
}

#[derive(Deserialize)]
struct DataFrameFrame {
    name: String,
    repr: String,
    #[serde(default)]
    truncated: bool,
    #[serde(default)]
    table: Option<Table>,
}

#[derive(Deserialize)]
struct ValueFrame {
    value: serde_json::Value,
    #[serde(default)]
    truncated: bool,
}

#[derive(Deserialize)]
struct InterruptFrame {
    line: Option<u64>,
}

#[derive(Deserialize)]
struct WarningFrame {
    message: String,
}

/// All claims of a guest in one run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Transcript {
    pub status: Option<Status>,
    pub plots: Vec<NamedPlot>,
    pub dataframes: Vec<DataFrameEntry>,
    pub dataframes_cut: bool,
    pub value: Option<serde_json::Value>,
    pub value_cut: bool,
    pub typed: Option<Value>,
    pub warnings: Vec<String>,
    pub ended: bool,
    /// Whether the status arrived before the guest was told to stop.
    pub in_time: bool,
    /// Whether the stop arrived after the code's end, while figures and values were collected.
    pub stopped_in_harvest: bool,
    /// The line reported by an interrupt itself.
    pub interrupted_line: Option<u64>,
    /// The value displayed by the latest frame, until it is passed on.
    displayed: Option<EventKind>,
    /// Whether a frame arrived that the runner never sends: other code uses the door.
    pub forged: bool,
    dataframe_bytes: usize,
}

/// The host's side of one run.
#[derive(Clone)]
pub(crate) struct RunHost {
    shared: Arc<Mutex<Shared>>,
    control: Arc<Control>,
    recorder: Arc<Recorder>,
    calls: Arc<Calls>,
}

#[derive(Default)]
struct Shared {
    order: Vec<u8>,
    value_bytes: usize,
    exchange: Exchange,
    transcript: Transcript,
}

impl RunHost {
    /// Creates the host of a guest with its stop switch, its recorder of events and its tool calls.
    pub(crate) fn new(control: Arc<Control>, recorder: Arc<Recorder>, calls: Arc<Calls>) -> Self {
        Self {
            shared: Arc::default(),
            control,
            recorder,
            calls,
        }
    }

    /// Sets the order for the next run.
    pub(crate) fn order(&self, order: &RunOrder) -> serde_json::Result<()> {
        let value_bytes = order.value.max_bytes as usize;
        let exchange = Exchange::new(order.variables.clone(), order.typed);
        let mut lines = serde_json::to_vec(order)?;
        lines.push(b'\n');
        serde_json::to_writer(&mut lines, &order.own)?;
        let mut shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        *shared = Shared {
            order: lines,
            value_bytes,
            exchange,
            transcript: Transcript::default(),
        };
        Ok(())
    }

    /// Takes the guest's claims since the order was set.
    pub(crate) fn transcript(&self) -> Transcript {
        let mut shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut shared.transcript)
    }
}

impl Host for RunHost {
    fn answer(&mut self, frame: &[u8], memory: &[u8]) -> Answer {
        let Some((opcode, payload)) = frame.split_first() else {
            return Answer::Refused;
        };
        if Calls::knows(*opcode) {
            return match self.calls.answer(*opcode, payload) {
                Reply::Now(bytes) => Answer::Bytes(bytes),
                Reply::Later { wait, instead } => Answer::Later { wait, instead },
                Reply::Refused => Answer::Refused,
            };
        }
        let mut shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        if *opcode == b'r' {
            return Answer::Bytes(shared.order.clone());
        }
        if matches!(opcode, b'G' | b'V') {
            return shared.exchange(*opcode, payload, memory);
        }
        if *opcode == b's' {
            self.recorder.report_error(false);
        }
        let value_bytes = shared.value_bytes;
        match shared.transcript.note(*opcode, payload, value_bytes) {
            Noted::Kept => {
                let interrupted = self.control.is_interrupted();
                let displayed = shared.transcript.displayed.take();
                match opcode {
                    b'o' => {
                        drop(shared);
                        if let Some(kind) = displayed {
                            self.recorder.note(kind);
                        }
                        return Answer::Bytes(Vec::new());
                    }
                    b't' => self.recorder.report_error(true),
                    b's' => shared.transcript.in_time = !interrupted,
                    b'x' => shared.transcript.stopped_in_harvest = interrupted,
                    _ => {}
                }
                Answer::Bytes(Vec::new())
            }
            Noted::TooLong => Answer::Refused,
            Noted::Foreign => {
                shared.transcript.forged = true;
                Answer::Refused
            }
        }
    }
}

impl Shared {
    /// Sends the run's variables, or takes a typed value.
    fn exchange(&mut self, opcode: u8, payload: &[u8], memory: &[u8]) -> Answer {
        if opcode == b'G'
            && let Some(given) = self.exchange.give()
        {
            return Answer::Bytes(given);
        }
        let taken = match opcode {
            b'V' if !self.transcript.ended => self.exchange.take(payload, memory),
            _ => Taken::Foreign,
        };
        match taken {
            Taken::Value(value, cut) => {
                self.transcript.typed = Some(value);
                self.transcript.value_cut = cut;
                return Answer::Bytes(Vec::new());
            }
            Taken::Unreadable => self.transcript.value_cut = true,
            Taken::Foreign => self.transcript.forged = true,
        }
        Answer::Refused
    }
}

/// Result of processing a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Noted {
    Kept,
    /// The frame is too long and is ignored.
    TooLong,
    /// The runner does not send such a frame at this point: other code sent it.
    Foreign,
}

impl Transcript {
    /// Processes one frame; `value_bytes` is the maximum size of a value.
    pub(crate) fn note(&mut self, opcode: u8, payload: &[u8], value_bytes: usize) -> Noted {
        if self.ended {
            return Noted::Foreign;
        }
        let most = match opcode {
            b's' => MAX_STATUS_BYTES,
            b'v' => value_bytes.saturating_add(VALUE_FRAME),
            b'd' => MAX_DATAFRAME_BYTES.saturating_sub(self.dataframe_bytes),
            b'o' => MAX_DISPLAY_BYTES,
            _ => MAX_LINE_BYTES,
        };
        let is_long = payload.len() > most
            || (opcode == b'o' && display::values(payload) > MAX_DISPLAY_VALUES);
        if is_long {
            self.dataframes_cut |= opcode == b'd';
            self.value_cut |= opcode == b'v';
            return Noted::TooLong;
        }
        self.keep(opcode, payload).map_or(Noted::Foreign, |()| Noted::Kept)
    }

    fn keep(&mut self, opcode: u8, payload: &[u8]) -> Option<()> {
        match opcode {
            b's' => {
                let status = serde_json::from_slice(payload).ok()?;
                if self.status.is_some() {
                    return None;
                }
                self.status = Some(status);
            }
            b'p' => {
                let plot: NamedPlot = serde_json::from_slice(payload).ok()?;
                let is_known = self.plots.iter().any(|known| known.path == plot.path);
                if self.plots.len() < MAX_PLOTS && !is_known {
                    self.plots.push(plot);
                }
            }
            b'd' => {
                self.dataframe_bytes += payload.len();
                // Objects that look as after the previous run come together.
                let frames = serde_json::Deserializer::from_slice(payload).into_iter();
                let frames = frames.collect::<Result<Vec<DataFrameFrame>, _>>().ok()?;
                if frames.is_empty() {
                    return None;
                }
                for frame in frames {
                    self.note_dataframe(frame);
                }
            }
            b'v' => {
                let ValueFrame { value, truncated } = serde_json::from_slice(payload).ok()?;
                self.value = Some(value);
                self.value_cut = truncated;
            }
            b'w' => {
                let WarningFrame { message } = serde_json::from_slice(payload).ok()?;
                if self.warnings.len() < MAX_WARNINGS {
                    self.warnings.push(message);
                }
            }
            b'i' => {
                let InterruptFrame { line } = serde_json::from_slice(payload).ok()?;
                self.interrupted_line = line;
            }
            b'o' => self.displayed = Some(display::read(payload)?),
            // After `t`, standard error receives the report of an error, up to the status; after
            // `x`, it receives output of the code again: exit handlers and destructors.
            b't' | b'x' => {}
            b'e' => self.ended = true,
            _ => return None,
        }
        Some(())
    }

    fn note_dataframe(&mut self, frame: DataFrameFrame) {
        self.dataframes_cut |= frame.truncated;
        if self.dataframes.len() >= MAX_DATAFRAMES {
            self.dataframes_cut = true;
            return;
        }
        self.dataframes.push(DataFrameEntry {
            name: frame.name,
            repr: frame.repr,
            table: frame.table,
        });
    }
}

/// Feeds one frame to a new transcript. Entry point for fuzzing.
#[cfg(feature = "fuzzing")]
pub(crate) fn parse_frame(frame: &[u8]) -> bool {
    match frame.split_first() {
        Some((opcode, payload)) => {
            Transcript::default().note(*opcode, payload, 1 << 20) == Noted::Kept
        }
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(transcript: &mut Transcript, opcode: u8, payload: &[u8]) -> Noted {
        transcript.note(opcode, payload, 1_000)
    }

    #[test]
    fn a_second_status_is_a_forgery() {
        let mut transcript = Transcript::default();
        let status = br#"{"status":"ok","type":null,"message":null,"line":null,"traceback":null,
            "exit_code":null,"hint":null}"#;
        assert_eq!(note(&mut transcript, b's', status), Noted::Kept);
        assert_eq!(note(&mut transcript, b's', status), Noted::Foreign);
    }

    #[test]
    fn nothing_is_taken_after_the_end() {
        let mut transcript = Transcript::default();
        assert_eq!(note(&mut transcript, b'e', b"{}"), Noted::Kept);
        assert_eq!(note(&mut transcript, b'p', br#"{"path":"x.png"}"#), Noted::Foreign);
        assert!(transcript.plots.is_empty());
    }

    #[test]
    fn nonsense_is_refused() {
        for (opcode, payload) in [(b's', &b"{}"[..]), (b'z', b"{}"), (b'v', b"{"), (b'p', b"\xff")]
        {
            assert_eq!(note(&mut Transcript::default(), opcode, payload), Noted::Foreign);
        }
        let deep = [b"{\"value\":".to_vec(), vec![b'['; 1_000]].concat();
        assert_eq!(note(&mut Transcript::default(), b'v', &deep), Noted::Foreign);
    }

    #[test]
    fn one_frame_may_have_several_pandas_objects() {
        let mut transcript = Transcript::default();
        let both =
            b"{\"name\":\"a\",\"repr\":\"1\"}\n{\"name\":\"b\",\"repr\":\"2\",\"truncated\":true}";
        assert_eq!(note(&mut transcript, b'd', both), Noted::Kept);
        let names: Vec<&str> = transcript.dataframes.iter().map(|one| one.name.as_str()).collect();
        assert_eq!((names, transcript.dataframes_cut), (vec!["a", "b"], true));
        for wrong in [&b""[..], b"\n", b"{\"name\":\"c\",\"repr\":\"3\"}\n{}"] {
            assert_eq!(note(&mut transcript, b'd', wrong), Noted::Foreign);
        }
        assert_eq!(transcript.dataframes.len(), 2);
        let many = br#"{"name":"a","repr":""}"#.repeat(MAX_DATAFRAMES + 1);
        let mut transcript = Transcript::default();
        assert_eq!(note(&mut transcript, b'd', &many), Noted::Kept);
        assert_eq!(transcript.dataframes.len(), MAX_DATAFRAMES);
        assert!(transcript.dataframes_cut);
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let mut transcript = Transcript::default();
        let long =
            |key: &str, length| format!(r#"{{"{key}":"{}"}}"#, "x".repeat(length)).into_bytes();
        assert_eq!(note(&mut transcript, b'v', &long("value", 2_000)), Noted::TooLong);
        assert_eq!(note(&mut transcript, b'p', &long("path", 1 << 20)), Noted::TooLong);
        assert_eq!(note(&mut transcript, b'w', &long("message", 1 << 20)), Noted::TooLong);
        assert!(transcript.value_cut && transcript.plots.is_empty());
        let rows = "0,".repeat(1 << 20);
        let frame = format!(
            r#"{{"name":"d","repr":"","table":{{"columns":[],"dtypes":[],"index":[{rows}0],
            "shape":[0,0],"rows":[],"truncated":false}}}}"#
        );
        assert_eq!(note(&mut transcript, b'd', frame.as_bytes()), Noted::Kept);
        assert_eq!(note(&mut transcript, b'd', frame.as_bytes()), Noted::TooLong);
        assert!(transcript.dataframes_cut);
    }
}

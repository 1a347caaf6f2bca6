//! A run that waits for answers: all data needed to replay it to the waiting point and to continue.
//! It does not contain the interpreter, because a native stack cannot be saved.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use belljar_value::Value as Typed;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::SessionError;
use crate::api::policy::Plan;
use crate::api::refusal::{Field, Reason, ReasonKind, Refusal};
use crate::api::request::{
    Capture, Content, Deterministic, Dialect, Echo, InputFile, Policy, Request, RequestLimits,
    Threads,
};
use crate::api::tool::{DeferredTool, Tool, ToolAnswer, ToolLimits, WaitingCall};
use crate::error::Error;
use crate::limits::{MAX_LOGGED_LEVELS, MAX_WAITING_BYTES, MAX_WAITING_VALUES};
use crate::sandbox::calls::{LogRoom, Logged, LoggedAnswer, Weight};

/// A run that waits for answers.
#[derive(Clone, Debug)]
pub(super) struct Pending {
    /// The request, with the contents of its files.
    pub request: Request,
    pub pins: Pins,
    /// The answers to earlier calls.
    pub log: Vec<Logged>,
    /// The calls that the run waits for.
    pub awaited: Vec<WaitingCall>,
}

/// Settings that make a replay identical.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Pins {
    pub deterministic: Deterministic,
    pub entropy: [u8; 32],
}

impl Pins {
    /// Creates the settings of a run that starts now, in a session of age `lived`. A deterministic
    /// session uses its own settings.
    pub(super) fn new(
        own: Option<&Deterministic>,
        entropy: [u8; 32],
        lived: Duration,
    ) -> Result<Self, std::io::Error> {
        let deterministic = if let Some(own) = own {
            own.clone()
        } else {
            let mut seed = [0; 8];
            getrandom::fill(&mut seed)?;
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            Deterministic {
                seed: u64::from_le_bytes(seed),
                // The clock has advanced for as long as the interpreter has lived.
                epoch: now.saturating_sub(lived).as_secs(),
                ..Deterministic::default()
            }
        };
        Ok(Self {
            deterministic,
            entropy,
        })
    }
}

impl Pending {
    /// Returns the inputs of the run: standard input, then each input file.
    pub(super) fn inputs(&self) -> impl Iterator<Item = &[u8]> {
        let files = self.request.files.iter().map(|file| match &file.content {
            Content::Bytes(bytes) => bytes.as_slice(),
            // Files of the host were read when the run began.
            Content::Host(_) => &[],
        });
        std::iter::once(self.request.stdin.as_slice()).chain(files)
    }

    /// Returns the log with answers added.
    pub(super) fn answered(
        &self,
        id: &str,
        answers: Vec<ToolAnswer>,
    ) -> Result<Vec<Logged>, SessionError> {
        let mut log = self.log.clone();
        let mut room = self.room();
        for ToolAnswer { id: call, answer } in answers {
            let Some(awaited) = self.awaited.iter().find(|awaited| awaited.id == call) else {
                let id = id.to_owned();
                return Err(SessionError::NoCall { id, call });
            };
            let bad = |why| SessionError::BadAnswer {
                id: id.to_owned(),
                call,
                why,
            };
            if let (true, Ok(value)) = (awaited.typed, &answer) {
                is_value(value).map_err(|why| bad(format!("it is no typed value: {why}")))?;
            }
            let answer = LoggedAnswer::given(answer);
            answer.take_room(&mut room).map_err(|error| bad(error.into_parts().1))?;
            log.retain(|logged| logged.id != call);
            log.push(Logged {
                id: call,
                name: awaited.name.clone(),
                arguments: awaited.arguments.clone(),
                answer,
                is_for_any: false,
            });
        }
        Ok(log)
    }

    /// Returns the log's remaining room after the calls so far.
    fn room(&self) -> LogRoom {
        let mut room = LogRoom::default();
        for logged in &self.log {
            // The log had room for the call when it was made.
            let _ = room.take_call(&logged.arguments);
            let _ = logged.answer.take_room(&mut room);
        }
        for call in &self.awaited {
            let _ = room.take_call(&call.arguments);
        }
        room
    }

    /// Rejects a request that would be too large to restore with its session.
    pub(super) fn check_size(&self) -> Result<(), Error> {
        let entry = PendingEntry::of(self);
        let weight = Weight::of(&entry).map_err(Error::system("write a request down"))?;
        let (bytes, values) = (MAX_WAITING_BYTES, MAX_WAITING_VALUES);
        let too_long = |field, message| {
            let reasons = vec![Reason::new(field, ReasonKind::TooLong, message)];
            Err(Refusal { reasons }.into())
        };
        if weight.levels > MAX_LOGGED_LEVELS + OUTER_LEVELS {
            let message = format!(
                "a schema is nested more than {MAX_LOGGED_LEVELS} levels deep beside a deferred tool"
            );
            return too_long(Field::Tools, message);
        }
        if weight.bytes > bytes || weight.values > values {
            let message = format!(
                "with code, environment and tools they are {} values and {} bytes of JSON, at \
                 most {values} and {bytes} are taken beside a deferred tool",
                weight.values, weight.bytes
            );
            return too_long(Field::Variables, message);
        }
        Ok(())
    }
}

/// JSON levels around a tool's schema.
const OUTER_LEVELS: u32 = 4;

/// Checks whether a guest can accept a value in the tagged form. Returns what is wrong with it.
fn is_value(tagged: &Value) -> Result<(), String> {
    let value: Typed = serde_json::from_value(tagged.clone()).map_err(|e| e.to_string())?;
    value.check().map_err(|e| e.to_string())
}

/// Whether a plan has deferred tools.
pub(super) fn may_wait(plan: &Plan) -> bool {
    plan.request.tools.iter().any(Tool::is_deferred)
}

/// Reads the host files of a request now, since they may change before a replay. Blocks.
pub(super) fn read_files(files: &mut [InputFile]) -> Result<(), Error> {
    for file in files {
        if let Content::Host(path) = &file.content {
            let bytes = std::fs::read(path).map_err(Error::system("read an input file"))?;
            file.content = Content::Bytes(bytes);
        }
    }
    Ok(())
}

/// A waiting run in a checkpoint. Its input bytes are in chunks. Its watcher and the functions of
/// its tools are omitted; the caller that restores the session supplies the tools again or answers
/// their calls.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PendingEntry {
    code: String,
    /// Paths of the input files.
    files: Vec<String>,
    variables: BTreeMap<String, Typed>,
    env: BTreeMap<String, String>,
    run_env: BTreeMap<String, String>,
    cwd: Option<String>,
    args: Vec<String>,
    timeout: Option<Duration>,
    fuel: Option<u64>,
    output: Option<u64>,
    policy: Policy,
    echo: Option<Echo>,
    dialect: Dialect,
    result_var: Option<String>,
    threads: Threads,
    capture: Capture,
    tools: Vec<DeferredTool>,
    tool_limits: ToolLimits,
    pins: Pins,
    log: Vec<Logged>,
    awaited: Vec<WaitingCall>,
}

impl PendingEntry {
    pub(super) fn of(pending: &Pending) -> Self {
        let request = &pending.request;
        Self {
            code: request.code.clone(),
            files: request.files.iter().map(|file| file.path.clone()).collect(),
            variables: request.variables.clone(),
            env: request.env.clone(),
            run_env: request.run_env.clone(),
            cwd: request.cwd.clone(),
            args: request.args.clone(),
            timeout: request.limits.timeout,
            fuel: request.limits.fuel,
            output: request.limits.output,
            policy: request.policy.clone(),
            echo: request.echo,
            dialect: request.dialect,
            result_var: request.result_var.clone(),
            threads: request.threads,
            capture: request.capture.clone(),
            tools: request.tools.iter().map(DeferredTool::from).collect(),
            tool_limits: request.tool_limits,
            pins: pending.pins.clone(),
            log: pending.log.clone(),
            awaited: pending.awaited.clone(),
        }
    }

    /// Adds the bytes of standard input and files. Returns `None` if their number is wrong. All
    /// other checks happen when the run is answered, as for any request.
    pub(super) fn with_inputs(self, inputs: Vec<Vec<u8>>) -> Option<Pending> {
        let mut inputs = inputs.into_iter();
        let stdin = inputs.next()?;
        if inputs.len() != self.files.len() {
            return None;
        }
        let files = self.files.into_iter().zip(inputs);
        let request = Request {
            files: files.map(|(path, bytes)| InputFile::new(path, bytes)).collect(),
            stdin,
            variables: self.variables,
            env: self.env,
            run_env: self.run_env,
            cwd: self.cwd,
            args: self.args,
            limits: RequestLimits {
                timeout: self.timeout,
                fuel: self.fuel,
                output: self.output,
                ..RequestLimits::default()
            },
            policy: self.policy,
            echo: self.echo,
            dialect: self.dialect,
            result_var: self.result_var,
            threads: self.threads,
            capture: self.capture,
            tools: self.tools.into_iter().map(Tool::from).collect(),
            tool_limits: self.tool_limits,
            ..Request::new(self.code)
        };
        Some(Pending {
            request,
            pins: self.pins,
            log: self.log,
            awaited: self.awaited,
        })
    }
}

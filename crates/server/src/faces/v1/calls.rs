//! Tools and `input()` that the client of a run answers: each call is an event of the run's stream,
//! answered by `POST /v1/calls/{id}`.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use axum::Extension;
use axum::extract::Path;
use axum::http::StatusCode;
use axum::routing::post;
use belljar::event::event_channel;
use belljar::request::{HostPaths, RunRequest};
use belljar::tool::{ToolError, ToolLimits};
use belljar::value::Value as Typed;
use belljar::{Interrupt, Request, Tool};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value, json};
use tokio::sync::{mpsc, oneshot};

use super::create::{Seconds, merged, read, take};
use super::operation::Operation;
use crate::http::extract::Body;
use crate::http::output::output_channel;
use crate::http::problem::Problem;
use crate::http::sse::{Sent, Watched};
use crate::lock::lock;
use crate::service::cache;
use crate::service::owner::Owner;

/// The largest `total_bytes` of one run's calls.
const MAX_TOTAL_BYTES: u64 = 256 << 20;

pub(super) fn operations() -> Vec<Operation> {
    vec![
        Operation::new(
            "POST",
            "/v1/calls/{id}",
            post(answer),
            "Answers a call of a tool or of `input()` whose event has this id. Send it to the server that \
             sends the run's events.",
        )
        .takes::<Reply>()
        .ends(204, "The code goes on with the answer"),
        Operation::new(
            "POST",
            "/v1/runs/{id}/interrupt",
            post(interrupt),
            "Interrupts the run whose stream began with an event `run` of this id, as Ctrl-C would: the \
             stream goes on to the outcome.",
        )
        .ends(204, "The run was told"),
    ]
}

/// A run, and the calls that its client answers.
pub(super) struct ClientRun {
    pub run: RunRequest,
    own: Own,
}

/// Keys of a request whose response is a stream.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct Own {
    /// Tools that the client answers while the code waits: each call is an event `call`, which
    /// `POST /v1/calls/{id}` answers. They need `Accept: text/event-stream`.
    client_tools: Vec<ClientTool>,
    /// Whether the client answers `input()` in the same way: each call is an event `input`.
    client_input: bool,
    /// Whether the stream begins with an event `run`, by whose `id`
    /// `POST /v1/runs/{id}/interrupt` interrupts the run.
    client_interrupt: bool,
    /// Limits on the calls of tools.
    tool_limits: Option<Limits>,
    /// Whether the stream has the run's events. Without them it has `call`, `input` and `outcome`,
    /// and values that the code displays are printed. `output` adds `stdout` and `stderr`, each
    /// with `text`, tracebacks included. Default true.
    events: Option<Events>,
    /// An id for the stream, 16 to 64 letters, digits, `-` and `_`. Its events then have ids, and
    /// the run outlives a lost connection by 30 seconds: `GET /v1/streams/{id}` with
    /// `Last-Event-ID` resumes the stream. A repeated request resumes it, too, from its start.
    #[schemars(regex(pattern = STREAM_PATTERN))]
    stream: Option<String>,
}

const OWN: [&str; 6] =
    ["client_tools", "client_input", "client_interrupt", "tool_limits", "events", "stream"];

/// Which events a stream has.
#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(untagged)]
enum Events {
    All(bool),
    Some(SomeEvents),
}

#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum SomeEvents {
    Output,
}

/// A tool that the client answers.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ClientTool {
    /// Name of the tool, as of a deferred tool.
    name: String,
    /// Description of the tool, for `help(tools.NAME)`.
    #[serde(default)]
    description: String,
    /// JSON Schema of the arguments, an object. Default: any object.
    schema: Option<Value>,
    /// Whether arguments and answers are typed values in their tagged form.
    #[serde(default)]
    typed: bool,
    /// Seconds for one call, in place of the limit of all.
    timeout: Option<Seconds>,
}

/// Limits on the calls of one run.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Limits {
    /// Number of calls. Default 1,000.
    calls: Option<u32>,
    /// Bytes of one call's arguments. Default 1 MiB.
    argument_bytes: Option<u32>,
    /// Bytes of one call's answer. Default 4 MiB.
    answer_bytes: Option<u32>,
    /// Bytes of all arguments and answers together. Default 64 MiB, at most 256 MiB.
    total_bytes: Option<u64>,
    /// Seconds for one call. Default 30.
    timeout: Option<Seconds>,
}

impl<'de> Deserialize<'de> for ClientRun {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut keys: Map<String, Value> = Map::deserialize(deserializer)?;
        let own = take(&mut keys, &OWN);
        Ok(Self {
            own: read(own).map_err(D::Error::custom)?,
            run: read(keys).map_err(D::Error::custom)?,
        })
    }
}

impl JsonSchema for ClientRun {
    fn schema_name() -> Cow<'static, str> {
        "ClientRun".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        merged::<Own>(RunRequest::json_schema(generator), generator)
    }
}

impl ClientRun {
    /// The id of a stream that can be resumed.
    pub(super) fn stream(&self) -> Result<Option<&str>, Problem> {
        let id = self.own.stream.as_deref();
        if id.is_some_and(|id| !is_stream(id)) {
            return Err(bad("stream: 16 to 64 letters, digits, - and _"));
        }
        Ok(id)
    }

    /// The request, for one document as the answer.
    pub(super) fn plain(self) -> Result<Request, Problem> {
        let own = &self.own;
        let is_live = !own.client_tools.is_empty() || own.client_input || own.client_interrupt;
        if is_live || own.stream.is_some() {
            return Err(bad("stream and client_ options need Accept: text/event-stream"));
        }
        let request = self.run.into_request(HostPaths::Refused).map_err(belljar::Error::from)?;
        limited(request, self.own.tool_limits)
    }

    /// The request, and what its stream tells.
    pub(super) fn watched(
        self,
        owner: &Owner,
        calls: &Arc<Calls>,
    ) -> Result<(Request, Watched), Problem> {
        let Own {
            client_tools,
            client_input,
            client_interrupt,
            tool_limits,
            events,
            stream: _,
        } = self.own;
        let request = self.run.into_request(HostPaths::Refused).map_err(belljar::Error::from)?;
        let mut request = limited(request, tool_limits)?;
        let mut watched = Watched::default();
        match events.unwrap_or(Events::All(true)) {
            Events::All(true) => {
                let (listener, reader) = event_channel();
                request = request.watch(listener);
                watched.events = Some(reader);
            }
            Events::All(false) => {}
            Events::Some(SomeEvents::Output) => {
                let (listener, reader) = output_channel();
                request = request.watch(listener);
                watched.output = Some(reader);
            }
        }
        if client_tools.is_empty() && !client_input && !client_interrupt {
            return Ok((request, watched));
        }
        let (live, sent) = Live::new(owner)?;
        if client_interrupt {
            request = request.interrupt(&live.interrupt);
            live.begin();
        }
        for tool in client_tools {
            request = request.tool(tool.answered_by(&live)?);
        }
        if client_input {
            let live = Arc::clone(&live);
            request = request.answerer(move |prompt| Arc::clone(&live).line(prompt));
        }
        watched.calls = Some(sent);
        watched.held = Some(Box::new(Registered::new(calls, live)));
        Ok((request, watched))
    }
}

impl ClientTool {
    fn answered_by(self, live: &Arc<Live>) -> Result<Tool, Problem> {
        let schema = self.schema.unwrap_or_else(|| json!({"type": "object"}));
        let (live, name) = (Arc::clone(live), self.name.clone());
        let tool = if self.typed {
            Tool::values(self.name, schema, move |arguments: BTreeMap<String, Typed>| {
                let (live, name) = (Arc::clone(&live), name.clone());
                async move {
                    let answer = live.call(&name, serde_json::to_value(arguments)?).await?;
                    let why = |error| ToolError::message(format!("no typed value: {error}"));
                    serde_json::from_value(answer).map_err(why)
                }
            })
        } else {
            Tool::new(self.name, schema, move |arguments: Value| {
                let (live, name) = (Arc::clone(&live), name.clone());
                async move { live.call(&name, arguments).await }
            })
        };
        let tool = tool.description(self.description);
        Ok(match self.timeout {
            Some(time) => tool.timeout(time.duration("client_tools.timeout")?),
            None => tool,
        })
    }
}

fn limited(request: Request, asked: Option<Limits>) -> Result<Request, Problem> {
    let Some(asked) = asked else {
        return Ok(request);
    };
    let mut limits = ToolLimits::default();
    limits.calls = asked.calls.unwrap_or(limits.calls);
    limits.argument_bytes = asked.argument_bytes.unwrap_or(limits.argument_bytes);
    limits.answer_bytes = asked.answer_bytes.unwrap_or(limits.answer_bytes);
    limits.total_bytes = asked.total_bytes.unwrap_or(limits.total_bytes);
    let time = asked.timeout.map(|time| time.duration("tool_limits.timeout")).transpose()?;
    limits.timeout = time.unwrap_or(limits.timeout);
    if limits.total_bytes > MAX_TOTAL_BYTES {
        return Err(bad(format!("tool_limits.total_bytes: at most {MAX_TOTAL_BYTES}")));
    }
    Ok(request.tool_limits(limits))
}

/// The form of a stream's id.
const STREAM_PATTERN: &str = "^[A-Za-z0-9_-]{16,64}$";

fn is_stream(id: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    (16..=64).contains(&id.len()) && id.bytes().all(is_plain)
}

fn bad(detail: impl Into<String>) -> Problem {
    Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "bad_field", detail)
}

/// The runs whose clients answer calls, by their ids.
#[derive(Default)]
pub(super) struct Calls(Mutex<HashMap<String, Arc<Live>>>);

impl Calls {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, Arc<Live>>> {
        lock(&self.0)
    }
}

/// Registers a run while its stream exists.
struct Registered {
    calls: Arc<Calls>,
    live: Arc<Live>,
}

impl Registered {
    fn new(calls: &Arc<Calls>, live: Arc<Live>) -> Self {
        calls.lock().insert(live.id.clone(), Arc::clone(&live));
        let calls = Arc::clone(calls);
        Self { calls, live }
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        self.calls.lock().remove(&self.live.id);
    }
}

/// A run whose client answers calls.
struct Live {
    id: String,
    owner: String,
    interrupt: Interrupt,
    /// The stream. It takes one event at a time, so that the code waits for a slow client.
    sent: mpsc::Sender<Sent>,
    open: Mutex<HashMap<u64, oneshot::Sender<Reply>>>,
    next: AtomicU64,
}

impl Live {
    fn new(owner: &Owner) -> Result<(Arc<Self>, mpsc::Receiver<Sent>), Problem> {
        let id = cache::new_id().ok_or_else(|| Problem::internal("there is no random number"))?;
        let (sent, stream) = mpsc::channel(1);
        let live = Self {
            id,
            owner: owner.name().to_owned(),
            interrupt: Interrupt::new(),
            sent,
            open: Mutex::default(),
            next: AtomicU64::new(1),
        };
        Ok((Arc::new(live), stream))
    }

    /// Sends the run's id, which is the first event.
    fn begin(&self) {
        // There is room for one.
        let _ = self.sent.try_send(Sent::new("run", &json!({"id": self.id})));
    }

    async fn call(&self, name: &str, arguments: Value) -> Result<Value, ToolError> {
        match self.ask("call", json!({"name": name, "arguments": arguments})).await {
            Some(Reply::Answer { answer }) => Ok(answer),
            Some(Reply::Failed {
                error,
                denied: true,
            }) => Err(ToolError::denied(error)),
            Some(Reply::Failed { error, .. }) => Err(ToolError::message(error)),
            None => Err(ToolError::message("the client that answers this tool is gone")),
        }
    }

    async fn line(self: Arc<Self>, prompt: String) -> Option<String> {
        match self.ask("input", json!({"prompt": prompt})).await {
            Some(Reply::Answer {
                answer: Value::String(line),
            }) => Some(line),
            _ => None,
        }
    }

    /// Sends a call and waits for its answer. Returns `None` if the stream has ended.
    async fn ask(&self, event: &str, mut about: Value) -> Option<Reply> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        about["id"] = format!("{}-{number}", self.id).into();
        let (sender, answered) = oneshot::channel();
        self.open().insert(number, sender);
        let _open = Open { live: self, number };
        self.sent.send(Sent::new(event, &about)).await.ok()?;
        answered.await.ok()
    }

    fn open(&self) -> MutexGuard<'_, HashMap<u64, oneshot::Sender<Reply>>> {
        lock(&self.open)
    }
}

/// An open call. If it ends early, by a timeout or an interrupt, the client gets an event, unless
/// it is slow to read: then its answer is refused.
struct Open<'a> {
    live: &'a Live,
    number: u64,
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        if self.live.open().remove(&self.number).is_some() {
            let about = json!({"id": format!("{}-{}", self.live.id, self.number)});
            let _ = self.live.sent.try_send(Sent::new("call_cancelled", &about));
        }
    }
}

/// The answer to a call: `{"answer": VALUE}`, for `input()` a line or null; or `{"error": MESSAGE}`
/// with, where the call is not allowed, `"denied": true`.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
enum Reply {
    Failed {
        /// The message that the code sees.
        error: String,
        /// Whether the call is not allowed.
        #[serde(default)]
        denied: bool,
    },
    Answer {
        /// The answer. Typed values are in their tagged form.
        answer: Value,
    },
}

async fn answer(
    owner: Owner,
    Extension(calls): Extension<Arc<Calls>>,
    Path(id): Path<String>,
    Body(reply): Body<Reply>,
) -> Result<StatusCode, Problem> {
    let found = id.rsplit_once('-').and_then(|(run, number)| {
        let live = calls.lock().get(run).filter(|live| live.owner == owner.name()).cloned()?;
        live.open().remove(&number.parse().ok()?)
    });
    let gone = || {
        let detail = format!("there is no open call {id}: it was answered, or its run has ended");
        Problem::new(StatusCode::NOT_FOUND, "call.not_found", detail)
    };
    found.ok_or_else(gone)?.send(reply).map_err(|_| gone())?;
    Ok(StatusCode::NO_CONTENT)
}

async fn interrupt(
    owner: Owner,
    Extension(calls): Extension<Arc<Calls>>,
    Path(id): Path<String>,
) -> Result<StatusCode, Problem> {
    let live = calls.lock().get(&id).filter(|live| live.owner == owner.name()).cloned();
    let gone = || {
        let detail = format!("there is no run {id} under way that can be interrupted");
        Problem::new(StatusCode::NOT_FOUND, "run.not_found", detail)
    };
    live.ok_or_else(gone)?.interrupt.interrupt();
    Ok(StatusCode::NO_CONTENT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_takes_its_own_keys_beside_those_of_a_request() {
        let read = |text: &str| serde_json::from_str::<ClientRun>(text).map_err(|e| e.to_string());
        let asked = read(
            r#"{"code": "1", "timeout": 2, "client_tools": [{"name": "a", "timeout": 1}],
                "client_input": true, "events": false, "tool_limits": {"calls": 3}}"#,
        );
        let asked = asked.unwrap_or_else(|error| panic!("{error}"));
        assert_eq!((asked.run.code.as_str(), asked.run.timeout), ("1", Some(2.0)));
        assert!(asked.own.client_input && matches!(asked.own.events, Some(Events::All(false))));
        assert_eq!(asked.plain().unwrap_err().code, "bad_field");
        for (text, name) in [
            (r#"{"code": "1", "client_tool": []}"#, "client_tool"),
            (r#"{"code": "1", "client_tools": [{"nam": "a"}]}"#, "nam"),
            (r#"{"client_input": true}"#, "code"),
        ] {
            assert!(read(text).err().is_some_and(|error| error.contains(name)), "{text}");
        }
    }

    #[test]
    fn a_reply_is_an_answer_or_an_error() {
        let read = |text: &str| serde_json::from_str::<Reply>(text);
        assert!(matches!(
            read(r#"{"answer": null}"#),
            Ok(Reply::Answer {
                answer: Value::Null
            })
        ));
        assert!(matches!(
            read(r#"{"error": "no", "denied": true}"#),
            Ok(Reply::Failed { denied: true, .. })
        ));
        assert!(read("{}").is_err());
    }
}

//! Callbacks to JavaScript, on the thread of the event loop that started the run.

use std::sync::Arc;

use belljar::event::{Event, OutputWatcher, Stream};
use belljar::progress::{Progress, Stage};
use belljar::tool::ToolError;
use belljar::{Interrupt, Request, Tool};
use napi::Status;
use napi::bindgen_prelude::{FnArgs, Promise};
use napi::threadsafe_function::{ThreadsafeFunction, ThreadsafeFunctionCallMode};
use napi_derive::napi;
use serde::Deserialize;
use serde_json::Value;

use crate::failure::argument;

/// Called with an event or a step as text. Weak: does not keep the process alive.
pub(crate) type Listener = ThreadsafeFunction<String, (), String, Status, false, true>;

/// Called with a tool's name and its arguments in JSON; returns a promise of `{"answer"}` or
/// `{"error"}` in JSON.
pub(crate) type Answerer = ThreadsafeFunction<
    FnArgs<(String, String)>,
    Promise<String>,
    FnArgs<(String, String)>,
    Status,
    false,
    true,
>;

/// Interrupts the runs that use it.
#[napi]
#[derive(Default)]
pub struct Switch(Interrupt);

#[napi]
impl Switch {
    /// A new switch.
    #[napi(constructor)]
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Interrupts the runs.
    #[napi]
    pub fn interrupt(&self) {
        self.0.interrupt();
    }
}

/// Sends events to JavaScript as they happen. The run does not wait for them to be handled.
struct Heard(Listener);

impl OutputWatcher for Heard {
    fn write(&self, _: Stream, _: &[u8]) {}

    fn wants_events(&self) -> bool {
        true
    }

    fn event(&self, event: &Event) {
        let event = serde_json::to_string(event).unwrap_or_default();
        // Fails if the event loop has ended; then the event is lost.
        self.0.call(event, ThreadsafeFunctionCallMode::NonBlocking);
    }
}

/// Sends the steps of the first setup to JavaScript, and an empty text at the end of each.
pub(crate) struct Steps(pub Listener);

impl Progress for Steps {
    fn begin(&self, stage: Stage, subject: &str) {
        let step = format!("{} {subject}", stage.describe());
        self.0.call(step.trim_end().to_owned(), ThreadsafeFunctionCallMode::NonBlocking);
    }

    fn end(&self, _: Stage) {
        self.0.call(String::new(), ThreadsafeFunctionCallMode::NonBlocking);
    }
}

/// The JSON description of a tool.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Described {
    name: String,
    #[serde(default)]
    description: String,
    parameters: Value,
}

/// The result of a tool's function.
#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Answered {
    Answer(Value),
    Error(String),
}

/// The tools listed in `described`, all answered by the same function.
pub(crate) fn tools(
    described: Option<&str>,
    function: Option<Answerer>,
) -> napi::Result<Vec<Tool>> {
    let (Some(described), Some(function)) = (described, function) else {
        return Ok(Vec::new());
    };
    let described: Vec<Described> = serde_json::from_str(described)
        .map_err(|e| argument("tools", format!("cannot be read: {e}")))?;
    let function = Arc::new(function);
    Ok(described.into_iter().map(|tool| answered_by(tool, &function)).collect())
}

fn answered_by(tool: Described, function: &Arc<Answerer>) -> Tool {
    let (name, function) = (tool.name.clone(), Arc::clone(function));
    Tool::new(tool.name, tool.parameters, move |arguments: Value| {
        let (name, function) = (name.clone(), Arc::clone(&function));
        async move { ask(&function, name, &arguments).await }
    })
    .description(tool.description)
}

async fn ask(function: &Answerer, name: String, arguments: &Value) -> Result<Value, ToolError> {
    let asked = FnArgs::from((name, arguments.to_string()));
    let gone =
        |e: napi::Error| ToolError::message(format!("the tool did not answer: {}", e.reason));
    let promise = function.call_async(asked).await.map_err(gone)?;
    let answer: String = promise.await.map_err(gone)?;
    match serde_json::from_str(&answer) {
        Ok(Answered::Answer(value)) => Ok(value),
        Ok(Answered::Error(message)) => Err(ToolError::message(message)),
        Err(e) => Err(ToolError::message(format!("the answer cannot be read: {e}"))),
    }
}

/// Adds events and the interrupt switch to a request.
pub(crate) fn attach(
    mut request: Request,
    events: Option<Listener>,
    switch: Option<&Switch>,
    tools: Vec<Tool>,
) -> Request {
    if let Some(listener) = events {
        request = request.watch(Arc::new(Heard(listener)));
    }
    if let Some(switch) = switch {
        request = request.interrupt(&switch.0);
    }
    tools.into_iter().fold(request, Request::tool)
}

//! Runs code, and sends its output.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use belljar::event::{Display, EventKind, EventReader, event_channel};
use belljar::outcome::{ErrorDetail, ErrorKind};
use belljar::request::{Dialect, Echo};
use belljar::value::Value as Typed;
use belljar::{Interrupt, Outcome, Request};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tokio::sync::oneshot;

use super::life::Life;
use super::text::{Next, Text};
use super::{Asked, Inner, error, lock};
use crate::backend::{Failure, Guest};
use crate::message::Channel;

/// Interval of progress messages while waiting for the session.
const TOLD: Duration = Duration::from_millis(500);

/// The content of an `execute_request`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Order {
    code: String,
    silent: bool,
    store_history: Option<bool>,
    user_expressions: Option<BTreeMap<String, Value>>,
    allow_stdin: Option<bool>,
    stop_on_error: Option<bool>,
}

/// The result of code.
struct Done {
    /// The error, for the reply and the message `error`.
    error: Option<Value>,
    /// The text of the last expression's value.
    result: Option<String>,
}

impl Life {
    /// The reply to an `execute_request`, and whether to skip the waiting requests.
    pub(super) async fn execute(&self, inner: &Arc<Inner>, asked: &Asked) -> (Value, bool) {
        let order: Order =
            match serde_json::from_value(Value::Object(asked.message.content.clone())) {
                Ok(order) => order,
                Err(wrong) => {
                    let mut content = error("BadRequest", &wrong.to_string(), &[]);
                    content["execution_count"] = Value::from(self.number());
                    return (content, false);
                }
            };
        let header = &asked.message.header;
        let is_stored = !order.silent && order.store_history.unwrap_or(true);
        let is_code = !order.code.trim().is_empty();
        // A cell that is not stored has the number of the next cell, without using it up.
        let number = self.number() + u64::from(is_code);
        if !order.silent {
            let content = json!({"code": order.code, "execution_count": number});
            inner.publish("execute_input", header, content).await;
        }
        let session = match self.session_told(inner, asked).await {
            Ok(session) => session,
            Err(failure) => return (self.failed(inner, asked, &failure).await, true),
        };
        let done = if is_code {
            match self.run(inner, asked, session, (&order, is_stored), number).await {
                Ok(done) => done,
                Err(failure) => return (self.failed(inner, asked, &failure).await, true),
            }
        } else {
            Done {
                error: None,
                result: None,
            }
        };
        if is_stored && is_code {
            lock(&self.history).push(number, order.code, done.result);
        }
        let stops = done.error.is_some() && !order.silent && order.stop_on_error.unwrap_or(true);
        let mut content = if let Some(error) = done.error {
            error
        } else {
            let asked = order.user_expressions.unwrap_or_default();
            let values = expressions(session, asked, !is_code).await;
            json!({"status": "ok", "user_expressions": values, "payload": []})
        };
        let number = if is_stored { number } else { self.number() };
        content["execution_count"] = Value::from(number);
        (content, stops)
    }

    /// Returns the session. Reports progress while it is being created.
    async fn session_told(&self, inner: &Inner, asked: &Asked) -> Result<&dyn Guest, Failure> {
        let mut told = None;
        let opening = self.session(inner);
        tokio::pin!(opening);
        loop {
            if let Ok(session) = tokio::time::timeout(TOLD, &mut opening).await {
                return session;
            }
            let progress = inner.backend.progress().filter(|_| !self.is_open());
            if let Some(text) = progress.filter(|text| told.as_ref() != Some(text)) {
                let content = json!({"name": "stderr", "text": format!("{text}\n")});
                inner.publish("stream", &asked.message.header, content).await;
                told = Some(text);
            }
        }
    }

    async fn run(
        &self,
        inner: &Arc<Inner>,
        asked: &Asked,
        session: &dyn Guest,
        (order, is_stored): (&Order, bool),
        number: u64,
    ) -> Result<Done, Failure> {
        let interrupt = Interrupt::new();
        *lock(&inner.interrupt) = Some(interrupt.clone());
        let (watcher, events) = event_channel();
        let mut request = inner.request.clone().watch(watcher).interrupt(&interrupt);
        request.code.clone_from(&order.code);
        request.dialect = Dialect::Ipython;
        request.uncounted = !is_stored;
        request.echo = Some(if order.silent {
            Echo::None
        } else {
            Echo::Display
        });
        // Figures are sent to the notebook; their files would only take space.
        request.capture.figures = false;
        request.capture.dataframes = false;
        if order.allow_stdin.unwrap_or(true) {
            request = answering(request, inner, asked);
        }
        let running = session.run(request);
        let telling = tell(inner, asked, events, number);
        let (ran, mut done) = tokio::join!(running, telling);
        lock(&inner.interrupt).take();
        lock(&inner.inputs).remove(&asked.peer);
        let outcome = ran?;
        self.settle(inner, asked, &outcome, &mut done).await;
        // A session that was restored has lost the cell and its number.
        let report = outcome.session.as_ref();
        if is_stored && !report.is_some_and(|report| report.interpreter_restarted) {
            self.count.store(number, Ordering::Relaxed);
        }
        Ok(done)
    }

    /// Reports what the events of a run do not contain.
    async fn settle(&self, inner: &Inner, asked: &Asked, outcome: &Outcome, done: &mut Done) {
        let header = &asked.message.header;
        let report = outcome.session.as_ref();
        if let Some(reason) = report.and_then(|report| report.restart_reason.as_deref()) {
            let text = format!("belljar: the session is as it was before this cell: {reason}\n");
            inner.publish("stream", header, json!({"name": "stderr", "text": text})).await;
        }
        if done.error.is_none()
            && let (Some(line), Some(detail)) = (&outcome.error, &outcome.error_detail)
        {
            // It did not start, or its end was not reported.
            let content = described(line, detail);
            inner.publish("error", header, told(&content)).await;
            done.error = Some(content);
        }
    }

    /// Reports that code could not be run.
    async fn failed(&self, inner: &Inner, asked: &Asked, failure: &Failure) -> Value {
        let mut lines = vec![format!("{}: {failure}", failure.name)];
        lines.extend(failure.hint.iter().map(|hint| format!("hint: {hint}")));
        let mut content = error(&failure.name, &failure.text, &lines);
        inner.publish("error", &asked.message.header, told(&content)).await;
        content["execution_count"] = Value::from(self.number());
        content
    }
}

/// Adds the client that sent the code as the one to ask for `input()`.
fn answering(request: Request, inner: &Arc<Inner>, asked: &Asked) -> Request {
    let (inner, peer) = (Arc::clone(inner), asked.peer.clone());
    let header = asked.message.header.clone();
    request.answerer(move |prompt: String| {
        let (inner, peer, header) = (Arc::clone(&inner), peer.clone(), header.clone());
        async move {
            let (sender, line) = oneshot::channel();
            lock(&inner.inputs).insert(peer.clone(), sender);
            let content = json!({"prompt": prompt, "password": false});
            inner.send(Channel::Stdin, Some(peer), "input_request", &header, content).await;
            line.await.ok().flatten()
        }
    })
}

/// Sends the output of a run to all clients, until it has ended.
async fn tell(inner: &Inner, asked: &Asked, mut events: EventReader, number: u64) -> Done {
    let mut done = Done {
        error: None,
        result: None,
    };
    let header = &asked.message.header;
    let mut text = Text::default();
    loop {
        let event = match text.next(&mut events).await {
            Next::Event(event) => event,
            Next::Full => {
                text.publish(inner, header).await;
                continue;
            }
            Next::End => break,
        };
        let Err(kind) = text.take(event.kind) else {
            continue;
        };
        text.publish(inner, header).await;
        let Err(kind) = text.take(kind) else {
            continue;
        };
        let (kind, content) = match kind {
            EventKind::Display(display) => ("display_data", shown(display)),
            EventKind::UpdateDisplay(display) => ("update_display_data", shown(display)),
            EventKind::Result(display) => {
                let text = display.data.get("text/plain").and_then(Value::as_str);
                done.result = text.map(str::to_owned);
                let mut content = shown(display);
                content["execution_count"] = Value::from(number);
                ("execute_result", content)
            }
            EventKind::Clear { wait } => ("clear_output", json!({"wait": wait})),
            EventKind::Error { error, detail } => {
                let content = described(&error, &detail);
                let told = told(&content);
                done.error = Some(content);
                ("error", told)
            }
            EventKind::Dropped { events, bytes } => {
                let text = format!(
                    "belljar: {events} messages ({bytes} bytes) were dropped: they were not read in time\n"
                );
                ("stream", json!({"name": "stderr", "text": text}))
            }
            _ => continue,
        };
        inner.publish(kind, header, content).await;
    }
    text.publish(inner, header).await;
    done
}

fn shown(display: Display) -> Value {
    let mut transient = Map::new();
    if let Some(id) = display.display_id {
        transient.insert("display_id".to_owned(), id.into());
    }
    json!({"data": display.data, "metadata": display.metadata, "transient": transient})
}

/// An error in the form of a reply.
fn described(line: &str, detail: &ErrorDetail) -> Value {
    let mut lines: Vec<String> = match &detail.traceback {
        Some(text) => text.trim_end_matches('\n').split('\n').map(str::to_owned).collect(),
        None => vec![line.to_owned()],
    };
    let (name, value) = match detail.kind {
        // As Python calls it.
        ErrorKind::Interrupted => ("KeyboardInterrupt", ""),
        // The reason for stopping the code is more useful than the exception.
        ErrorKind::Timeout | ErrorKind::Fuel | ErrorKind::Output => {
            if detail.traceback.is_some() {
                lines.push(line.to_owned());
            }
            (&*detail.type_, &*detail.message)
        }
        _ => (&*detail.type_, &*detail.message),
    };
    lines.extend(detail.hint.iter().map(|hint| format!("hint: {hint}")));
    error(name, value, &lines)
}

/// An error in the form of the message `error`.
fn told(content: &Value) -> Value {
    json!({
        "ename": content["ename"],
        "evalue": content["evalue"],
        "traceback": content["traceback"],
    })
}

/// The values of expressions as text, or their exceptions.
async fn expressions(
    session: &dyn Guest,
    asked: BTreeMap<String, Value>,
    is_alone: bool,
) -> Map<String, Value> {
    let texts: BTreeMap<String, String> = asked
        .into_iter()
        .filter_map(|(name, expression)| {
            // On separate lines, so that a comment at the end of the expression hides nothing.
            let text = format!("__import__('builtins').repr((\n{}\n))", expression.as_str()?);
            Some((name, text))
        })
        .collect();
    if texts.is_empty() {
        return Map::new();
    }
    let names: Vec<String> = texts.keys().cloned().collect();
    match session.evaluate(texts, is_alone).await {
        Ok(values) => values.into_iter().map(|(name, value)| (name, expressed(value))).collect(),
        Err(failure) => {
            let content = error(&failure.name, &failure.text, &[]);
            names.into_iter().map(|name| (name, content.clone())).collect()
        }
    }
}

fn expressed(value: Result<Typed, String>) -> Value {
    match value {
        Ok(Typed::Str(text)) => {
            json!({"status": "ok", "data": {"text/plain": text}, "metadata": {}})
        }
        Ok(_) => error("ValueError", "its text is too long", &[]),
        Err(line) => {
            let (name, value) = line.split_once(": ").unwrap_or((&line, ""));
            error(name, value, std::slice::from_ref(&line))
        }
    }
}

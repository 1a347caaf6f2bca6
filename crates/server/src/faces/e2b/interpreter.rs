//! The code interpreter: runs code in a context and streams its results as lines.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::body::{Body, Bytes};
use axum::extract::{Extension, Path, Request as HttpRequest};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use belljar::event::{Display, EventKind, EventReader, event_channel};
use belljar::outcome::ErrorDetail;
use belljar::request::{Capture, Dialect, Echo};
use belljar::{Interrupt, Outcome, Request};
use chrono::{SecondsFormat, Utc};
use serde::Serialize;
use serde_json::{Map, Value};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;

use super::contexts::{Ran, Turn, Waits};
use super::fault::{Fault, gone};
use super::paths::{self, Place};
use super::record::Context;
use super::registry::Sandboxes;
use super::sandbox::Sandbox;
use super::target::{Open, Served, json_body};
use super::wire::{ContextInfo, Execute, NewContext};
use crate::http::identity;
use crate::service::guest_work::detached;

/// Interval of keep-alive lines while the code is silent.
const KEEPALIVE: Duration = Duration::from_secs(5);
/// Time after which the response starts even if the execution still waits for its turn.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long complete lines wait for more text of the same stream.
const LINE_TIME: Duration = Duration::from_millis(1);
/// How long an incomplete line waits for its end: `print` writes the line break separately.
const TEXT_TIME: Duration = Duration::from_millis(10);
/// Text of this size is sent at once, in bytes.
const MAX_TEXT: usize = 64 << 10;
/// How long a slow client has to read what is left after its sandbox is killed.
const BREAK_TIME: Duration = Duration::from_secs(1);
/// Maximum number of lines queued for the client.
const MAX_LINES: usize = 4;

type Lines = mpsc::Sender<io::Result<Bytes>>;

/// `POST /execute`.
pub(super) async fn execute(
    Open(sandbox): Open,
    Extension(all): Extension<Arc<Sandboxes>>,
    request: HttpRequest,
) -> Result<Response, Fault> {
    let asked: Execute = json_body(&sandbox.owner, request).await?;
    let env = asked.env_vars.iter().flatten().map(|(name, value)| name.len() + value.len());
    let place = all.waiting.enter(&sandbox.owner, asked.code.len() + env.sum::<usize>())?;
    if asked.context_id.is_some() && asked.language.is_some() {
        return Err(Fault::invalid("Only one of context_id or language can be provided"));
    }
    check_language(asked.language.as_deref())?;
    let context = sandbox.context(asked.context_id.as_deref()).await?;
    let mut request = sandbox
        .request(if asked.code.trim().is_empty() {
            "pass".into()
        } else {
            asked.code
        })
        .dialect(Dialect::Ipython)
        .echo(Echo::Display)
        .capture(Capture::default().figures(false).dataframes(false).charts(true));
    request.run_env = asked.env_vars.unwrap_or_default();
    // The sandbox of a store may have ended; check if its session is still here.
    if let Ok(session) = sandbox.service().find(&sandbox.owner, &context.session()) {
        session.view().validate(&request)?;
    }

    let (lines, waiting) = mpsc::channel(MAX_LINES);
    let (began, begins) = oneshot::channel();
    let work = run(place, sandbox, asked.context_id, context, request, lines, began);
    tokio::spawn(identity::carried(work));
    match tokio::time::timeout(PATIENCE, begins).await {
        Ok(Ok(Err(fault))) => return Err(fault),
        Ok(Err(_)) => {
            return Err(Fault::new(StatusCode::INTERNAL_SERVER_ERROR, "the execution ended"));
        }
        Ok(Ok(Ok(()))) | Err(_) => {}
    }
    let mut response = Response::new(Body::from_stream(ReceiverStream::new(waiting)));
    let kind = HeaderValue::from_static("application/x-ndjson");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    Ok(response)
}

/// Waits for the turn, then runs the code to its end. Stops waiting if the client disconnects.
async fn run(
    place: Waits,
    sandbox: Arc<Sandbox>,
    named: Option<String>,
    context: Arc<Context>,
    request: Request,
    lines: Lines,
    began: oneshot::Sender<Result<(), Fault>>,
) {
    let mut execution = Execution {
        lines,
        began: Some(began),
        interrupt: Interrupt::new(),
        killed: sandbox.killed.clone(),
        text: None,
    };
    let turn = tokio::select! {
        turn = sandbox.turn_to_run(&context) => turn,
        // The client has disconnected, so the run does not start.
        () = execution.lines.closed() => return,
    };
    let ready = match turn {
        Ok(turn) => ready(&sandbox, turn, named.as_deref(), context).await,
        Err(fault) => Err(fault),
    };
    let (mut turn, context) = match ready {
        Ok(ready) => ready,
        Err(fault) => return execution.refuse(fault).await,
    };
    drop(place);
    context.set_running(Some(execution.interrupt.clone()));
    let went = execution.go(&sandbox, &context, &mut turn, request).await;
    context.set_running(None);
    let ended = match went {
        Ok((at, ran)) => {
            let is_kept = ran.as_ref().is_ok_and(|outcome| {
                !outcome.session.as_ref().is_some_and(|session| session.interpreter_restarted)
            });
            if is_kept {
                context.set_env(&sandbox.config);
            }
            let ended = sandbox.ran(turn, at, &ran).await;
            if ended.is_err() {
                // Another server may have ended the sandbox.
                let _ = sandbox.refresh().await;
            }
            ran.map_err(Fault::from).and_then(|outcome| ended.map(|()| outcome))
        }
        Err(fault) => Err(fault),
    };
    match ended {
        _ if sandbox.killed.is_cancelled() => execution.break_off().await,
        Ok(outcome) => {
            let lost = outcome.session.and_then(|session| session.restart_reason);
            // Variables that were lost when another server of the store stopped.
            if let Some(lost) = lost.filter(|_| sandbox.is_shared()) {
                execution.send(Line::stderr(format!("{lost}\n"))).await;
            }
            execution.send(Line::EndOfExecution).await;
        }
        Err(fault) => execution.refuse(fault).await,
    }
}

/// Gives the files to a context, if the sandbox has not changed since the request arrived.
async fn ready(
    sandbox: &Sandbox,
    mut turn: Turn,
    named: Option<&str>,
    context: Arc<Context>,
) -> Result<(Turn, Arc<Context>), Fault> {
    // The sandbox may have been paused in the meantime.
    if !sandbox.is_usable() {
        return Err(gone());
    }
    let context = if sandbox.is_shared() {
        // Another server may have removed the requested context.
        sandbox.context(named).await?
    } else {
        context
    };
    sandbox.hand_over(&mut turn, &context).await?;
    Ok((turn, context))
}

/// An execution and the client that reads its lines.
struct Execution {
    lines: Lines,
    began: Option<oneshot::Sender<Result<(), Fault>>>,
    interrupt: Interrupt,
    killed: CancellationToken,
    /// Text not sent yet, and when it must be sent.
    text: Option<(Line, Instant)>,
}

impl Execution {
    async fn go(
        &mut self,
        sandbox: &Sandbox,
        context: &Context,
        turn: &mut Turn,
        request: Request,
    ) -> Result<Ran, Fault> {
        let (watcher, mut events) = event_channel();
        let request =
            context.with_env(request, &sandbox.config).watch(watcher).interrupt(&self.interrupt);
        let mut run = std::pin::pin!(sandbox.run(turn, request)?);
        let mut alive = tokio::time::interval_at(Instant::now() + KEEPALIVE, KEEPALIVE);
        let mut has_begun = false;
        loop {
            tokio::select! {
                biased;
                () = sandbox.killed.cancelled() => {
                    self.break_off().await;
                    self.interrupt.interrupt();
                    // The client has disconnected; the run ends by itself.
                    return Ok(run.await);
                }
                Some(event) = events.next() => {
                    if !has_begun {
                        has_begun = true;
                        self.begin(context).await;
                    }
                    if let Some(line) = Line::of(event.kind) {
                        self.add(line).await;
                    }
                }
                ended = &mut run => {
                    if let (_, Ok(outcome)) = &ended {
                        self.finish(context, events, has_begun, outcome).await;
                    }
                    return Ok(ended);
                }
                () = until(self.text.as_ref().map(|(_, end)| *end)) => self.flush().await,
                _ = alive.tick() => self.send(Line::Keepalive).await,
                () = self.lines.closed(), if !self.interrupt.is_interrupted() => {
                    self.interrupt.interrupt();
                }
            }
        }
    }

    /// Sends the remaining lines after a run has ended.
    async fn finish(
        &mut self,
        context: &Context,
        mut events: EventReader,
        has_begun: bool,
        outcome: &Outcome,
    ) {
        if !has_begun {
            self.begin(context).await;
        }
        let mut has_failed = false;
        while let Some(event) = events.next().await {
            if let Some(line) = Line::of(event.kind) {
                has_failed |= matches!(line, Line::Error { .. });
                self.add(line).await;
            }
        }
        // A run that could not start has no events.
        if let (false, false, Some(error), Some(detail)) =
            (has_begun, has_failed, &outcome.error, &outcome.error_detail)
        {
            self.send(Line::failed(error.clone(), detail.clone())).await;
        }
    }

    async fn begin(&mut self, context: &Context) {
        self.answer(Ok(()));
        self.send(Line::NumberOfExecutions {
            execution_count: context.count(),
        })
        .await;
    }

    /// Sends the start of the response. Returns false if it was already sent.
    fn answer(&mut self, answer: Result<(), Fault>) -> bool {
        self.began.take().is_some_and(|began| began.send(answer).is_ok())
    }

    /// Reports an error: as the whole response, or inside it if it has started.
    async fn refuse(&mut self, fault: Fault) {
        if self.answer(Err(fault.clone())) {
            return;
        }
        let Fault { message, .. } = fault;
        self.send(Line::Error {
            name: "SandboxError".into(),
            traceback: message.clone(),
            value: message,
        })
        .await;
        self.send(Line::EndOfExecution).await;
    }

    /// Aborts the response, as if the machine had stopped.
    async fn break_off(&mut self) {
        if !self.answer(Err(gone())) {
            let broken = io::Error::new(io::ErrorKind::ConnectionReset, "the sandbox was killed");
            // A client that does not read is not informed.
            let _ = tokio::time::timeout(BREAK_TIME, self.lines.send(Err(broken))).await;
        }
    }

    /// Sends a line, or holds text back briefly to merge it with more.
    async fn add(&mut self, line: Line) {
        if let Some((text, end)) = &mut self.text {
            match text.join(line) {
                Ok(bytes) if bytes < MAX_TEXT => *end = (*end).min(text.waits()),
                Ok(_) => self.flush().await,
                Err(line) => {
                    self.flush().await;
                    Box::pin(self.add(line)).await;
                }
            }
        } else if line.is_text() {
            let end = line.waits();
            self.text = Some((line, end));
        } else {
            self.send(line).await;
        }
    }

    async fn flush(&mut self) {
        if let Some((text, _)) = self.text.take() {
            self.write(text).await;
        }
    }

    async fn send(&mut self, line: Line) {
        self.flush().await;
        self.write(line).await;
    }

    async fn write(&mut self, line: Line) {
        let sent = tokio::select! {
            sent = self.lines.send(Ok(line.to_bytes())) => sent.is_ok(),
            () = self.killed.cancelled() => false,
        };
        if !sent {
            self.interrupt.interrupt();
        }
    }
}

impl Line {
    /// How long the text is held back for more.
    fn waits(&self) -> Instant {
        Instant::now()
            + if self.is_whole() {
                LINE_TIME
            } else {
                TEXT_TIME
            }
    }
}

/// Waits until `end`, or forever.
async fn until(end: Option<Instant>) {
    match end {
        Some(end) => tokio::time::sleep_until(end).await,
        None => std::future::pending().await,
    }
}

/// `GET /contexts`.
pub(super) async fn contexts(Served(sandbox): Served) -> Json<Vec<ContextInfo>> {
    Json(sandbox.context_infos())
}

/// `POST /contexts`.
pub(super) async fn new_context(
    Served(sandbox): Served,
    request: HttpRequest,
) -> Result<Json<ContextInfo>, Fault> {
    let asked: NewContext = json_body(&sandbox.owner, request).await?;
    check_language(asked.language.as_deref())?;
    let cwd = match paths::place(asked.cwd.as_deref().unwrap_or(paths::HOME))? {
        Place::Inside(inside) => inside.absolute(),
        Place::Outside(path) => {
            let message = format!("directory {path} is outside the sandbox: use {}", paths::PLACES);
            return Err(Fault::invalid(message));
        }
    };
    let context = detached(async move { sandbox.add_context(&cwd).await }).await?;
    Ok(Json(context.info()))
}

/// `POST /contexts/{id}/restart`.
pub(super) async fn restart_context(
    Served(sandbox): Served,
    Path(id): Path<String>,
) -> Result<Json<()>, Fault> {
    detached(async move { sandbox.restart_context(&id).await }).await?;
    Ok(Json(()))
}

/// `DELETE /contexts/{id}`.
pub(super) async fn remove_context(
    Served(sandbox): Served,
    Path(id): Path<String>,
) -> Result<Json<()>, Fault> {
    detached(async move { sandbox.remove_context(&id).await }).await?;
    Ok(Json(()))
}

fn check_language(language: Option<&str>) -> Result<(), Fault> {
    match language {
        None | Some("" | "python" | "python3") => Ok(()),
        Some(other) => {
            Err(Fault::invalid(format!("language {other} is not supported; only Python is")))
        }
    }
}

/// One line of the response of `/execute`.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Line {
    NumberOfExecutions {
        execution_count: u64,
    },
    Stdout {
        text: String,
        timestamp: String,
    },
    Stderr {
        text: String,
        timestamp: String,
    },
    Result(Box<Shown>),
    Error {
        name: String,
        value: String,
        traceback: String,
    },
    Keepalive,
    EndOfExecution,
}

/// A value in all its MIME types.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(super) struct Shown {
    text: Option<Value>,
    is_main_result: bool,
    extra: Map<String, Value>,
    html: Option<Value>,
    markdown: Option<Value>,
    svg: Option<Value>,
    png: Option<Value>,
    jpeg: Option<Value>,
    pdf: Option<Value>,
    latex: Option<Value>,
    json: Option<Value>,
    javascript: Option<Value>,
    data: Option<Value>,
    chart: Option<Value>,
}

impl Line {
    /// Converts an event; `None` for updates and removals of displays, which E2B does not have.
    pub(super) fn of(event: EventKind) -> Option<Self> {
        Some(match event {
            EventKind::Stdout { text } => Self::Stdout {
                text,
                timestamp: now(),
            },
            EventKind::Stderr { text } => Self::stderr(text),
            EventKind::Display(display) => Self::Result(Box::new(Shown::of(display, false))),
            EventKind::Result(display) => Self::Result(Box::new(Shown::of(display, true))),
            EventKind::Error { error, detail } => Self::failed(error, detail),
            EventKind::Dropped { events, bytes } => Self::stderr(format!(
                "[{events} lines, {bytes} bytes, are missing here: the client did not read them in time]\n"
            )),
            _ => return None,
        })
    }

    /// Whether this is text of a stream.
    pub(super) fn is_text(&self) -> bool {
        matches!(self, Self::Stdout { .. } | Self::Stderr { .. })
    }

    /// Whether this is anything but an incomplete line of text.
    pub(super) fn is_whole(&self) -> bool {
        match self {
            Self::Stdout { text, .. } | Self::Stderr { text, .. } => text.ends_with('\n'),
            _ => true,
        }
    }

    /// Appends text of the same stream and returns the total length. Returns anything else.
    pub(super) fn join(&mut self, next: Self) -> Result<usize, Self> {
        match (self, next) {
            (Self::Stdout { text, .. }, Self::Stdout { text: more, .. })
            | (Self::Stderr { text, .. }, Self::Stderr { text: more, .. }) => {
                text.push_str(&more);
                Ok(text.len())
            }
            (_, next) => Err(next),
        }
    }

    pub(super) fn stderr(text: String) -> Self {
        Self::Stderr {
            text,
            timestamp: now(),
        }
    }

    pub(super) fn failed(error: String, detail: ErrorDetail) -> Self {
        let ErrorDetail {
            type_,
            message,
            traceback,
            hint,
            ..
        } = detail;
        let mut traceback = traceback.unwrap_or(error);
        if let Some(hint) = hint {
            traceback = format!("{}\nhint: {hint}\n", traceback.trim_end());
        }
        Self::Error {
            name: type_,
            value: message,
            traceback,
        }
    }

    /// Encodes the line as ASCII only, because clients may decode each network chunk separately.
    pub(super) fn to_bytes(&self) -> Bytes {
        let text = serde_json::to_string(self).unwrap_or_else(|_| r#"{"type":"keepalive"}"#.into());
        let mut line = Vec::with_capacity(text.len() + 1);
        if text.is_ascii() {
            line.extend(text.as_bytes());
        } else {
            for character in text.chars() {
                if character.is_ascii() {
                    line.push(character as u8);
                } else {
                    for unit in character.encode_utf16(&mut [0; 2]) {
                        line.extend(format!("\\u{unit:04x}").bytes());
                    }
                }
            }
        }
        line.push(b'\n');
        line.into()
    }
}

impl Shown {
    fn of(display: Display, is_main_result: bool) -> Self {
        let mut forms = display.data;
        let mut take = |form: &str| forms.shift_remove(form);
        let text = take("text/plain").map(unquoted);
        let mut shown = Self {
            text,
            is_main_result,
            html: take("text/html"),
            markdown: take("text/markdown"),
            svg: take("image/svg+xml"),
            png: take("image/png"),
            jpeg: take("image/jpeg"),
            pdf: take("application/pdf"),
            latex: take("text/latex"),
            json: take("application/json"),
            javascript: take("application/javascript"),
            data: take("application/vnd.belljar.columns+json"),
            chart: take("application/vnd.belljar.chart+json"),
            extra: Map::new(),
        };
        shown.extra = forms;
        shown
    }
}

/// Removes the quotes that `repr` puts around a string, as E2B's interpreter does.
fn unquoted(text: Value) -> Value {
    let Value::String(text) = text else {
        return text;
    };
    let inside =
        ['\'', '"'].iter().find_map(|quote| text.strip_prefix(*quote)?.strip_suffix(*quote));
    Value::String(inside.map(str::to_owned).unwrap_or(text))
}

fn now() -> String {
    Utc::now().to_rfc3339_opts(SecondsFormat::Micros, false)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn display(data: impl Into<Value>) -> Display {
        let data: Value = data.into();
        serde_json::from_value(json!({ "data": data })).unwrap()
    }

    #[test]
    fn forms_have_the_names_that_clients_know() {
        let data = json!({
            "text/plain": "'a'", "text/html": "<b>", "image/png": "iVBO", "application/json": [1],
            "application/vnd.belljar.chart+json": {"type": "line"},
            "application/vnd.belljar.columns+json": {"a": [1]},
            "application/vnd.plotly.v1+json": {"data": []},
        });
        let line = Line::of(EventKind::Result(display(data))).unwrap();
        let line: Value = serde_json::from_slice(&line.to_bytes()).unwrap();
        assert_eq!(line["type"], "result");
        assert_eq!((&line["text"], &line["is_main_result"]), (&json!("a"), &json!(true)));
        assert_eq!(
            (&line["html"], &line["png"], &line["latex"]),
            (&json!("<b>"), &json!("iVBO"), &Value::Null)
        );
        assert_eq!((&line["json"], &line["data"]), (&json!([1]), &json!({"a": [1]})));
        assert_eq!(line["chart"], json!({"type": "line"}));
        assert_eq!(line["extra"], json!({"application/vnd.plotly.v1+json": {"data": []}}));
    }

    #[test]
    fn quotes_go_only_in_pairs() {
        for (text, expected) in
            [("'", "'"), ("''", ""), ("\"it's\"", "it's"), ("'a", "'a"), ("'a\"", "'a\"")]
        {
            assert_eq!(unquoted(text.into()), Value::from(expected), "{text}");
        }
    }

    #[test]
    fn what_no_client_knows_is_no_line() {
        assert_eq!(Line::of(EventKind::Clear { wait: true }), None);
        assert_eq!(Line::of(EventKind::Started), None);
    }

    proptest! {
        #[test]
        fn a_line_is_one_line_of_ascii(text in ".{0,80}") {
            let line = Line::Stdout { text: text.clone(), timestamp: String::new() };
            let bytes = line.to_bytes();
            prop_assert!(bytes.is_ascii());
            prop_assert_eq!(bytes.split(|byte| *byte == b'\n').count(), 2);
            let read: Value = serde_json::from_slice(&bytes).unwrap();
            prop_assert_eq!(read["text"].as_str().unwrap(), text);
        }
    }
}

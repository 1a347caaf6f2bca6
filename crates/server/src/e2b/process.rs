//! Processes, of which there are none: a few commands are answered as if there were.

use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::{Path, Request};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use belljar::{ErrorKind, Event, EventKind, Interrupt, Outcome, event_channel};
use bytes::Bytes;
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::convert::Infallible;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

use super::commands::Command;
use super::envelope::{self, MAX_MESSAGE};
use super::fault::Fault;
use super::paths::{self, HOME};
use super::sandbox::Sandbox;
use super::target::{Open, body};
use crate::service::anywhere::Use;
use crate::service::owner::Owner;

const NONE: &str = "there are no processes in this sandbox; use run_code";
/// Messages that wait for the client.
const MAX_MESSAGES: usize = 64;

#[derive(Debug, Deserialize)]
struct Start {
    process: Config,
}

#[derive(Debug, Deserialize)]
struct Config {
    #[serde(default)]
    cmd: String,
    #[serde(default)]
    args: Vec<String>,
    #[serde(default)]
    envs: BTreeMap<String, String>,
    #[serde(default)]
    cwd: Option<String>,
}

/// `POST /process.Process/{method}`, but `Start`.
pub(super) async fn call(sandbox: Result<Open, Fault>, Path(method): Path<String>) -> Response {
    match (sandbox, method.as_str()) {
        (Err(fault), _) => fault.into_connect(),
        (Ok(_), "List") => Json(json!({"processes": []})).into_response(),
        (
            Ok(_),
            "SendSignal" | "SendInput" | "CloseStdin" | "Update" | "Connect" | "StreamInput",
        ) => Fault::not_found("there is no such process").into_connect(),
        (Ok(_), _) => Fault::new(StatusCode::NOT_IMPLEMENTED, NONE).into_connect(),
    }
}

/// `POST /process.Process/Start`.
pub(super) async fn start(sandbox: Result<Open, Fault>, request: Request) -> Response {
    let begun = async {
        let Open(sandbox) = sandbox?;
        let start = read(&sandbox.owner, request).await?;
        let command = Command::of(&start.process.cmd, &start.process.args)
            .ok_or_else(|| Fault::new(StatusCode::NOT_IMPLEMENTED, NONE))?;
        let mut request = command.into_request(sandbox.request(String::new()));
        request.run_env = start.process.envs;
        let cwd = paths::existing(start.process.cwd.as_deref().unwrap_or(HOME))?;
        request.cwd = Some(cwd.absolute());
        Ok((sandbox, request))
    };
    let body = match begun.await {
        Ok((sandbox, request)) => {
            let (messages, waiting) = mpsc::channel(MAX_MESSAGES);
            tokio::spawn(run(sandbox, request, messages));
            Body::from_stream(ReceiverStream::new(waiting))
        }
        Err(fault) => Body::from(envelope::end(Some(&fault))),
    };
    let mut response = Response::new(body);
    let kind = HeaderValue::from_static("application/connect+json");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

/// Whether a message is the beginning of a process, as it has to be.
pub(super) fn is_start(message: &[u8]) -> bool {
    serde_json::from_slice::<Start>(message).is_ok()
}

async fn read(owner: &Owner, request: Request) -> Result<Start, Fault> {
    let body = body(owner, request, MAX_MESSAGE + 64).await?;
    let message = envelope::first_message(&body).map(<[u8]>::to_vec)?;
    serde_json::from_slice(&message)
        .map_err(|error| Fault::invalid(format!("the message is not as it has to be: {error}")))
}

type Messages = mpsc::Sender<Result<Bytes, Infallible>>;

/// Runs a command in an interpreter of its own, on the sandbox's files.
async fn run(sandbox: Arc<Sandbox>, request: belljar::Request, messages: Messages) {
    let send = async |content: Value| {
        let _ = messages.send(Ok(envelope::message(&json!({ "event": content })))).await;
    };
    let number = sandbox.next();
    send(json!({"start": {"pid": number}})).await;
    let interrupt = Interrupt::new();
    let (watcher, mut events) = event_channel();
    let request = sandbox.with_env(request).watch(watcher).interrupt(&interrupt);
    let execution = execute(&sandbox, request);
    let mut execution = std::pin::pin!(execution);
    let ended = loop {
        tokio::select! {
            biased;
            Some(event) = events.next() => {
                if let Some(data) = data(event) {
                    send(json!({ "data": data })).await;
                }
            }
            ended = &mut execution => break ended,
            () = messages.closed(), if !interrupt.is_interrupted() => interrupt.interrupt(),
            () = sandbox.killed.cancelled(), if !interrupt.is_interrupted() => interrupt.interrupt(),
        }
    };
    while let Some(event) = events.next().await {
        if let Some(data) = data(event) {
            send(json!({ "data": data })).await;
        }
    }
    let fault = match ended {
        Ok(outcome) => {
            let code = exit_code(&outcome);
            let status = format!("exit status {code}");
            send(json!({"end": {"exitCode": code, "exited": true, "status": status}})).await;
            None
        }
        Err(fault) => Some(fault),
    };
    let _ = messages.send(Ok(envelope::end(fault.as_ref()))).await;
}

async fn execute(sandbox: &Sandbox, request: belljar::Request) -> Result<Outcome, Fault> {
    let turn = sandbox.turn(Use::Change).await?;
    let held = sandbox.fresh(HOME).await?;
    let ran = async {
        let at = sandbox.service().at_hand(&sandbox.owner, held.id(), Use::Run).await?;
        at.session().workspace().replace_with(&turn.files()?).await?;
        let outcome = sandbox.service().run_at(&sandbox.owner, at, request).await?;
        let is_other = turn.files()?.replace_with(&held.session().workspace()).await?;
        Ok((outcome, is_other))
    };
    let ran: Result<_, Fault> = ran.await;
    sandbox.remove_session(held.id()).await;
    match ran {
        Ok((outcome, true)) => sandbox.done(turn).await.map(|()| outcome),
        ran => {
            turn.leave().await?;
            ran.map(|(outcome, _)| outcome)
        }
    }
}

/// What an event adds to one of the streams.
fn data(event: Event) -> Option<Value> {
    match event.kind {
        EventKind::Stdout { text } => Some(json!({"stdout": STANDARD.encode(text)})),
        EventKind::Stderr { text } => Some(json!({"stderr": STANDARD.encode(text)})),
        EventKind::Display(display) | EventKind::Result(display) => {
            let text = display.data.get("text/plain")?.as_str()?;
            Some(json!({"stdout": STANDARD.encode(format!("{text}\n"))}))
        }
        EventKind::Error { error, detail } if detail.kind != ErrorKind::Exit => {
            let text = detail.traceback.unwrap_or(error);
            Some(json!({"stderr": STANDARD.encode(format!("{}\n", text.trim_end()))}))
        }
        _ => None,
    }
}

/// What a process with that outcome would have exited with.
fn exit_code(outcome: &Outcome) -> i64 {
    match &outcome.error_detail {
        None => 0,
        Some(detail) => match (detail.kind, detail.exit_status) {
            (ErrorKind::Exit, Some(status)) => status,
            (ErrorKind::Interrupted, _) => 130,
            _ => 1,
        },
    }
}

//! Commands: those that need no process are answered by an interpreter of their own.

use std::time::Duration;

use axum::Json;
use axum::body::Body;
use axum::extract::{Path, Request};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

use super::commands::Command;
use super::envelope::{self, MAX_MESSAGE};
use super::execution;
use super::fault::Fault;
use super::paths::{self, HOME};
use super::processes::{Config, Message, Selector};
use super::sandbox::Sandbox;
use super::target::{Open, body, json_body};
use crate::service::owner::Owner;

const NONE: &str = "there are no processes in this sandbox; use run_code";

#[derive(Debug, Deserialize)]
struct Start {
    process: Config,
    #[serde(default)]
    tag: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Selected {
    process: Selector,
}

#[derive(Debug, Default, Deserialize)]
struct Asked {
    #[serde(default)]
    process: Selector,
    #[serde(default)]
    signal: Value,
}

/// `POST /process.Process/{method}`, but those that answer with a stream.
pub(super) async fn call(
    sandbox: Result<Open, Fault>,
    Path(method): Path<String>,
    request: Request,
) -> Response {
    let answered = async {
        let Open(sandbox) = sandbox?;
        answer(&sandbox, &method, request).await
    };
    match answered.await {
        Ok(answer) => Json(answer).into_response(),
        Err(fault) => fault.into_connect(),
    }
}

async fn answer(sandbox: &Sandbox, method: &str, request: Request) -> Result<Value, Fault> {
    let unimplemented = |message: &str| Fault::new(StatusCode::NOT_IMPLEMENTED, message);
    match method {
        "List" => Ok(sandbox.processes.list()),
        "SendSignal" => {
            let asked: Asked = json_body(&sandbox.owner, request).await?;
            let process = sandbox.processes.find(&asked.process)?;
            match &asked.signal {
                Value::String(name) if name == "SIGNAL_SIGKILL" || name == "SIGNAL_SIGTERM" => {}
                Value::Number(number) if matches!(number.as_u64(), Some(9 | 15)) => {}
                other => {
                    return Err(Fault::invalid(format!(
                        "{other} is no signal that ends a command"
                    )));
                }
            }
            process.kill();
            Ok(json!({}))
        }
        "SendInput" | "CloseStdin" | "Update" => {
            let asked: Asked = json_body(&sandbox.owner, request).await?;
            sandbox.processes.find(&asked.process)?;
            Err(unimplemented("a command has no standard input and no terminal here"))
        }
        _ => Err(unimplemented(NONE)),
    }
}

/// `POST /process.Process/StreamInput`.
pub(super) async fn stream_input(sandbox: Result<Open, Fault>) -> Response {
    let fault = sandbox.map(|_| "a command has no standard input here");
    stream(fault.and_then(|why| Err(Fault::new(StatusCode::NOT_IMPLEMENTED, why))))
}

/// `POST /process.Process/Connect`.
pub(super) async fn connect(sandbox: Result<Open, Fault>, request: Request) -> Response {
    let followed = async {
        let Open(sandbox) = sandbox?;
        let asked: Selected = first(&sandbox.owner, request).await?;
        sandbox.processes.find(&asked.process)?.follow()
    };
    stream(followed.await)
}

/// `POST /process.Process/Start`.
pub(super) async fn start(sandbox: Result<Open, Fault>, request: Request) -> Response {
    let begun = async {
        let Open(sandbox) = sandbox?;
        let time = time(request.headers());
        let Start { process, tag } = first(&sandbox.owner, request).await?;
        let command = Command::of(&process.cmd, &process.args)
            .ok_or_else(|| Fault::new(StatusCode::NOT_IMPLEMENTED, NONE))?;
        let mut request = command.into_request(sandbox.request(String::new()));
        request.run_env.clone_from(&process.envs);
        let cwd = paths::existing(process.cwd.as_deref().unwrap_or(HOME))?;
        request.cwd = Some(cwd.absolute());
        let listed = sandbox.processes.add(sandbox.next(), process, tag)?;
        let messages = listed.process.follow()?;
        tokio::spawn(execution::run(sandbox, listed, request, time));
        Ok(messages)
    };
    stream(begun.await)
}

/// Whether a message is the beginning of a process, as it has to be.
pub(super) fn is_start(message: &[u8]) -> bool {
    serde_json::from_slice::<Start>(message).is_ok()
}

/// How long a client lets a command run: it is ended then, whether anybody follows it or not.
fn time(headers: &HeaderMap) -> Option<Duration> {
    let millis = headers.get("connect-timeout-ms")?.to_str().ok()?.parse().ok()?;
    Some(Duration::from_millis(millis)).filter(|time| !time.is_zero())
}

/// The first message of a call that is answered with a stream.
pub(super) async fn first<T: DeserializeOwned>(
    owner: &Owner,
    request: Request,
) -> Result<T, Fault> {
    let body = body(owner, request, MAX_MESSAGE + 64).await?;
    serde_json::from_slice(envelope::first_message(&body)?)
        .map_err(|error| Fault::invalid(format!("the message is not as it has to be: {error}")))
}

/// The answer of a call that is answered with a stream.
pub(super) fn stream(messages: Result<mpsc::Receiver<Message>, Fault>) -> Response {
    let body = match messages {
        Ok(messages) => Body::from_stream(ReceiverStream::new(messages)),
        Err(fault) => Body::from(envelope::end(Some(&fault))),
    };
    let mut response = Response::new(body);
    let kind = HeaderValue::from_static("application/connect+json");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

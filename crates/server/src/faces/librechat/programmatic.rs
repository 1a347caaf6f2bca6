//! `/exec/programmatic`: code that calls the client's tools over several requests.
//!
//! The code is a session's run with deferred tools. When it waits, the client receives the calls
//! and a token, and continues the run by sending the answers. The token is the session's name. It
//! cannot be guessed, and is valid only for its owner. An abandoned session ends with its lease.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Extension, Json, Router};
use belljar::outcome::{ErrorKind, FileEntry, Truncated};
use belljar::session::{LeaseEnd, SessionFiles};
use belljar::tool::{ToolAnswer, WaitingCall};
use belljar::{Error, Outcome, Request, SessionOptions};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;

use super::cancelling::{Requests, Running};
use super::exec::{Answer, Inputs, capture, collect, left};
use super::names::{self, AskedTool, Named};
use super::store::{FileRef, Store, Written, new_id};
use super::{DATA, LibreChat, Shared, broken, error_response, failed};
use crate::faces::process::{self, Ending};
use crate::http::app::App;
use crate::http::authenticated::AuthenticatedJson;
use crate::service::cache;
use crate::service::error::ServiceError;
use crate::service::owned_session::{NewSession, OwnedSession};
use crate::service::owner::Owner;
use crate::service::session_store::Access;
use crate::service::temporary::TemporarySession;

/// How long a session waits for the client's answers.
const PATIENCE: Duration = Duration::from_mins(15);

/// Bytes of a file copied at a time.
const PIECE: u64 = 1 << 20;

/// The header with an id for cancelling the request.
const REQUEST_ID: &str = "x-librechat-code-request-id";

/// Prefix of the names of these sessions.
const PREFIX: &str = "ptc-";

pub(super) fn routes() -> Router<App> {
    Router::new()
        .route("/exec/programmatic", post(programmatic))
        .route("/exec/programmatic/cancel", post(cancel))
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Asked {
    GoOn {
        continuation_token: String,
        #[serde(default)]
        tool_results: Vec<ToolResult>,
    },
    Begin(Program),
}

#[derive(Deserialize)]
struct Program {
    code: String,
    #[serde(default)]
    tools: Vec<AskedTool>,
    /// Milliseconds.
    #[serde(default)]
    timeout: Option<f64>,
    #[serde(default)]
    files: Option<Vec<FileRef>>,
    #[serde(default, alias = "lang")]
    language: Option<String>,
}

#[derive(Deserialize)]
struct ToolResult {
    call_id: String,
    #[serde(default)]
    result: Value,
    #[serde(default)]
    is_error: bool,
    #[serde(default)]
    error_message: Option<String>,
}

#[derive(Deserialize)]
struct Cancelled {
    #[serde(default)]
    request_id: Value,
}

/// Data about a session, kept while the client may continue it. After a server restart, the
/// sessions still exist but this data is lost.
#[derive(Default)]
struct Memory {
    /// The storage session of its files.
    files: String,
    /// Its input files as JSON.
    inputs: String,
    names: Vec<Named>,
    /// Whether a request is answering its calls.
    is_answered: AtomicBool,
}

impl cache::Cached for Memory {
    const TIME: Duration = PATIENCE;
    const RENEWED_BY_USE: bool = true;
    const MAX: usize = 1_000;

    fn memory(&self) -> u64 {
        let text = |named: &Named| {
            size_of::<Named>() + named.original.len() + named.tool.len() + named.identifier.len()
        };
        let names: usize = self.names.iter().map(text).sum();
        (self.files.len() + self.inputs.len() + names) as u64
    }
}

/// The exclusive right to answer a session's calls.
struct Answering(Arc<Memory>);

async fn programmatic(
    State(app): State<App>,
    Extension(kept): Extension<Arc<Shared>>,
    headers: HeaderMap,
    AuthenticatedJson { owner, body, .. }: AuthenticatedJson<LibreChat, Value>,
) -> Result<Response, Response> {
    let running = running(&app, &kept.requests, &owner, &headers);
    let running = running.map_err(|(status, message)| error_response(status, message))?;
    let is_first = body["continuation_token"].as_str().is_none_or(str::is_empty);
    let asked =
        read(body, is_first).map_err(|message| error_response(StatusCode::BAD_REQUEST, message))?;
    let work = Box::pin(async {
        match asked {
            Asked::Begin(program) => Box::pin(begin(&app, &kept, &owner, program)).await,
            Asked::GoOn {
                continuation_token,
                tool_results,
            } => go_on(&app, &kept, &owner, &continuation_token, tool_results).await,
        }
    });
    let Some(running) = running else {
        return work.await;
    };
    tokio::select! {
        answer = work => answer,
        // Dropping the work ends the session.
        () = running.cancelled() => {
            let error = "Programmatic execution request cancelled";
            Ok(Json(json!({"status": "error", "error": error})).into_response())
        }
    }
}

async fn cancel(
    State(app): State<App>,
    Extension(kept): Extension<Arc<Shared>>,
    AuthenticatedJson {
        owner,
        body: Cancelled { request_id },
        ..
    }: AuthenticatedJson<LibreChat, Cancelled>,
) -> Result<Response, Response> {
    let Some(id) = request_id.as_str().filter(|id| Requests::is_id(id)) else {
        return Err(error_response(StatusCode::BAD_REQUEST, "Invalid or missing request_id"));
    };
    kept.requests.cancel(app.service(), &owner, id);
    let answer = json!({"status": "cancellation_requested"});
    Ok((StatusCode::ACCEPTED, Json(answer)).into_response())
}

/// Registers the request for cancellation if it has an id.
fn running(
    app: &App,
    requests: &Requests,
    owner: &Owner,
    headers: &HeaderMap,
) -> Result<Option<Running>, (StatusCode, &'static str)> {
    let Some(id) = headers.get(REQUEST_ID) else {
        return Ok(None);
    };
    let id = id.to_str().ok().filter(|id| Requests::is_id(id));
    let id = id.ok_or((StatusCode::BAD_REQUEST, "Invalid programmatic request ID"))?;
    let running = requests.begin(app.service(), owner, id);
    let taken = (StatusCode::CONFLICT, "Programmatic request ID is already in use");
    running.ok_or(taken).map(Some)
}

/// Whether a body is a program with tools, or a continuation with answers; for tests.
#[cfg(feature = "fuzzing")]
pub(super) fn parse(body: Value) -> bool {
    let is_first = body["continuation_token"].is_null();
    let program = match read(body, is_first) {
        Ok(Asked::Begin(program)) => program,
        other => return other.is_ok(),
    };
    let Ok(names) = names::names(&program.tools) else {
        return false;
    };
    let preamble = names::preamble(&names, &program.code);
    assert!(preamble.lines().all(|line| line.starts_with("import ") || line.starts_with("from ")));
    for tool in names::deferred(&program.tools, &names) {
        assert!(belljar::Tool::is_name(tool.name()), "{}", tool.name());
    }
    true
}

fn read(body: Value, is_first: bool) -> Result<Asked, String> {
    if is_first {
        if body["code"].as_str().is_none_or(str::is_empty) {
            return Err("Missing required field: code".into());
        }
        let program: Program = serde_json::from_value(body).map_err(|error| error.to_string())?;
        if program.tools.is_empty() {
            return Err("Missing required field: tools (must be a non-empty array)".into());
        }
        if let Some(other) = program.language.as_deref().filter(|l| !matches!(*l, "python" | "py"))
        {
            return Err(format!("Unsupported language \"{other}\"; only python is supported"));
        }
        return Ok(Asked::Begin(program));
    }
    match body["tool_results"].as_array() {
        None => Err("tool_results must be an array when continuation_token is provided".into()),
        Some(results) if results.is_empty() => Err(
            "tool_results must be a non-empty array; resubmit with at least one result per pending \
             tool call"
                .into(),
        ),
        Some(_) => serde_json::from_value(body).map_err(|_| "a tool result has no call_id".into()),
    }
}

async fn begin(
    app: &App,
    kept: &Arc<Shared>,
    owner: &Owner,
    program: Program,
) -> Result<Response, Response> {
    let names = names::names(&program.tools)
        .map_err(|message| error_response(StatusCode::BAD_REQUEST, message))?;
    let asked = program.files.unwrap_or_default();
    let files = serde_json::to_string(&asked).unwrap_or_default();
    let inputs = Inputs::of(&kept.store(app), owner, asked, None);
    let token = format!("{PREFIX}{}", new_id().map_err(broken)?);
    let memory = Memory {
        files: new_id().map_err(broken)?,
        inputs: files,
        names,
        is_answered: AtomicBool::new(false),
    };
    let preamble = Request::new(names::preamble(&memory.names, &program.code)).image("data");
    let mut options = SessionOptions::from_request(inputs.place(preamble))
        .alias(DATA)
        .cwd(DATA)
        .history(0, 0)
        .lease(PATIENCE, LeaseEnd::Close);
    for tool in names::present(&program.tools, &memory.names) {
        options = options.tool(tool);
    }
    // The setup code belongs to the server; the request's run comes after it.
    let new = NewSession::from(options).named(Some(token.clone())).server_code();
    let session = TemporarySession::begin(app.service(), owner, new).await.map_err(failed)?;
    let capture = capture(&program.code);
    let mut request = Request::new(program.code).capture(capture);
    request.tools = names::deferred(&program.tools, &memory.names);
    let ceilings = app.service().runtime().ceilings();
    request.limits.timeout = program.timeout.and_then(|ms| process::timeout(ms / 1e3, &ceilings));
    let outcome = session.run(request).await.map_err(failed)?;
    let told = Told {
        app,
        store: kept.store(app),
        owner,
        token: &token,
    };
    told.answer(session, Arc::new(memory), inputs, outcome).await
}

async fn go_on(
    app: &App,
    kept: &Arc<Shared>,
    owner: &Owner,
    token: &str,
    results: Vec<ToolResult>,
) -> Result<Response, Response> {
    let gone = || error_response(StatusCode::NOT_FOUND, "Execution not found or expired");
    if !token.starts_with(PREFIX) {
        return Err(gone());
    }
    let at = app.service().claim(owner, token, Access::Run).await.map_err(|error| {
        if let ServiceError::NoSession { .. } = error {
            gone()
        } else {
            failed(error)
        }
    })?;
    let unknown =
        || error_response(StatusCode::BAD_REQUEST, "a call_id was not issued in this execution");
    let answers: Option<Vec<ToolAnswer>> = results.into_iter().map(ToolResult::answer).collect();
    let answers = answers.ok_or_else(unknown)?;
    let files = new_id().map_err(broken)?;
    let memory = app.service().cached_or_insert(owner, token, || Memory {
        files,
        ..Memory::default()
    });
    let in_flight = "Another continuation is already in flight for this execution; retry shortly";
    let in_flight = || error_response(StatusCode::CONFLICT, in_flight);
    let answering = Answering::begin(&memory).ok_or_else(in_flight)?;
    at.view().extend_lease(PATIENCE).map_err(|error| failed(error.into()))?;
    let session = TemporarySession::of(app.service(), owner, OwnedSession::clone(&at));
    let outcome = match app.service().answer_claimed(owner, at, answers).await {
        Ok(outcome) => outcome,
        Err(error) => {
            // The session keeps waiting.
            session.keep();
            return Err(match error.code() {
                "session.no_call" => unknown(),
                "session.not_waiting" => in_flight(),
                "session.not_found" => gone(),
                _ => failed(error),
            });
        }
    };
    drop(answering);
    let asked = serde_json::from_str(&memory.inputs).unwrap_or_default();
    let store = kept.store(app);
    let inputs = Inputs::of(&store, owner, asked, None);
    let told = Told {
        app,
        store,
        owner,
        token,
    };
    told.answer(session, memory, inputs, outcome).await
}

/// The recipient of a response, and the run's token.
struct Told<'a> {
    app: &'a App,
    store: Store,
    owner: &'a Owner,
    token: &'a str,
}

impl Told<'_> {
    /// The response about the run so far.
    async fn answer(
        self,
        session: TemporarySession,
        memory: Arc<Memory>,
        inputs: Inputs,
        outcome: Outcome,
    ) -> Result<Response, Response> {
        if outcome.error_detail.as_ref().is_some_and(|d| d.kind == ErrorKind::Waiting) {
            return self.wait(session, memory, &outcome).await;
        }
        self.app.service().uncache::<Memory>(self.owner, self.token);
        let listed = session.session().view().files().await.map_err(engine)?;
        let mut written = HashMap::new();
        if outcome.success {
            let most = self.store.most(self.owner);
            for file in left(&outcome).filter(|file| file.size <= most) {
                let files = session.session().view().workspace();
                let copy = copy(&self.store, &files, &file.path).await.map_err(broken)?;
                written.insert(file.path.clone(), copy);
            }
        }
        // Everything needed has been read.
        drop(session);
        let mut answer = Answer::only(memory.files.clone(), process::explained(&outcome));
        answer.stdout.clone_from(&outcome.stdout);
        inputs.note_missing(&mut answer.stderr);
        let is_it = |path: &str, file: &FileEntry| file.path == path && file.symlink.is_none();
        let is_there = |path: &str| listed.iter().any(|file| is_it(path, file));
        collect(&mut answer, &self.store, self.owner, &inputs, &outcome, is_there, written);
        let mut told = serde_json::to_value(answer).unwrap_or_default();
        let problem = problem(&outcome);
        let status = if problem.is_none() {
            "completed"
        } else {
            "error"
        };
        told["status"] = status.into();
        if let Some(problem) = problem {
            told["error"] = problem.into();
        }
        Ok(Json(told).into_response())
    }

    /// Extends the session's lease and returns the pending calls to the client.
    async fn wait(
        self,
        session: TemporarySession,
        memory: Arc<Memory>,
        outcome: &Outcome,
    ) -> Result<Response, Response> {
        let waiting = session.session().view().waiting().await.map_err(engine)?;
        let calls: Vec<Value> = waiting.iter().map(|call| memory.call(call)).collect();
        session.keep();
        let mut answer = json!({
            "status": "tool_call_required", "session_id": memory.files,
            "continuation_token": self.token, "tool_calls": calls,
        });
        self.app.service().cache(self.owner, self.token, memory);
        for (key, text) in
            [("partial_stdout", &outcome.stdout), ("partial_stderr", &outcome.stderr)]
        {
            if !text.is_empty() {
                answer[key] = text.as_str().into();
            }
        }
        Ok(Json(answer).into_response())
    }
}

fn engine(error: Error) -> Response {
    failed(ServiceError::from(error))
}

/// Copies a file of the session's workspace to the store.
async fn copy(store: &Store, files: &SessionFiles, path: &str) -> Result<Written, CopyError> {
    let mut written = store.room()?;
    let mut to = tokio::fs::File::create_new(written.path()).await?;
    loop {
        let piece = files.read(path, written.size..written.size + PIECE).await?;
        to.write_all(&piece).await?;
        written.size += piece.len() as u64;
        if (piece.len() as u64) < PIECE {
            to.flush().await?;
            return Ok(written);
        }
    }
}

/// Why a file could not be copied.
#[derive(Debug, thiserror::Error)]
enum CopyError {
    #[error(transparent)]
    Disk(#[from] std::io::Error),
    #[error(transparent)]
    Session(#[from] Error),
}

/// The error in the words that clients pass to a model.
fn problem(outcome: &Outcome) -> Option<String> {
    Some(match Ending::of(outcome) {
        Ending::Exited(0) => return None,
        Ending::OutOfTime => "Time limit exceeded".into(),
        Ending::OutOfMemory => "Out of memory".into(),
        Ending::TooMuchOutput if outcome.truncated.contains(&Truncated::Stdout) => {
            "stdout length exceeded".into()
        }
        Ending::TooMuchOutput => "stderr length exceeded".into(),
        Ending::Interrupted => "Execution failed or timed out".into(),
        other => format!("Sandbox exited with code {}", other.return_code()),
    })
}

impl Memory {
    fn call(&self, call: &WaitingCall) -> Value {
        let named = self.names.iter().find(|named| named.tool == call.name);
        let name = named.map_or(call.name.as_str(), |named| named.original.as_str());
        json!({"id": format!("call_{:03}", call.id), "name": name, "input": call.arguments})
    }
}

impl Answering {
    fn begin(memory: &Arc<Memory>) -> Option<Self> {
        let was_answered = memory.is_answered.swap(true, Ordering::AcqRel);
        (!was_answered).then(|| Self(Arc::clone(memory)))
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        self.0.is_answered.store(false, Ordering::Release);
    }
}

impl ToolResult {
    /// Converts an answer; `None` if its id cannot exist.
    fn answer(self) -> Option<ToolAnswer> {
        let id = self.call_id.strip_prefix("call_")?.parse().ok()?;
        if self.is_error {
            let message = self.error_message.unwrap_or_else(|| "Tool execution failed".into());
            return Some(ToolAnswer::failed(id, message));
        }
        Some(ToolAnswer::new(id, self.result))
    }
}

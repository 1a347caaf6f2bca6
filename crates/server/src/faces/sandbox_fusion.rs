//! SandboxFusion, for its own client and the reward functions of verl.
//!
//! Rate limits and a full queue are reported as 504, the only status after which all clients retry.

mod notebook;

use std::collections::BTreeMap;
use std::io::Read;

use axum::extract::State;
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use belljar::request::Capture;
use belljar::{Outcome, Request, Run};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::faces::process::{self, Ending};
use crate::http::app::App;
use crate::http::auth::Keys;
use crate::http::authenticated::{AuthenticatedJson, BadBody, FaceAuth};
use crate::http::face::Face;
use crate::http::problem::Problem;
use crate::http::status::{retry, status};
use crate::service::error::{Class, ServiceError};
use crate::service::owner::Owner;

pub(crate) fn routes() -> Router<App> {
    Router::new()
        .route("/run_code", post(run_code))
        .route("/run_jupyter", post(notebook::run_jupyter))
        .route("/v1/ping", get(async || Json("pong")))
}

#[derive(Deserialize)]
struct CodeRequest {
    code: String,
    language: Language,
    #[serde(default)]
    stdin: Option<String>,
    #[serde(default = "default_timeout")]
    run_timeout: f64,
    #[serde(default = "no_limit", rename = "memory_limit_MB")]
    memory_limit_mb: i64,
    #[serde(default)]
    files: BTreeMap<String, Option<String>>,
    #[serde(default)]
    fetch_files: Vec<String>,
    #[serde(default)]
    args: Vec<String>,
}

fn default_timeout() -> f64 {
    10.0
}

fn no_limit() -> i64 {
    -1
}

/// Languages of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Language {
    Python,
    Pytest,
    Python2,
    PythonGpu,
    Cpp,
    Nodejs,
    Js,
    Ts,
    Go,
    GoTest,
    Java,
    Php,
    Csharp,
    Bash,
    Typescript,
    Sql,
    Rust,
    Cuda,
    Lua,
    #[serde(rename = "R")]
    R,
    Perl,
    #[serde(rename = "D_ut")]
    DUt,
    Ruby,
    Scala,
    Julia,
    Junit,
    KotlinScript,
    Jest,
    Verilog,
    Lean,
    Swift,
    Racket,
    Gtest,
    React,
}

#[derive(Serialize)]
struct CodeResponse {
    status: Status,
    message: String,
    compile_result: Option<Command>,
    run_result: Option<Command>,
    executor_pod_name: Option<String>,
    files: BTreeMap<String, String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
enum Status {
    Success,
    Failed,
    SandboxError,
}

/// How a process ended.
#[derive(Serialize)]
struct Command {
    status: CommandStatus,
    execution_time: f64,
    return_code: Option<i32>,
    stdout: String,
    stderr: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
enum CommandStatus {
    Finished,
    TimeLimitExceeded,
}

/// Maximum size of the files, and of the cells' output, in a response.
const MAX_ANSWER: usize = 64 << 20;
/// Maximum number of files that a request can fetch.
const MAX_FETCHED: usize = 1_000;

async fn run_code(
    State(app): State<App>,
    AuthenticatedJson {
        owner, body: asked, ..
    }: AuthenticatedJson<SandboxFusion, CodeRequest>,
) -> Result<Response, Response> {
    let is_pytest = match asked.language {
        Language::Python => false,
        Language::Pytest => true,
        other => {
            return Ok(sandbox_error(&format!("{other:?} is not supported: only Python is")));
        }
    };
    let files = match input_files(asked.files) {
        Ok(files) => files,
        Err(why) => return Ok(sandbox_error(&why)),
    };
    let Some(wanted) = wanted(asked.fetch_files) else {
        return Ok(too_many_files());
    };
    let ceilings = app.service().runtime().ceilings();
    let mut request = if is_pytest {
        let mut request = Request::new(PYTEST).file(PYTEST_FILE, asked.code);
        request.args = asked.args;
        request
    } else {
        Request::new(asked.code)
    };
    for (path, bytes) in files {
        request = request.file(path, bytes);
    }
    request = request
        .stdin(asked.stdin.unwrap_or_default())
        .capture(Capture::default().figures(false).dataframes(false));
    request.limits.timeout = process::timeout(asked.run_timeout, &ceilings);
    request.limits.memory =
        process::memory(asked.memory_limit_mb.saturating_mul(1 << 20), &ceilings);
    let run = app.service().run(&owner, request).await.map_err(failed)?;
    if is_pytest && lacks_pytest(&run.outcome) {
        return Ok(sandbox_error("pytest is not in the image"));
    }
    let command = Command::of(&run.outcome);
    let files = fetch(run, wanted).await;
    let response = CodeResponse {
        status: command.meaning(),
        message: String::new(),
        compile_result: None,
        run_result: Some(command),
        executor_pod_name: None,
        files,
    };
    Ok(Json(response).into_response())
}

/// Runs pytest on the submitted code.
const PYTEST: &str =
    "import sys, pytest\nsys.exit(pytest.main(['test_program.py', *sys.argv[1:]]))";
const PYTEST_FILE: &str = "test_program.py";

fn lacks_pytest(outcome: &Outcome) -> bool {
    let detail = outcome.error_detail.as_ref();
    detail.is_some_and(|detail| {
        detail.type_ == "ModuleNotFoundError"
            && detail.line == Some(1)
            && detail.message.contains("'pytest'")
    })
}

impl Command {
    fn of(outcome: &Outcome) -> Self {
        let ending = Ending::of(outcome);
        let (status, return_code) = match ending {
            Ending::OutOfTime => (CommandStatus::TimeLimitExceeded, None),
            other => (CommandStatus::Finished, Some(other.return_code())),
        };
        Self {
            status,
            execution_time: outcome.usage.wall_ms / 1e3,
            return_code,
            stdout: outcome.stdout.clone(),
            stderr: outcome.stderr.clone(),
        }
    }

    fn meaning(&self) -> Status {
        match (self.status, self.return_code) {
            (CommandStatus::Finished, Some(0)) => Status::Success,
            _ => Status::Failed,
        }
    }
}

/// Remaining bytes of a response.
struct Room(usize);

impl Room {
    fn take(&mut self, bytes: usize) -> bool {
        let left = self.0.checked_sub(bytes);
        self.0 = left.unwrap_or(self.0);
        left.is_some()
    }
}

/// Decodes the input files of a request.
fn input_files(files: BTreeMap<String, Option<String>>) -> Result<Vec<(String, Vec<u8>)>, String> {
    let named = files.into_iter().filter_map(|(name, text)| Some((name, text?)));
    named
        .map(|(name, text)| {
            let path = process::workspace_path(&name, &[WORKSPACE]).ok_or_else(|| {
                format!("{name:?} is not a valid path in the sandbox's directory")
            })?;
            let bytes = process::from_base64(&text)
                .ok_or_else(|| format!("the content of {name:?} is not valid base64"))?;
            Ok((path, bytes))
        })
        .collect()
}

const WORKSPACE: &str = "/workspace";

/// The requested file names without duplicates; `None` if there are too many.
fn wanted(names: Vec<String>) -> Option<BTreeMap<String, String>> {
    if names.len() > MAX_FETCHED {
        return None;
    }
    let path = |name: String| Some((process::workspace_path(&name, &[WORKSPACE])?, name));
    Some(names.into_iter().filter_map(path).map(|(path, name)| (name, path)).collect())
}

/// Reads the requested files that exist, until the response is full.
async fn fetch(run: Run, wanted: BTreeMap<String, String>) -> BTreeMap<String, String> {
    if wanted.is_empty() {
        return BTreeMap::new();
    }
    let read = tokio::task::spawn_blocking(move || {
        let mut room = Room(MAX_ANSWER);
        let mut files = BTreeMap::new();
        for (name, path) in wanted {
            let Ok(file) = run.open(&path) else {
                continue;
            };
            let size = file.size();
            if !room.take(usize::try_from(size).unwrap_or(usize::MAX)) {
                break;
            }
            let mut bytes = Vec::new();
            if file.take(size).read_to_end(&mut bytes).is_ok() {
                files.insert(name, process::to_base64(&bytes));
            }
        }
        files
    });
    read.await.unwrap_or_default()
}

fn too_many_files() -> Response {
    sandbox_error(&format!("fetch_files has more than {MAX_FETCHED} names"))
}

/// A permanent error: the client should not retry.
fn sandbox_error(message: &str) -> Response {
    let response = json!({
        "status": Status::SandboxError, "message": message, "compile_result": null, "run_result": null,
        "driver": null, "cells": [], "executor_pod_name": null, "files": {},
    });
    Json(response).into_response()
}

fn error_response(status: StatusCode, detail: impl Into<Value>) -> Response {
    (status, Json(json!({"detail": detail.into()}))).into_response()
}

fn no_key() -> Response {
    error_response(
        StatusCode::UNAUTHORIZED,
        "a key is required, for example in the URL: http://key:KEY@host",
    )
}

struct SandboxFusion;

impl FaceAuth for SandboxFusion {
    fn owner(keys: &Keys, parts: &Parts) -> Option<Owner> {
        keys.owner_of_plain(&parts.headers)
    }

    fn no_key() -> Response {
        no_key()
    }

    fn bad_body(BadBody { status, message }: BadBody) -> Response {
        error_response(status, json!([{"type": "value_error", "loc": ["body"], "msg": message}]))
    }
}

/// A problem in SandboxFusion's format. Its clients send a request again only after 504.
pub(crate) fn problem(problem: Problem) -> Response {
    let status = match problem.status {
        StatusCode::BAD_GATEWAY | StatusCode::SERVICE_UNAVAILABLE => StatusCode::GATEWAY_TIMEOUT,
        status => status,
    };
    retry(problem.retry_after, error_response(status, problem.detail))
}

fn failed(error: ServiceError) -> Response {
    let class = error.class();
    let Problem {
        detail,
        retry_after,
        ..
    } = Problem::from(error);
    match class {
        Class::Invalid => sandbox_error(&detail),
        class => retry(retry_after, error_response(status(class, Face::SandboxFusion), detail)),
    }
}

//! Judge0, for its own client: single submissions and batches.
//!
//! A submission runs before its request is answered, whether or not the client asked to wait.

mod fields;

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Path, Query, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Extension, Json, Router};
use belljar::request::{Capture, RunLimits};
use belljar::{Outcome, Request};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use self::fields::{ENCODED, Fields};
use crate::faces::process::{self, Ending};
use crate::http::app::App;
use crate::http::auth::Keys;
use crate::http::authenticated::{AuthenticatedJson, BadBody, FaceAuth};
use crate::http::face::Face;
use crate::http::problem::Problem;
use crate::http::status::{retry, status};
use crate::service::cache::Cached;
use crate::service::environment::Environment;
use crate::service::error::ServiceError;
use crate::service::owner::Owner;

/// Routes under a prefix, because the API's paths are generic.
pub(crate) fn routes() -> Router<App> {
    let routes = Router::new()
        .route("/about", get(about))
        .route("/config_info", get(config))
        .route("/statuses", get(async || Json(statuses())))
        .route("/languages", get(languages))
        .route("/languages/all", get(languages))
        .route("/languages/{id}", get(language))
        .route("/submissions", post(submit))
        .route("/submissions/batch", post(submit_batch).get(find_batch))
        .route("/submissions/{token}", get(find))
        .layer(Extension(Environment::default()));
    Router::new().nest("/judge0", routes)
}

/// The ids of Python in both editions of Judge0, latest first.
const LANGUAGES: [u64; 7] = [113, 109, 100, 92, 71, 33, 10];

/// The edition whose language ids clients look up by name.
const VERSION: &str = "1.14.0-extra";

/// Default time limit of a submission, in seconds.
const CPU_TIME: f64 = 5.0;
const WALL_TIME: f64 = 10.0;

/// Maximum number of submissions in a batch.
const MAX_BATCH: usize = 20;

/// Text fields of a submission.
const TEXTS: [&str; 4] = ["source_code", "stdin", "expected_output", "command_line_arguments"];

/// The result of a submission as JSON text, whose length counts against its owner's limits.
struct Judged(String);

impl Cached for Judged {
    const TIME: Duration = Duration::from_hours(1);
    const MAX: usize = 10_000;

    fn memory(&self) -> u64 {
        self.0.len() as u64
    }
}

/// Why a submission was not judged.
enum Unfit {
    /// An invalid field and its error.
    Field(&'static str, String),
    Failed(ServiceError),
}

#[derive(Clone, Debug, Default, Deserialize)]
struct How {
    #[serde(default)]
    base64_encoded: Option<String>,
    #[serde(default)]
    wait: Option<String>,
    #[serde(default)]
    fields: Option<String>,
    #[serde(default)]
    tokens: Option<String>,
}

#[derive(Deserialize)]
struct Batch {
    submissions: Vec<Value>,
}

async fn about() -> Json<Value> {
    Json(json!({"version": VERSION, "homepage": "", "source_code": "", "maintainer": "belljar"}))
}

async fn config(State(app): State<App>) -> Json<Value> {
    let ceilings = app.service().runtime().ceilings();
    let seconds = ceilings.timeout.as_secs_f64();
    let kib = |bytes: u64| bytes >> 10;
    Json(json!({
        "maintenance_mode": false, "enable_wait_result": true, "enable_compiler_options": false,
        "allowed_languages_for_compile_options": [], "enable_command_line_arguments": true,
        "enable_submission_delete": false, "enable_callbacks": false, "callbacks_max_tries": 0,
        "callbacks_timeout": 0.0, "enable_additional_files": false, "max_queue_size": 1024,
        "cpu_time_limit": CPU_TIME, "max_cpu_time_limit": seconds, "cpu_extra_time": 0.0,
        "max_cpu_extra_time": 0.0, "wall_time_limit": WALL_TIME, "max_wall_time_limit": seconds,
        "memory_limit": kib(app.service().runtime().defaults().memory),
        "max_memory_limit": kib(ceilings.memory), "stack_limit": 0, "max_stack_limit": 0,
        "max_processes_and_or_threads": 1, "max_max_processes_and_or_threads": 1,
        "enable_per_process_and_thread_time_limit": false,
        "allow_enable_per_process_and_thread_time_limit": false,
        "enable_per_process_and_thread_memory_limit": false,
        "allow_enable_per_process_and_thread_memory_limit": false,
        "max_file_size": kib(ceilings.workspace), "max_max_file_size": kib(ceilings.workspace),
        "enable_network": false, "allow_enable_network": false, "number_of_runs": 1,
        "max_number_of_runs": 1, "redirect_stderr_to_stdout": false, "max_extract_size": 0,
        "enable_batched_submissions": true, "max_submission_batch_size": MAX_BATCH,
        "submission_cache_duration": 3600.0, "use_docs_as_homepage": false,
    }))
}

fn statuses() -> Value {
    STATUSES.iter().map(|(id, description)| json!({"id": id, "description": description})).collect()
}

const STATUSES: [(u8, &str); 14] = [
    (1, "In Queue"),
    (2, "Processing"),
    (3, "Accepted"),
    (4, "Wrong Answer"),
    (5, "Time Limit Exceeded"),
    (6, "Compilation Error"),
    (7, "Runtime Error (SIGSEGV)"),
    (8, "Runtime Error (SIGXFSZ)"),
    (9, "Runtime Error (SIGFPE)"),
    (10, "Runtime Error (SIGABRT)"),
    (11, "Runtime Error (NZEC)"),
    (12, "Runtime Error (Other)"),
    (13, "Internal Error"),
    (14, "Exec Format Error"),
];

async fn languages(
    State(app): State<App>,
    Extension(environment): Extension<Environment>,
) -> Result<Response, Response> {
    let version = &environment.contents(app.service()).await.map_err(failed)?.version;
    let list = LANGUAGES.map(|id| json!({"id": id, "name": format!("Python ({version})")}));
    Ok(Json(list).into_response())
}

async fn language(
    State(app): State<App>,
    Extension(environment): Extension<Environment>,
    Path(id): Path<u64>,
) -> Result<Response, Response> {
    if !LANGUAGES.contains(&id) {
        return Err(error_response(StatusCode::NOT_FOUND, "Couldn't find this language"));
    }
    let version = &environment.contents(app.service()).await.map_err(failed)?.version;
    let answer = json!({
        "id": id, "name": format!("Python ({version})"), "is_archived": false, "source_file": "main.py",
        "compile_cmd": null, "run_cmd": null,
    });
    Ok(Json(answer).into_response())
}

async fn submit(
    State(app): State<App>,
    Query(how): Query<How>,
    AuthenticatedJson { owner, body, .. }: AuthenticatedJson<Judge0, Value>,
) -> Result<Response, Response> {
    let shown = how.fields()?;
    let result = run(&app, &owner, body, how.is_encoded()).await.map_err(|unfit| match unfit {
        Unfit::Field(field, why) => {
            (StatusCode::UNPROCESSABLE_ENTITY, Json(json!({field: [why]}))).into_response()
        }
        Unfit::Failed(error) => failed(error),
    })?;
    let answer = if how.wait.as_deref() == Some("true") {
        shown.of(&result, how.is_encoded())
    } else {
        json!({"token": result["token"]})
    };
    Ok((StatusCode::CREATED, Json(answer)).into_response())
}

async fn submit_batch(
    State(app): State<App>,
    Query(how): Query<How>,
    AuthenticatedJson {
        owner,
        body: Batch { submissions },
        ..
    }: AuthenticatedJson<Judge0, Batch>,
) -> Result<Response, Response> {
    check_batch(submissions.len())?;
    let runs = submissions.into_iter().map(|body| run(&app, &owner, body, how.is_encoded()));
    let mut answers = Vec::new();
    let mut failure = None;
    for result in futures_util::future::join_all(runs).await {
        answers.push(match result {
            Ok(fields) => json!({"token": fields["token"]}),
            // Other submissions of the batch are judged anyway.
            Err(Unfit::Field(field, why)) => json!({field: [why]}),
            Err(Unfit::Failed(error)) => {
                let answer = json!({"error": error.public_message()});
                failure.get_or_insert(error);
                answer
            }
        });
    }
    let is_any_judged = answers.iter().any(|answer| answer.get("token").is_some());
    match failure {
        Some(error) if !is_any_judged => Err(failed(error)),
        _ => Ok((StatusCode::CREATED, Json(answers)).into_response()),
    }
}

async fn find(
    State(app): State<App>,
    Query(how): Query<How>,
    Path(token): Path<String>,
    headers: HeaderMap,
) -> Result<Response, Response> {
    let owner = owner(app.keys(), &headers).ok_or_else(no_key)?;
    let missing = || {
        error_response(
            StatusCode::NOT_FOUND,
            "there is no such submission, or its result has expired",
        )
    };
    let shown = how.fields()?;
    let result = judged(&app, &owner, &token).ok_or_else(missing)?;
    Ok(Json(shown.of(&result, how.is_encoded())).into_response())
}

async fn find_batch(
    State(app): State<App>,
    Query(how): Query<How>,
    headers: HeaderMap,
) -> Result<Response, Response> {
    let owner = owner(app.keys(), &headers).ok_or_else(no_key)?;
    let shown = how.fields()?;
    let tokens: Vec<&str> = how.tokens.iter().flat_map(|tokens| tokens.trim().split(',')).collect();
    check_batch(tokens.len())?;
    let is_encoded = how.is_encoded();
    let found: Vec<Value> = tokens
        .into_iter()
        .map(|token| match judged(&app, &owner, token) {
            Some(result) => shown.of(&result, is_encoded),
            None => Value::Null,
        })
        .collect();
    Ok(Json(json!({"submissions": found})).into_response())
}

fn check_batch(length: usize) -> Result<(), Response> {
    if (1..=MAX_BATCH).contains(&length) {
        return Ok(());
    }
    let message = format!("number of submissions in a batch should be from 1 to {MAX_BATCH}");
    Err(error_response(StatusCode::BAD_REQUEST, message))
}

/// Runs a submission, and stores and returns its result.
async fn run(
    app: &App,
    owner: &Owner,
    body: Value,
    is_encoded: bool,
) -> Result<Map<String, Value>, Unfit> {
    let ceilings = app.service().runtime().ceilings();
    let invalid = |(field, why)| Unfit::Field(field, why);
    let mut fields = decoded(body, is_encoded).map_err(invalid)?;
    let request = request(&fields, &ceilings).map_err(invalid)?;
    let created = now();
    let run = app.service().run(owner, request).await.map_err(Unfit::Failed)?;
    let (outcome, _) = run.into_parts();
    let token = new_token().ok_or(Unfit::Failed(no_random_numbers()))?;
    fields.extend(result_of(&outcome, fields.get("expected_output").and_then(Value::as_str)));
    let language = fields.get("language_id").cloned().unwrap_or_default();
    let language = language.as_u64().or_else(|| language.as_str()?.parse().ok());
    fields.insert("language_id".into(), language.into());
    fields.insert("language".into(), json!({"id": language, "name": "Python"}));
    fields.insert("token".into(), token.as_str().into());
    fields.insert("created_at".into(), created.into());
    fields.insert("finished_at".into(), now().into());
    let text = serde_json::to_string(&fields).unwrap_or_default();
    // The result is not stored if it exceeds its owner's limit.
    app.service().cache(owner, &token, Arc::new(Judged(text)));
    Ok(fields)
}

/// The result of an owner's submission.
fn judged(app: &App, owner: &Owner, token: &str) -> Option<Map<String, Value>> {
    let judged = app.service().cached::<Judged>(owner, token)?;
    serde_json::from_str(&judged.0).ok()
}

/// A random UUID, which cannot be guessed.
fn new_token() -> Option<String> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).ok()?;
    Some(uuid::Builder::from_random_bytes(bytes).into_uuid().to_string())
}

fn no_random_numbers() -> ServiceError {
    let source = std::io::Error::other("cannot get random numbers from the system");
    let action = "get random numbers";
    belljar::Error::System { action, source }.into()
}

/// Whether a body is a valid submission; for tests.
#[cfg(feature = "fuzzing")]
pub(crate) fn parse(body: Value) -> bool {
    let is_encoded = body["base64"] == true;
    decoded(body, is_encoded).is_ok_and(|fields| request(&fields, &RunLimits::CEILINGS).is_ok())
}

/// Decodes a submission's fields.
fn decoded(body: Value, is_encoded: bool) -> Result<Map<String, Value>, (&'static str, String)> {
    let Value::Object(mut fields) = body else {
        return Err(("source_code", "can't be blank".into()));
    };
    for name in TEXTS {
        match fields.get(name) {
            None | Some(Value::Null | Value::String(_)) => {}
            // Judge0 converts these to text.
            Some(Value::Bool(_) | Value::Number(_)) => {
                let text = fields[name].to_string();
                fields.insert(name.into(), text.into());
            }
            Some(_) => return Err((name, "is not a text".into())),
        }
    }
    for name in ENCODED.into_iter().take(3).filter(|_| is_encoded) {
        if let Some(text) = fields.get(name).and_then(Value::as_str) {
            let bytes = process::from_base64(text).ok_or((name, "is not base64".to_owned()))?;
            let text = String::from_utf8_lossy(&bytes).into_owned();
            fields.insert(name.into(), text.into());
        }
    }
    Ok(fields)
}

/// Builds the request of a submission, or names the invalid field.
fn request(
    fields: &Map<String, Value>,
    ceilings: &RunLimits,
) -> Result<Request, (&'static str, String)> {
    let text = |name: &str| fields.get(name).and_then(Value::as_str).filter(|t| !t.is_empty());
    let code = text("source_code").ok_or(("source_code", "can't be blank".to_owned()))?;
    let id = fields.get("language_id").unwrap_or(&Value::Null);
    let id_number = id.as_u64().or_else(|| id.as_str()?.parse().ok());
    if !id_number.is_some_and(|id| LANGUAGES.contains(&id)) {
        return Err(("language_id", format!("language with id {id} doesn't exist")));
    }
    for name in ["additional_files", "compiler_options", "callback_url"] {
        if text(name).is_some() {
            return Err((name, "is not supported".into()));
        }
    }
    let number = |name: &'static str, default: f64| match fields.get(name).unwrap_or(&Value::Null) {
        Value::Null => Ok(default),
        Value::Number(number) => Ok(number.as_f64().unwrap_or(default)),
        Value::String(text) => text.parse().map_err(|_| (name, "is not a number".to_owned())),
        _ => Err((name, "is not a number".to_owned())),
    };
    let seconds = number("cpu_time_limit", CPU_TIME)?.min(number("wall_time_limit", WALL_TIME)?);
    let kib = number("memory_limit", 0.0)?;
    let arguments = text("command_line_arguments").unwrap_or_default();
    let arguments = shlex::split(arguments)
        .ok_or(("command_line_arguments", "has an unclosed quotation mark".to_owned()))?;
    let mut request = Request::new(code)
        .stdin(text("stdin").unwrap_or_default())
        .capture(Capture::default().figures(false).dataframes(false));
    request.args = arguments;
    request.limits.timeout = process::timeout(seconds, ceilings);
    request.limits.memory = process::memory((kib * 1024.0) as i64, ceilings);
    Ok(request)
}

/// The result of a submission.
fn result_of(outcome: &Outcome, expected: Option<&str>) -> Map<String, Value> {
    let ending = Ending::of(outcome);
    let is_as_expected = expected.is_none_or(|expected| same(expected, &outcome.stdout));
    let id = match ending {
        Ending::Exited(0) if is_as_expected => 3,
        Ending::Exited(0) => 4,
        Ending::OutOfTime => 5,
        Ending::TooMuchOutput => 8,
        Ending::Crashed => 10,
        Ending::Exited(_) => 11,
        Ending::OutOfMemory | Ending::Interrupted => 12,
    };
    let description = STATUSES.iter().find(|(known, _)| *known == id).map_or("", |(_, text)| text);
    let message = match ending {
        Ending::Exited(0) => None,
        Ending::Exited(code) => Some(format!("Exited with error status {code}")),
        _ => outcome.error.clone(),
    };
    let exit_code = match ending {
        Ending::Exited(code) => Some(code),
        _ => None,
    };
    let seconds = format!("{:.3}", outcome.usage.wall_ms / 1e3);
    let told = json!({
        "stdout": nothing_for_empty(&outcome.stdout), "stderr": nothing_for_empty(&outcome.stderr),
        "compile_output": null, "message": message, "exit_code": exit_code,
        "exit_signal": ending.signal().map(|(number, _)| number),
        "status_id": id, "status": {"id": id, "description": description}, "time": seconds, "wall_time": seconds,
        "memory": outcome.usage.memory_peak_bytes >> 10,
    });
    match told {
        Value::Object(fields) => fields,
        _ => Map::new(),
    }
}

fn nothing_for_empty(text: &str) -> Option<&str> {
    (!text.is_empty()).then_some(text)
}

/// Whether two outputs are equal, ignoring white space at the ends of lines and empty lines at the
/// end.
fn same(expected: &str, given: &str) -> bool {
    let lines = |text: &str| -> Vec<String> {
        text.trim_end().lines().map(|line| line.trim_end().to_owned()).collect()
    };
    lines(expected) == lines(given)
}

fn now() -> String {
    chrono::Utc::now().to_rfc3339_opts(chrono::SecondsFormat::Millis, true)
}

impl How {
    fn is_encoded(&self) -> bool {
        self.base64_encoded.as_deref() == Some("true")
    }

    /// The requested fields.
    fn fields(&self) -> Result<Fields, Response> {
        Fields::named(self.fields.as_deref().unwrap_or_default()).map_err(|unknown| {
            error_response(
                StatusCode::BAD_REQUEST,
                format!("invalid fields: [{}]", unknown.join(", ")),
            )
        })
    }
}

/// The owner of the key, which may be in Judge0's own header.
fn owner(keys: &Keys, headers: &HeaderMap) -> Option<Owner> {
    let token = headers.get("x-auth-token").and_then(|value| value.to_str().ok());
    keys.owner_of_plain(headers).or_else(|| keys.owner(token))
}

struct Judge0;

impl FaceAuth for Judge0 {
    fn owner(keys: &Keys, parts: &Parts) -> Option<Owner> {
        owner(keys, &parts.headers)
    }

    fn no_key() -> Response {
        no_key()
    }

    fn bad_body(why: BadBody) -> Response {
        let status = match why.status {
            StatusCode::UNPROCESSABLE_ENTITY => StatusCode::BAD_REQUEST,
            other => other,
        };
        error_response(status, why.message)
    }
}

fn error_response(status: StatusCode, message: impl Into<String>) -> Response {
    (status, Json(json!({"error": message.into()}))).into_response()
}

fn no_key() -> Response {
    error_response(StatusCode::UNAUTHORIZED, "a key is required in X-Auth-Token")
}

fn failed(error: ServiceError) -> Response {
    let status = status(error.class(), Face::Judge0);
    problem(Problem {
        status,
        ..Problem::from(error)
    })
}

/// A problem in Judge0's format.
pub(crate) fn problem(problem: Problem) -> Response {
    retry(problem.retry_after, error_response(problem.status, problem.detail))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outputs_are_compared_as_people_would() {
        for given in ["1 2\n3\n", "1 2  \n3", "1 2\r\n3\n\n\n"] {
            assert!(same("1 2\n3", given), "{given:?}");
        }
        for given in ["1 2\n\n3", " 1 2\n3", "1 2 3", ""] {
            assert!(!same("1 2\n3", given), "{given:?}");
        }
    }

    #[test]
    fn a_token_looks_like_a_uuid() {
        let token = new_token().unwrap();
        let lengths: Vec<usize> = token.split('-').map(str::len).collect();
        assert_eq!(lengths, [8, 4, 4, 4, 12]);
        assert_eq!(&token[14..15], "4");
        assert_ne!(token, new_token().unwrap());
    }

    #[test]
    fn what_is_wrong_with_a_submission_is_told_by_its_field() {
        let wrong = |body: Value| {
            let fields = decoded(body, false).map_err(|(field, _)| field);
            fields.and_then(|f| {
                request(&f, &RunLimits::CEILINGS).map(drop).map_err(|(field, _)| field)
            })
        };
        let python = |name: &str, value: Value| {
            let mut body = json!({"source_code": "1", "language_id": 71});
            body[name] = value;
            body
        };
        assert_eq!(wrong(python("stdin", json!("x"))), Ok(()));
        assert_eq!(wrong(json!([])), Err("source_code"));
        assert_eq!(wrong(json!({})), Err("source_code"));
        for (field, value) in [
            ("language_id", json!(54)),
            ("language_id", json!(null)),
            ("additional_files", json!("UEs=")),
            ("cpu_time_limit", json!([1])),
            ("memory_limit", json!("much")),
            ("command_line_arguments", json!("'")),
        ] {
            assert_eq!(wrong(python(field, value)), Err(field));
        }
        assert_eq!(decoded(python("stdin", json!("*")), true).unwrap_err().0, "source_code");
    }
}

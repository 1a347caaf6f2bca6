//! Piston, as used by bots and other clients.

use std::cmp::Ordering;

use axum::extract::State;
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Extension, Json, Router};
use belljar::outcome::Truncated;
use belljar::request::{Capture, RunLimits};
use belljar::{Outcome, Request};
use data_encoding::HEXLOWER_PERMISSIVE;
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::faces::process::{self, Ending};
use crate::http::app::App;
use crate::http::auth::Keys;
use crate::http::authenticated::{AuthenticatedJson, BadBody, FaceAuth};
use crate::http::face::Face;
use crate::http::problem::Problem;
use crate::http::status::{retry, status};
use crate::service::environment::Environment;
use crate::service::error::ServiceError;
use crate::service::owner::Owner;

/// Paths of a self-hosted and of the public installation. Some clients append a slash.
pub(crate) fn routes() -> Router<App> {
    let mut router = Router::new();
    for base in ["/api/v2", "/api/v2/piston"] {
        for end in ["", "/"] {
            router = router
                .route(&format!("{base}/runtimes{end}"), get(runtimes))
                .route(&format!("{base}/packages{end}"), get(packages))
                .route(&format!("{base}/execute{end}"), post(execute));
        }
    }
    router.layer(Extension(Environment::default()))
}

const LANGUAGE: &str = "python";
const ALIASES: [&str; 4] = ["py", "py3", "python3", "python3.15"];

/// Default time limit of a run, in milliseconds.
const RUN_TIMEOUT: f64 = 3_000.0;

async fn runtimes(
    State(app): State<App>,
    Extension(environment): Extension<Environment>,
) -> Result<Response, Response> {
    let contents = environment.contents(app.service()).await.map_err(failed)?;
    let aliases = ALIASES;
    Ok(Json(json!([{"language": LANGUAGE, "version": contents.version, "aliases": aliases}]))
        .into_response())
}

async fn packages(
    State(app): State<App>,
    Extension(environment): Extension<Environment>,
) -> Result<Response, Response> {
    let version = &environment.contents(app.service()).await.map_err(failed)?.version;
    let package = json!({"language": LANGUAGE, "language_version": version, "installed": true});
    Ok(Json(json!([package])).into_response())
}

struct Piston;

impl FaceAuth for Piston {
    fn owner(keys: &Keys, parts: &Parts) -> Option<Owner> {
        keys.owner_of_plain(&parts.headers)
    }

    fn no_key() -> Response {
        error_response(StatusCode::UNAUTHORIZED, "a key is required in Authorization: KEY")
    }

    fn bad_body(why: BadBody) -> Response {
        let status = match why.status {
            StatusCode::UNPROCESSABLE_ENTITY => StatusCode::BAD_REQUEST,
            other => other,
        };
        error_response(status, why.message)
    }
}

async fn execute(
    State(app): State<App>,
    Extension(environment): Extension<Environment>,
    AuthenticatedJson { owner, body, .. }: AuthenticatedJson<Piston, Value>,
) -> Result<Response, Response> {
    let version = &environment.contents(app.service()).await.map_err(failed)?.version;
    let ceilings = app.service().runtime().ceilings();
    let request = read(&body, version, &ceilings)
        .map_err(|message| error_response(StatusCode::BAD_REQUEST, message))?;
    let outcome = app.service().run(&owner, request).await.map_err(failed)?.outcome;
    let answer = json!({"run": Stage::of(&outcome), "language": LANGUAGE, "version": version});
    Ok(Json(answer).into_response())
}

/// Whether a body is a valid request; for tests.
#[cfg(feature = "fuzzing")]
pub(crate) fn parse(body: &Value) -> bool {
    read(body, "3.15.0", &RunLimits::CEILINGS).is_ok()
}

/// Builds the request from a body, or returns the error in the protocol's words.
fn read(body: &Value, version: &str, ceilings: &RunLimits) -> Result<Request, String> {
    let text = |name: &str| {
        let given = body[name].as_str().filter(|text| !text.is_empty());
        given.ok_or_else(|| format!("{name} is required as a string"))
    };
    let (language, wanted) = (text("language")?, text("version")?);
    let files = body["files"].as_array().ok_or("files is required as an array")?;
    let files: Vec<File> = files
        .iter()
        .enumerate()
        .map(|(index, file)| File::read(index, file))
        .collect::<Result<_, _>>()?;
    let is_known = language == LANGUAGE || ALIASES.contains(&language);
    if !is_known || !matches_version(wanted, version) {
        return Err(format!("{language}-{wanted} runtime is unknown"));
    }
    let main = files
        .iter()
        .position(|file| file.is_text)
        .ok_or("files must include at least one utf8 encoded file")?;
    let limit = |name: &str, ceiling: f64| match &body[name] {
        Value::Null | Value::Bool(false) => Ok(None),
        Value::Number(number) => match number.as_f64().unwrap_or(0.0) {
            // Clients send -1 for no limit.
            none if none <= 0.0 => Ok(None),
            given if given > ceiling => {
                Err(format!("{name} cannot exceed the configured limit of {ceiling}"))
            }
            given => Ok(Some(given)),
        },
        _ => Err(format!("If specified, {name} must be a number")),
    };
    let milliseconds = ceilings.timeout.as_secs_f64() * 1e3;
    let wall = limit("run_timeout", milliseconds)?.unwrap_or(RUN_TIMEOUT);
    let cpu = limit("run_cpu_time", milliseconds)?.unwrap_or(wall);
    let memory = limit("run_memory_limit", ceilings.memory as f64)?;
    // Python is not compiled, but invalid numbers are rejected as in Piston.
    for name in ["compile_timeout", "compile_cpu_time", "compile_memory_limit"] {
        limit(name, f64::INFINITY)?;
    }
    let code = String::from_utf8(files[main].bytes.clone())
        .map_err(|_| format!("files[{main}] is not UTF-8"))?;
    let mut request =
        Request::new(code).capture(Capture::default().figures(false).dataframes(false));
    for file in files {
        request = request.file(file.path, file.bytes);
    }
    let mut stdin = body["stdin"].as_str().unwrap_or_default().to_owned();
    if !stdin.ends_with('\n') {
        stdin.push('\n');
    }
    request = request.stdin(stdin);
    for arg in body["args"].as_array().into_iter().flatten() {
        request = request.arg(arg.as_str().map_or_else(|| arg.to_string(), str::to_owned));
    }
    request.limits.timeout = process::timeout(wall.min(cpu) / 1e3, ceilings);
    request.limits.memory = memory.and_then(|bytes| process::memory(bytes as i64, ceilings));
    Ok(request)
}

/// A file of the request.
struct File {
    path: String,
    bytes: Vec<u8>,
    /// Whether it can be the program.
    is_text: bool,
}

impl File {
    fn read(index: usize, file: &Value) -> Result<Self, String> {
        let content = file["content"]
            .as_str()
            .ok_or_else(|| format!("files[{index}].content is required as a string"))?;
        let encoding = file["encoding"].as_str().unwrap_or("utf8");
        let bytes = match encoding {
            "base64" => process::from_base64(content),
            "hex" => HEXLOWER_PERMISSIVE.decode(content.as_bytes()).ok(),
            _ => Some(content.as_bytes().to_vec()),
        };
        let bytes = bytes.ok_or_else(|| format!("files[{index}].content is not {encoding}"))?;
        let name = file["name"].as_str().filter(|name| !name.is_empty());
        let name = name.map_or_else(|| format!("file{index}.code"), str::to_owned);
        let path = process::workspace_path(&name, &["/workspace"])
            .ok_or_else(|| format!("File path \"{name}\" tries to escape parent directory"))?;
        Ok(Self {
            path,
            bytes,
            is_text: !matches!(encoding, "base64" | "hex"),
        })
    }
}

/// Whether a version matches a client's range: `*`, `3`, `3.x`, `^3.10`, `~3.15`, `>=3.8`.
fn matches_version(wanted: &str, version: &str) -> bool {
    let numbers = |text: &str| -> Option<Vec<u64>> {
        let parts = text.split('.').filter(|part| !matches!(*part, "x" | "X" | "*"));
        parts.map(|part| part.parse().ok()).collect()
    };
    let wanted = wanted.trim();
    let (operator, rest) = wanted
        .split_at(wanted.find(|c: char| c.is_ascii_digit() || c == '*' || c == 'x').unwrap_or(0));
    let (Some(wanted), Some(version)) = (numbers(rest.trim()), numbers(version)) else {
        return false;
    };
    let begins = |length: usize| version.iter().zip(&wanted).take(length).all(|(a, b)| a == b);
    let order = version.iter().zip(&wanted).map(|(a, b)| a.cmp(b)).find(|order| order.is_ne());
    let is_later = order.unwrap_or(Ordering::Equal).is_ge();
    match operator.trim() {
        "" | "=" | "v" => begins(wanted.len()),
        "^" => is_later && begins(1),
        "~" => is_later && begins(2),
        ">=" => is_later,
        ">" => order == Some(Ordering::Greater),
        "<=" => order != Some(Ordering::Greater),
        "<" => order == Some(Ordering::Less),
        _ => false,
    }
}

/// The result of a program.
#[derive(Serialize)]
struct Stage {
    stdout: String,
    stderr: String,
    output: String,
    code: Option<i32>,
    signal: Option<&'static str>,
    message: Option<String>,
    status: Option<&'static str>,
    cpu_time: u64,
    wall_time: u64,
    memory: u64,
}

impl Stage {
    fn of(outcome: &Outcome) -> Self {
        let ending = Ending::of(outcome);
        let cut = |stream: Truncated| outcome.truncated.contains(&stream);
        let (status, message) = match ending {
            Ending::OutOfTime => (Some("TO"), Some("Time limit exceeded".to_owned())),
            _ if cut(Truncated::Stdout) => (Some("OL"), Some("stdout length exceeded".into())),
            _ if cut(Truncated::Stderr) => (Some("EL"), Some("stderr length exceeded".into())),
            Ending::Exited(0) => (None, None),
            Ending::Exited(code) => (Some("RE"), Some(format!("Exited with error status {code}"))),
            _ => (Some("SG"), outcome.error.clone()),
        };
        let is_killed = matches!(status, Some("TO" | "OL" | "EL"));
        let code = match ending {
            Ending::Exited(code) if !is_killed => Some(code),
            _ => None,
        };
        let signal = match ending {
            _ if is_killed => Some("SIGKILL"),
            other => other.signal().map(|(_, name)| name),
        };
        // The order in which both streams were written is unknown.
        let mut output = outcome.stdout.clone();
        output.push_str(&outcome.stderr);
        let milliseconds = outcome.usage.wall_ms.round() as u64;
        Self {
            stdout: outcome.stdout.clone(),
            stderr: outcome.stderr.clone(),
            output,
            code,
            signal,
            message,
            status,
            cpu_time: milliseconds,
            wall_time: milliseconds,
            memory: outcome.usage.memory_peak_bytes,
        }
    }
}

fn error_response(status: StatusCode, message: impl Into<String>) -> Response {
    let body = Map::from_iter([("message".to_owned(), Value::String(message.into()))]);
    (status, Json(body)).into_response()
}

fn failed(error: ServiceError) -> Response {
    let status = status(error.class(), Face::Piston);
    problem(Problem {
        status,
        ..Problem::from(error)
    })
}

/// A problem in Piston's format.
pub(crate) fn problem(problem: Problem) -> Response {
    retry(problem.retry_after, error_response(problem.status, problem.detail))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn versions_are_ranges() {
        for wanted in [
            "*", "3", "3.x", "3.15", "3.15.0", "3.15.x", "^3.10.0", "~3.15", ">=3.8", "=3.15.0",
            ">2", "<4",
        ] {
            assert!(matches_version(wanted, "3.15.0"), "{wanted}");
        }
        for wanted in [
            "2",
            "3.10.0",
            "^4",
            "^3.16",
            "~3.14",
            ">=3.16",
            "<3",
            ">3.15.0",
            "",
            "latest",
            "3.15.0-rc",
            "!3",
            "3..1",
        ] {
            assert!(!matches_version(wanted, "3.15.0"), "{wanted}");
        }
    }

    /// JSON similar to a request.
    fn bodies() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            "(python|py|\\*|3\\.x|base64|hex|utf8|[a-z0-9./=é]{0,6})".prop_map(Value::from),
        ];
        let keys = "(language|version|files|content|name|encoding|args|stdin|run_timeout|\
                    run_memory_limit)";
        leaf.prop_recursive(4, 64, 8, move |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map(keys, inner, 0..8)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn any_body_is_a_request_or_an_error(body in bodies()) {
            if let Ok(request) = read(&body, "3.15.0", &RunLimits::CEILINGS) {
                assert!(request.limits.timeout <= Some(RunLimits::CEILINGS.timeout));
            }
        }

        #[test]
        fn any_version_matches_or_not(wanted: String) {
            matches_version(&wanted, "3.15.0");
        }
    }

    #[test]
    fn hex_is_pairs_of_digits() {
        let from_hex = |content: &str| {
            File::read(0, &json!({"content": content, "encoding": "hex"})).map(|file| file.bytes)
        };
        assert_eq!(from_hex("00fFa1"), Ok(vec![0, 255, 0xa1]));
        assert_eq!(from_hex(""), Ok(vec![]));
        for text in ["0", "0g", "é0", "0 0"] {
            assert!(from_hex(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn what_is_wrong_with_a_body_is_told_in_the_protocols_words() {
        let ceilings = RunLimits::CEILINGS;
        let error = |body: Value| read(&body, "3.15.0", &ceilings).unwrap_err();
        let file = json!([{"content": "1"}]);
        assert_eq!(error(json!({})), "language is required as a string");
        assert_eq!(error(json!([1])), "language is required as a string");
        assert_eq!(error(json!({"language": "py"})), "version is required as a string");
        assert_eq!(
            error(json!({"language": "py", "version": "*"})),
            "files is required as an array"
        );
        assert_eq!(
            error(json!({"language": "py", "version": "*", "files": [{}]})),
            "files[0].content is required as a string"
        );
        assert_eq!(
            error(json!({"language": "rust", "version": "1.0", "files": file})),
            "rust-1.0 runtime is unknown"
        );
        let long = json!({"language": "py", "version": "*", "files": file, "run_timeout": 1e9});
        assert_eq!(error(long), "run_timeout cannot exceed the configured limit of 3600000");
        let text = json!({"language": "py", "version": "*", "files": file, "run_timeout": "1"});
        assert_eq!(error(text), "If specified, run_timeout must be a number");
        let out =
            json!({"language": "py", "version": "*", "files": [{"name": "../a", "content": "1"}]});
        assert_eq!(error(out), "File path \"../a\" tries to escape parent directory");
    }
}

//! dify-sandbox, for Dify's code and template nodes.
//!
//! All responses have status 200 and report errors in `code`, except for a wrong key and a full
//! queue.

use axum::extract::{Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Extension, Json, Router};
use belljar::Request;
use belljar::request::Capture;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::faces::process;
use crate::http::app::App;
use crate::http::authenticated::{AuthenticatedJson, BadBody, FaceAuth};
use crate::http::face::Face;
use crate::http::problem::Problem;
use crate::http::status::{retry, status};
use crate::service::environment::Environment;
use crate::service::error::ServiceError;

pub(crate) fn routes() -> Router<App> {
    Router::new()
        .route("/health", get(async || Json("ok")))
        .route("/v1/sandbox/run", post(run))
        .route("/v1/sandbox/dependencies", get(dependencies))
        .route("/v1/sandbox/dependencies/refresh", get(dependencies))
        .route("/v1/sandbox/dependencies/update", post(update))
        .layer(Extension(Environment::default()))
}

struct Dify;

impl FaceAuth for Dify {
    fn no_key() -> Response {
        no_key()
    }

    fn bad_body(why: BadBody) -> Response {
        refused(-400, why.message)
    }
}

#[derive(Deserialize)]
struct Asked {
    language: String,
    code: String,
    #[serde(default)]
    preload: Option<String>,
}

#[derive(Deserialize)]
struct About {
    language: Option<String>,
}

/// The format of all responses.
#[derive(Serialize)]
struct Answer {
    code: i32,
    message: String,
    data: Value,
}

const PYTHON: &str = "python3";

async fn run(
    State(app): State<App>,
    AuthenticatedJson {
        owner, body: asked, ..
    }: AuthenticatedJson<Dify, Asked>,
) -> Result<Response, Response> {
    if asked.language != PYTHON {
        return Err(unsupported());
    }
    let code = match asked.preload.filter(|preload| !preload.trim().is_empty()) {
        Some(preload) => format!("{preload}\n{}", asked.code),
        None => asked.code,
    };
    let request = Request::new(code).capture(Capture::default().figures(false).dataframes(false));
    let outcome = app.service().run(&owner, request).await.map_err(failed)?.outcome;
    // Dify treats any error as a failed node. Standard error of a successful program, such as a
    // warning, must not be reported as an error.
    let error = if outcome.success {
        String::new()
    } else {
        process::explained(&outcome)
    };
    Ok(success(json!({"stdout": outcome.stdout, "error": error})))
}

async fn dependencies(
    State(app): State<App>,
    Extension(environment): Extension<Environment>,
    headers: HeaderMap,
    Query(about): Query<About>,
) -> Result<Response, Response> {
    app.keys().owner_of(&headers).ok_or_else(no_key)?;
    if about.language.as_deref().is_some_and(|language| language != PYTHON) {
        return Err(unsupported());
    }
    let contents = environment.contents(app.service()).await.map_err(failed)?;
    let list: Vec<Value> = contents
        .packages
        .iter()
        .map(|(name, version)| json!({"name": name, "version": version}))
        .collect();
    Ok(success(json!({"dependencies": list})))
}

/// Nothing can be installed: the packages are part of the image.
async fn update(State(app): State<App>, headers: HeaderMap) -> Result<Response, Response> {
    app.keys().owner_of(&headers).ok_or_else(no_key)?;
    Ok(success(json!({})))
}

fn success(data: Value) -> Response {
    let answer = Answer {
        code: 0,
        message: "success".into(),
        data,
    };
    Json(answer).into_response()
}

fn refused(code: i32, message: impl Into<String>) -> Response {
    let answer = Answer {
        code,
        message: message.into(),
        data: Value::Null,
    };
    Json(answer).into_response()
}

fn unsupported() -> Response {
    (StatusCode::BAD_REQUEST, refused(-400, "unsupported language")).into_response()
}

fn no_key() -> Response {
    (StatusCode::UNAUTHORIZED, refused(-401, "a key is required in X-Api-Key")).into_response()
}

fn failed(error: ServiceError) -> Response {
    let status = status(error.class(), Face::Dify);
    problem(Problem {
        status,
        ..Problem::from(error)
    })
}

/// A problem in Dify's format.
pub(crate) fn problem(problem: Problem) -> Response {
    let (status, wait) = (problem.status, problem.retry_after);
    let answer = refused(-i32::from(status.as_u16()), problem.detail);
    match status {
        StatusCode::SERVICE_UNAVAILABLE | StatusCode::BAD_GATEWAY => retry(wait, (status, answer)),
        _ => retry(wait, answer),
    }
}

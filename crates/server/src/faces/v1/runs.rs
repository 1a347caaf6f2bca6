//! `/v1/runs`: runs in a fresh sandbox, and the files that they wrote.

pub(super) mod form;

use std::sync::Arc;

use axum::extract::{FromRequest, Path, Request, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get, post};
use axum::{Extension, Json};
use belljar::outcome::Violation;
use belljar::{Outcome, Policy};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::calls::{Calls, ClientRun};
use super::operation::{BYTES, EVENTS, Operation};
use crate::http::app::App;
use crate::http::extract::Body;
use crate::http::files::FileHead;
use crate::http::fingerprint::Reading;
use crate::http::problem::Problem;
use crate::http::sse;
use crate::http::streams::{Opened, Streams};
use crate::service::owner::Owner;

pub(super) fn operations() -> Vec<Operation> {
    vec![
        Operation::new(
            "POST",
            "/v1/runs",
            post(run),
            "Runs code in a fresh sandbox. In a form, the part `request` holds the request as JSON, and every \
             other part is a file of the workspace. With `Accept: text/event-stream`, the response is a \
             stream of events that ends with the outcome, and the client may answer calls during the run. If \
             the client disconnects, the run is interrupted.",
        )
        .takes::<ClientRun>()
        .takes_as("multipart/form-data", None)
        .answers::<RunAnswer>(200, "The outcome, even if the code failed")
        .answers_as(200, "Events named by their types; the last is `outcome`", EVENTS, None),
        Operation::new(
            "GET",
            "/v1/runs/{id}/files/{*path}",
            get(file),
            "Downloads a file that a run wrote. Files are kept for 10 minutes.",
        )
        .answers_as(200, "The file", BYTES, None)
        .answers_as(206, "The requested range", BYTES, None)
        .ends(304, "The client's copy is current"),
        Operation::new(
            "DELETE",
            "/v1/runs/{id}",
            delete(forget),
            "Deletes the files of a run early.",
        )
        .ends(204, "Deleted"),
        Operation::new(
            "POST",
            "/v1/check",
            post(check),
            "Checks code without running it: violations of the policy and missing imports.",
        )
        .takes::<Check>()
        .answers::<CheckAnswer>(200, "The findings"),
    ]
}

/// An outcome with the server's additions.
#[derive(Serialize, JsonSchema)]
pub(super) struct RunAnswer {
    /// The `id` of the request.
    #[serde(skip_serializing_if = "Value::is_null")]
    pub id: Value,
    /// Id for the run's files: `/v1/runs/{run}/files/{path}`. Absent if it wrote none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    #[serde(flatten)]
    pub outcome: Outcome,
}

async fn run(
    State(app): State<App>,
    owner: Owner,
    Extension(calls): Extension<Arc<Calls>>,
    Extension(streams): Extension<Arc<Streams>>,
    request: Request,
) -> Result<Response, Problem> {
    let headers = request.headers().clone();
    let reading = sse::is_asked_for(&headers).then(|| Reading::of(&request));
    let mut asked = asked(request, &app, &owner).await?;
    let id = asked.run.id.take();
    let Some(reading) = reading else {
        let answer = run_and_keep(app, owner, asked.plain()?, id).await?;
        return Ok(Json(answer).into_response());
    };
    let place = match streams.open(&owner, None, asked.stream()?, reading.end())? {
        Opened::Known(stream) => return stream.resumed(0).await,
        Opened::Free(place) => place,
    };
    let (request, watched) = asked.watched(&owner, &calls)?;
    place.answer(watched, run_and_keep(app, owner, request, id)).await
}

/// Reads the request from JSON or a form.
async fn asked(request: Request, app: &App, owner: &Owner) -> Result<ClientRun, Problem> {
    let media = request.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    if media.is_some_and(|media| media.starts_with("multipart/form-data")) {
        return form::read(request, app, owner).await;
    }
    let Body(asked) = Body::from_request(request, app).await?;
    Ok(asked)
}

async fn run_and_keep(
    app: App,
    owner: Owner,
    request: belljar::Request,
    id: Value,
) -> Result<RunAnswer, Problem> {
    let run = app.service().run(&owner, request).await?;
    let (outcome, run) = app.service().keep(&owner, run);
    Ok(RunAnswer { id, run, outcome })
}

async fn file(
    State(app): State<App>,
    owner: Owner,
    Path((id, path)): Path<(String, String)>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let run = app.service().stored_run(&owner, &id)?;
    let no_file =
        || Problem::new(StatusCode::NOT_FOUND, "no_such_file", "the run has no such file");
    let head = FileHead {
        size: run.entry(&path).ok_or_else(no_file)?.size,
        path,
        modified: None,
    };
    let asked = head.asked(&headers)?;
    let name = head.path.clone();
    let opened = tokio::task::spawn_blocking(move || run.open(&name)).await;
    let file = opened.map_err(|_| Problem::internal("reading the file failed"))??;
    head.send(&asked, file).await.map_err(|_| no_file())
}

async fn forget(
    State(app): State<App>,
    owner: Owner,
    Path(id): Path<String>,
) -> Result<StatusCode, Problem> {
    app.service().forget(&owner, &id)?;
    Ok(StatusCode::NO_CONTENT)
}

/// Code to check.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Check {
    /// Python source.
    code: String,
    /// Policy to check against. Default `strict`.
    policy: Option<Policy>,
}

/// The findings.
#[derive(Serialize, JsonSchema)]
struct CheckAnswer {
    /// Whether there are no findings.
    clean: bool,
    /// Violations of the policy, or the syntax error.
    violations: Vec<Violation>,
    /// Imported modules that are not installed.
    missing_imports: Vec<String>,
}

async fn check(
    State(app): State<App>,
    owner: Owner,
    Body(asked): Body<Check>,
) -> Result<Json<CheckAnswer>, Problem> {
    let policy = asked.policy.unwrap_or(Policy::Strict);
    let report = app.service().check(&owner, &asked.code, &policy).await?;
    Ok(Json(CheckAnswer {
        clean: report.is_clean(),
        violations: report.violations,
        missing_imports: report.missing_imports,
    }))
}

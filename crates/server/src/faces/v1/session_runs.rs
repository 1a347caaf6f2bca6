//! `/v1/sessions/{id}/runs`: sequential runs of a session.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use belljar::Outcome;
use belljar::event::event_channel;
use belljar::request::{HostPaths, RunRequest};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::Value;

use super::operation::{EVENTS, JSON, Operation};
use super::runs::RunAnswer;
use crate::http::app::App;
use crate::http::extract::Body;
use crate::http::problem::Problem;
use crate::http::sse;
use crate::service::owner::Owner;
use crate::service::session_store::Access;

pub(super) fn operations() -> Vec<Operation> {
    vec![
        Operation::new(
            "POST",
            "/v1/sessions/{id}/runs",
            post(run),
            "Runs code in a session after earlier requests have finished. The outcome lists the files of \
             the session's workspace. If the client disconnects, the run is interrupted, and the session \
             keeps what it did until then.",
        )
        .takes_as(JSON, Some(request_schema))
        .answers::<Outcome>(200, "The outcome, even if the code failed")
        .answers_as(200, "Events named by their types; the last is `outcome`", EVENTS, None),
    ]
}

/// Fields of a run that are fixed for the whole session.
const OF_SESSIONS: [&str; 7] =
    ["image", "aliases", "deterministic", "answers", "memory_mb", "workspace_mb", "max_files"];

/// The schema of a run without these fields.
fn request_schema(generator: &mut SchemaGenerator) -> Schema {
    let mut schema = RunRequest::json_schema(generator);
    if let Some(Value::Object(fields)) = schema.get_mut("properties") {
        fields.retain(|name, _| !OF_SESSIONS.contains(&name.as_str()));
    }
    schema
}

async fn run(
    State(app): State<App>,
    owner: Owner,
    Path(session): Path<String>,
    headers: HeaderMap,
    Body(mut asked): Body<RunRequest>,
) -> Result<Response, Problem> {
    let id = asked.id.take();
    let request = asked.into_request(HostPaths::Refused).map_err(belljar::Error::from)?;
    let session = app.service().claim(&owner, &session, Access::Run).await?;
    if sse::is_asked_for(&headers) {
        // Validates first, so that an invalid request gets an error response instead of an event.
        session.view().validate(&request)?;
        let (watcher, events) = event_channel();
        let run = app.service().run_claimed(&owner, session, request.watch(watcher));
        return sse::answer(events, async move { Ok(answer(id, run.await?)) }).await;
    }
    let outcome = app.service().run_claimed(&owner, session, request).await?;
    Ok(Json(answer(id, outcome)).into_response())
}

fn answer(id: Value, outcome: Outcome) -> RunAnswer {
    RunAnswer {
        id,
        run: None,
        outcome,
    }
}

//! `/v1/sessions/{id}/runs`: sequential runs of a session.

use std::sync::Arc;

use axum::extract::{FromRequest, Path, Request, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Extension, Json};
use belljar::Outcome;
use belljar::tool::{ToolAnswer, WaitingCall};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::calls::{Calls, ClientRun};
use super::operation::{EVENTS, JSON, Operation};
use super::runs::RunAnswer;
use crate::http::app::App;
use crate::http::extract::Body;
use crate::http::fingerprint::Reading;
use crate::http::problem::Problem;
use crate::http::sse;
use crate::http::streams::{Opened, Streams};
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
        Operation::new(
            "GET",
            "/v1/sessions/{id}/waiting",
            get(waiting),
            "Lists the calls of deferred tools that the session's run waits for.",
        )
        .answers::<Waiting>(200, "The calls"),
        Operation::new(
            "POST",
            "/v1/sessions/{id}/answer",
            post(answer_calls),
            "Answers calls of deferred tools, and continues their run.",
        )
        .takes::<Answers>()
        .answers::<Outcome>(200, "The outcome of the whole run"),
    ]
}

/// Fields of a run that are fixed for the whole session.
const OF_SESSIONS: [&str; 7] =
    ["image", "aliases", "deterministic", "answers", "memory_mb", "workspace_mb", "max_files"];

/// The schema of a run without these fields.
fn request_schema(generator: &mut SchemaGenerator) -> Schema {
    let mut schema = ClientRun::json_schema(generator);
    if let Some(Value::Object(fields)) = schema.get_mut("properties") {
        fields.retain(|name, _| !OF_SESSIONS.contains(&name.as_str()));
    }
    schema
}

async fn run(
    State(app): State<App>,
    owner: Owner,
    Extension(calls): Extension<Arc<Calls>>,
    Extension(streams): Extension<Arc<Streams>>,
    Path(session): Path<String>,
    request: Request,
) -> Result<Response, Problem> {
    let reading = sse::is_asked_for(request.headers()).then(|| Reading::of(&request));
    let Body::<ClientRun>(mut asked) = Body::from_request(request, &app).await?;
    let id = asked.run.id.take();
    if let Some(reading) = reading {
        let opened = streams.open(&owner, Some(&session), asked.stream()?, reading.end())?;
        let place = match opened {
            Opened::Known(stream) => return stream.resumed(0).await,
            Opened::Free(place) => place,
        };
        let (request, watched) = asked.watched(&owner, &calls)?;
        let session = app.service().claim(&owner, &session, Access::Run).await?;
        // Validates first, so that an invalid request gets an error response instead of an event.
        session.view().validate(&request)?;
        let run = app.service().run_claimed(&owner, session, request);
        return place.answer(watched, async move { Ok(answer(id, run.await?)) }).await;
    }
    let request = asked.plain()?;
    let session = app.service().claim(&owner, &session, Access::Run).await?;
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

#[derive(Serialize, JsonSchema)]
struct Waiting {
    calls: Vec<WaitingCall>,
}

async fn waiting(
    State(app): State<App>,
    owner: Owner,
    Path(id): Path<String>,
) -> Result<Json<Waiting>, Problem> {
    let session = app.service().claim(&owner, &id, Access::Read).await?;
    let calls = session.view().waiting().await?;
    Ok(Json(Waiting { calls }))
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Answers {
    /// Answers, by the numbers of the calls.
    answers: Vec<ToolAnswer>,
}

async fn answer_calls(
    State(app): State<App>,
    owner: Owner,
    Path(id): Path<String>,
    Body(asked): Body<Answers>,
) -> Result<Json<Outcome>, Problem> {
    let session = app.service().claim(&owner, &id, Access::Run).await?;
    Ok(Json(app.service().answer_claimed(&owner, session, asked.answers).await?))
}

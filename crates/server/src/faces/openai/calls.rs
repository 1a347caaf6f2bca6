//! `/v1/containers/{container}/code_interpreter_calls`: runs the code of a `code_interpreter_call`,
//! for programs that have a model of their own.

use axum::extract::{FromRequest, Path, Request, State};
use axum::routing::post;
use axum::{Json, Router};
use belljar::Outcome;
use belljar::request::{Capture, Dialect, Echo};
use serde::Deserialize;
use serde_json::{Value, json};

use super::container::claim;
use super::{Caller, Fault};
use crate::faces::process::{Ending, explained};
use crate::http::app::App;
use crate::http::extract::Body;
use crate::http::problem::Problem;
use crate::service::cache::new_id;
use crate::service::session_store::Access;

pub(super) fn routes() -> Router<App> {
    Router::new().route("/{container}/code_interpreter_calls", post(run))
}

/// A call as a model makes it. Its other fields are those of the answer.
#[derive(Deserialize)]
struct Call {
    id: Option<String>,
    code: String,
}

async fn run(
    State(app): State<App>,
    Caller(owner): Caller,
    Path(container): Path<String>,
    request: Request,
) -> Result<Json<Value>, Fault> {
    let Body(Call { id, code }) = Body::<Call>::from_request(request, &app).await?;
    let id = match id {
        Some(id) => id,
        None => format!("ci_{}", new_id().ok_or_else(|| Problem::internal("no random numbers"))?),
    };
    let session = claim(&app, &owner, &container, Access::Run).await?;
    let container = session.id().to_owned();
    let request = belljar::Request::new(code)
        .dialect(Dialect::Ipython)
        .echo(Echo::Last)
        .capture(Capture::default().dataframes(false).inline_images(true));
    let outcome = app.service().run_claimed(&owner, session, request).await?;
    Ok(Json(json!({
        "id": id,
        "type": "code_interpreter_call",
        "status": status(&outcome),
        "code": outcome.code,
        "container_id": container,
        "outputs": outputs(&outcome),
    })))
}

/// An exception of the code completes a call, as in a notebook.
fn status(outcome: &Outcome) -> &'static str {
    match Ending::of(outcome) {
        Ending::Exited(_) => "completed",
        Ending::Crashed => "failed",
        _ => "incomplete",
    }
}

fn outputs(outcome: &Outcome) -> Vec<Value> {
    let logs = outcome.stdout.clone() + &explained(outcome);
    let logs = (!logs.is_empty()).then(|| json!({"type": "logs", "logs": logs}));
    let figures = outcome.plots.iter().filter(|plot| plot.repeats.is_none());
    let figures = figures.filter_map(|plot| plot.base64_uri.as_deref());
    logs.into_iter().chain(figures.map(|url| json!({"type": "image", "url": url}))).collect()
}

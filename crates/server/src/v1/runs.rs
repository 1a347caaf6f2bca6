//! `/v1/runs`: one run, in a fresh sandbox.

use axum::extract::State;
use axum::routing::post;
use axum::{Json, Router};
use belljar::{HostPaths, Outcome, RunRequest};

use crate::http::app::App;
use crate::http::body::Body;
use crate::http::problem::Problem;
use crate::service::owner::Owner;

pub(super) fn routes() -> Router<App> {
    Router::new().route("/v1/runs", post(run))
}

async fn run(
    State(app): State<App>,
    owner: Owner,
    Body(asked): Body<RunRequest>,
) -> Result<Json<Outcome>, Problem> {
    let request = asked.into_request(HostPaths::Refused).map_err(belljar::Error::from)?;
    let run = app.service().run(&owner, request).await?;
    Ok(Json(run.outcome))
}

//! Whether the server is well, and what it has done.

use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::get;

use super::app::App;
use super::problem::Problem;
use crate::service::owner::Owner;

/// How long an answer of `/readyz` stands, so that asking costs no more than a run now and then.
const STANDS: Duration = Duration::from_secs(2);
/// Time that the run which proves it may take.
const PROOF_TIME: Duration = Duration::from_secs(10);

/// `/healthz`: the process answers. `/readyz`: it runs code. `/metrics`: figures, for Prometheus.
pub(crate) fn routes() -> Router<App> {
    Router::new()
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/readyz", get(ready))
        .route("/metrics", get(metrics))
}

async fn ready(State(app): State<App>) -> Response {
    // Those that ask at the same time wait for one run.
    let mut found = app.readiness().lock().await;
    let is_ready = match *found {
        Some((when, is_ready)) if when.elapsed() < STANDS => is_ready,
        _ => proves(&app).await,
    };
    *found = Some((Instant::now(), is_ready));
    drop(found);
    if is_ready {
        let held = app.lockdown().get();
        let held = held.map(|held| format!("lock-down: {held}\n")).unwrap_or_default();
        format!("ready\n{held}").into_response()
    } else {
        let detail = "the server does not run code";
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, "not_ready", detail).into_response()
    }
}

/// Runs something, beside the runs of clients: that those wait is no reason to take the server for broken.
async fn proves(app: &App) -> bool {
    if app.stopping().is_cancelled() {
        return false;
    }
    let proof = app.service().runtime().probe(PROOF_TIME);
    matches!(tokio::time::timeout(PROOF_TIME, proof).await, Ok(Ok(true)))
}

/// The figures are of all accounts together, so they are told to operators alone.
async fn metrics(State(app): State<App>, owner: Owner) -> Result<impl IntoResponse, Problem> {
    const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    if !app.keys().are_for_operator(&owner) {
        let detail = "the figures of all accounts are for operators";
        let problem = Problem::new(StatusCode::FORBIDDEN, "not_operator", detail);
        return Err(problem.hint("give the key operator = true in the file of keys"));
    }
    Ok(([(CONTENT_TYPE, OPEN_METRICS)], app.service().figures()))
}

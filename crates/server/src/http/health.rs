//! Health checks and metrics.

use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::get;

use super::app::App;
use super::problem::Problem;

/// Media type of the metrics.
pub(crate) const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// How long a result of `/readyz` is reused, which bounds the cost of health checks.
const STANDS: Duration = Duration::from_secs(2);
/// Time limit of the test run.
const PROOF_TIME: Duration = Duration::from_secs(10);

/// `/healthz`: the process responds. `/readyz`: the server can run code. `/metrics`: Prometheus
/// metrics.
pub(crate) fn routes() -> Router<App> {
    Router::new()
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/readyz", get(ready))
        .route("/metrics", get(metrics))
}

async fn ready(State(app): State<App>) -> Response {
    // Concurrent requests wait for the same test run.
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
        let detail = "the server cannot run code";
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, "not_ready", detail).into_response()
    }
}

/// Runs a test outside the clients' queue, because a full queue is not a failure.
async fn proves(app: &App) -> bool {
    if app.stopping().is_cancelled() {
        return false;
    }
    let proof = app.service().runtime().probe(PROOF_TIME);
    matches!(tokio::time::timeout(PROOF_TIME, proof).await, Ok(Ok(true)))
}

/// Metrics cover all accounts, so only operators can read them.
async fn metrics(State(app): State<App>, headers: HeaderMap) -> Result<impl IntoResponse, Problem> {
    check_operator(&app, &headers)?;
    Ok(([(CONTENT_TYPE, OPEN_METRICS)], app.service().metrics()))
}

/// Fails if the request is not an operator's.
pub(crate) fn check_operator(app: &App, headers: &HeaderMap) -> Result<(), Problem> {
    let owner = app.keys().owner_of(headers).ok_or_else(Problem::no_key)?;
    if !app.keys().are_for_operator(&owner) {
        let detail = "only operators can read metrics";
        let problem = Problem::new(StatusCode::FORBIDDEN, "not_operator", detail);
        return Err(problem.hint("set operator = true for the key in the key file"));
    }
    Ok(())
}

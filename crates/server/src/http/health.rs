//! Whether the server is well, and what it has done.

use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use belljar::Request;

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
        "ready\n".into_response()
    } else {
        let detail = "the server does not run code";
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, "not_ready", detail).into_response()
    }
}

/// Runs something, and looks at what came of it.
async fn proves(app: &App) -> bool {
    let request = Request::new("print(6 * 7)").image("core").timeout(PROOF_TIME);
    let run = app.service().run(&Owner::local(), request);
    match tokio::time::timeout(PROOF_TIME, run).await {
        Ok(Ok(run)) => run.outcome.stdout == "42\n",
        _ => false,
    }
}

async fn metrics(State(app): State<App>, _: Owner) -> impl IntoResponse {
    const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    ([(CONTENT_TYPE, OPEN_METRICS)], app.service().figures())
}

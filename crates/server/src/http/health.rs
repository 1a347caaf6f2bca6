//! Whether the server is well.

use axum::Router;
use axum::routing::get;

use super::app::App;

/// `/healthz`: the process answers.
pub(crate) fn routes() -> Router<App> {
    Router::new().route("/healthz", get(|| async { "ok\n" }))
}

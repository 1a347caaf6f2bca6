//! The one router, in which the faces come together.

use axum::Router;
use axum::extract::DefaultBodyLimit;
use tower_http::catch_panic::CatchPanicLayer;

use crate::http::app::App;
use crate::http::health;
use crate::{dify, e2b, judge0, jupyter, librechat, mcp, piston, sandbox_fusion, v1};

/// Everything that a server answers.
///
/// The paths of two faces never meet: where one would claim another's (as E2B's interpreter has
/// `/execute` and its control plane `/sandboxes`), it is told apart by header or host in front of the
/// others, in [`App`]'s outermost layers.
pub fn router(app: App) -> Router {
    let body_bytes = app.settings().body_bytes;
    let router = Router::new()
        .merge(health::routes())
        .merge(mcp::routes())
        .merge(v1::routes())
        .merge(dify::routes())
        .merge(sandbox_fusion::routes())
        .merge(librechat::routes())
        .merge(piston::routes())
        .merge(judge0::routes())
        .merge(jupyter::routes());
    e2b::attach(router, &app)
        .layer(DefaultBodyLimit::max(body_bytes))
        .layer(CatchPanicLayer::new())
        .with_state(app)
}

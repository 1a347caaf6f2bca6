//! belljar's own API.

mod batch;
mod calls;
mod checkpoints;
mod create;
mod docs;
mod files;
#[cfg(feature = "fuzzing")]
pub(crate) mod fuzzing;
mod images;
mod openapi;
mod operation;
mod queries;
mod runs;
mod session_runs;
mod sessions;
mod streams;
mod terminal;

use std::sync::Arc;

use axum::middleware::from_fn_with_state;
use axum::{Extension, Router};

use crate::http::app::App;
use crate::http::idempotency::remember;
use crate::http::streams::Streams;
use operation::Operation;

/// Routes below `/v1`, built from the same table of operations as the OpenAPI document.
pub(crate) fn routes(app: &App) -> Router<App> {
    let operations = operations();
    let documents = docs::routes(&operations);
    let add = |router: Router<App>, one: Operation| {
        let handler = if one.creates() {
            one.handler.layer(from_fn_with_state(app.clone(), remember))
        } else {
            one.handler
        };
        router.route(one.path, handler)
    };
    let calls = Arc::new(calls::Calls::default());
    let streams = Arc::new(Streams::new(Arc::clone(app.service().streams())));
    operations.into_iter().fold(documents, add).layer(Extension(calls)).layer(Extension(streams))
}

/// All operations in the order of the documents.
fn operations() -> Vec<Operation> {
    [
        runs::operations(),
        batch::operations(),
        sessions::operations(),
        session_runs::operations(),
        calls::operations(),
        streams::operations(),
        files::operations(),
        queries::operations(),
        checkpoints::operations(),
        terminal::operations(),
        images::operations(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

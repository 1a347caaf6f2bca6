//! `/v1/streams`: streams of events after their connections were lost.

use std::sync::Arc;

use axum::Extension;
use axum::extract::Path;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use axum::routing::{delete, get};

use super::operation::{EVENTS, Operation};
use crate::http::problem::Problem;
use crate::http::streams::Streams;
use crate::service::owner::Owner;

pub(super) fn operations() -> Vec<Operation> {
    vec![
        Operation::new(
            "GET",
            "/v1/streams/{id}",
            get(resume),
            "Resumes the stream of a run that was started with this `stream`, after the event whose number \
             is in `Last-Event-ID`, or from its start. An earlier connection to it ends. Send it to the \
             server that ran the code.",
        )
        .answers_as(200, "Events named by their types; the last is `outcome`", EVENTS, None),
        Operation::new(
            "DELETE",
            "/v1/streams/{id}",
            delete(end),
            "Ends a stream. Its run is interrupted, as if the client had disconnected.",
        )
        .ends(204, "Ended"),
    ]
}

async fn resume(
    owner: Owner,
    Extension(streams): Extension<Arc<Streams>>,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let after = match headers.get("last-event-id").map(|value| value.to_str()) {
        None => 0,
        Some(text) => text.ok().and_then(|text| text.trim().parse().ok()).ok_or_else(|| {
            let detail = "Last-Event-ID is not the number of an event";
            Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "bad_field", detail)
        })?,
    };
    streams.find(&owner, &id)?.resumed(after).await
}

async fn end(
    owner: Owner,
    Extension(streams): Extension<Arc<Streams>>,
    Path(id): Path<String>,
) -> Result<StatusCode, Problem> {
    streams.end(&owner, &id)?;
    Ok(StatusCode::NO_CONTENT)
}

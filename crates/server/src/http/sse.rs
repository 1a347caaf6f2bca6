//! Runs as server-sent events.

use std::convert::Infallible;
use std::time::Duration;

use axum::http::header::ACCEPT;
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use axum::response::sse::{Event as SentEvent, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use belljar::event::{Event, EventReader};
use futures_util::stream;
use serde::Serialize;
use tokio_util::task::AbortOnDropHandle;

use super::problem::Problem;

/// Interval of keep-alive comments while a run is silent.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// Whether a client requests events instead of a single document.
pub(crate) fn is_asked_for(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    accepted
        .flat_map(|value| value.split(','))
        .any(|one| one.split(';').next().is_some_and(|media| media.trim() == "text/event-stream"))
}

/// Streams a run's events, each named by its type, and finally `outcome` with the result of `run`.
/// If the run cannot start, the response is its problem. If the client disconnects, `run` is
/// dropped.
pub(crate) async fn answer<T: Serialize + Send + 'static>(
    mut events: EventReader,
    run: impl Future<Output = Result<T, Problem>> + Send + 'static,
) -> Result<Response, Problem> {
    // On its own task, so that guest code does not delay its events.
    let run = AbortOnDropHandle::new(tokio::spawn(run));
    let Some(first) = events.next().await else {
        let outcome = finished(run).await?;
        return Ok(respond(stream::iter([Ok(last(Ok(outcome)))])));
    };
    let rest = Rest {
        first: Some(first),
        events,
        run: Some(run),
    };
    Ok(respond(stream::unfold(rest, Rest::next)))
}

/// The events not sent yet.
struct Rest<T> {
    first: Option<Event>,
    events: EventReader,
    run: Option<AbortOnDropHandle<Result<T, Problem>>>,
}

impl<T: Serialize> Rest<T> {
    async fn next(mut self) -> Option<(Result<SentEvent, Infallible>, Self)> {
        let run = self.run.take()?;
        let event = match self.first.take() {
            Some(first) => Some(first),
            None => self.events.next().await,
        };
        match event {
            Some(event) => {
                self.run = Some(run);
                Some((Ok(sent(&event)), self))
            }
            None => Some((Ok(last(finished(run).await)), self)),
        }
    }
}

async fn finished<T>(run: AbortOnDropHandle<Result<T, Problem>>) -> Result<T, Problem> {
    run.await.unwrap_or_else(|error| {
        tracing::error!(%error, "a run failed unexpectedly");
        Err(Problem::internal("the run failed unexpectedly"))
    })
}

fn sent(event: &Event) -> SentEvent {
    let json = serde_json::to_value(event).unwrap_or_default();
    let name = json.get("type").and_then(|name| name.as_str()).unwrap_or("event").to_owned();
    SentEvent::default().event(name).data(json.to_string())
}

fn last<T: Serialize>(outcome: Result<T, Problem>) -> SentEvent {
    let (name, json) = match outcome {
        Ok(outcome) => ("outcome", serde_json::to_string(&outcome)),
        Err(problem) => ("problem", serde_json::to_string(&problem)),
    };
    SentEvent::default().event(name).data(json.unwrap_or_default())
}

fn respond(
    events: impl stream::Stream<Item = Result<SentEvent, Infallible>> + Send + 'static,
) -> Response {
    let sse = Sse::new(events).keep_alive(KeepAlive::new().interval(KEEP_ALIVE));
    let mut response = sse.into_response();
    // Disables buffering in proxies.
    response
        .headers_mut()
        .insert(HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no"));
    response
}

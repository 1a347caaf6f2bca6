//! Runs as server-sent events.

use std::convert::Infallible;
use std::future::{pending, ready};
use std::time::Duration;

use axum::http::header::ACCEPT;
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use axum::response::sse::{Event as SentEvent, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use belljar::event::{Event, EventReader};
use futures_util::{StreamExt, stream};
use serde::Serialize;
use tokio::sync::mpsc;
use tokio::task::JoinError;
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

/// The sources of a stream's events before the outcome.
#[derive(Default)]
pub(crate) struct Watched {
    /// The run's own events.
    pub events: Option<EventReader>,
    /// Calls for the client to answer.
    pub calls: Option<mpsc::Receiver<SentEvent>>,
    /// Dropped with the stream.
    pub held: Option<Box<dyn Send>>,
}

/// Streams a run's events, each named by its type, and finally `outcome` with the result of `run`.
/// If the run cannot start, the response is its problem. If the client disconnects, `run` is
/// dropped.
pub(crate) async fn answer<T: Serialize + Send + 'static>(
    watched: Watched,
    run: impl Future<Output = Result<T, Problem>> + Send + 'static,
) -> Result<Response, Problem> {
    let mut rest = Rest {
        watched,
        // On its own task, so that guest code does not delay its events.
        run: Some(AbortOnDropHandle::new(tokio::spawn(run))),
    };
    let first = match rest.next().await {
        Some(Told::Event(event)) => event,
        Some(Told::Outcome(outcome)) => last(Ok(outcome?)),
        None => return Err(Problem::internal("the run was lost")),
    };
    let others = stream::unfold(rest, |mut rest| async {
        let event = match rest.next().await? {
            Told::Event(event) => event,
            Told::Outcome(outcome) => last(outcome),
        };
        Some((Ok(event), rest))
    });
    Ok(respond(stream::once(ready(Ok(first))).chain(others)))
}

/// The events not sent yet.
struct Rest<T> {
    watched: Watched,
    run: Option<AbortOnDropHandle<Result<T, Problem>>>,
}

enum Told<T> {
    Event(SentEvent),
    Outcome(Result<T, Problem>),
}

impl<T> Rest<T> {
    /// The next event; after the last one the outcome, once.
    async fn next(&mut self) -> Option<Told<T>> {
        let run = self.run.as_mut()?;
        let Watched { events, calls, .. } = &mut self.watched;
        let ended = loop {
            tokio::select! {
                biased;
                call = call_of(calls) => match call {
                    Some(call) => return Some(Told::Event(call)),
                    None => *calls = None,
                },
                event = next_of(events) => match event {
                    Some(event) => return Some(Told::Event(sent(&event))),
                    None => *events = None,
                },
                ended = &mut *run, if events.is_none() => break ended,
            }
        };
        self.run = None;
        Some(Told::Outcome(finished(ended)))
    }
}

async fn next_of(events: &mut Option<EventReader>) -> Option<Event> {
    match events {
        Some(events) => events.next().await,
        None => pending().await,
    }
}

async fn call_of(calls: &mut Option<mpsc::Receiver<SentEvent>>) -> Option<SentEvent> {
    match calls {
        Some(calls) => calls.recv().await,
        None => pending().await,
    }
}

fn finished<T>(ended: Result<Result<T, Problem>, JoinError>) -> Result<T, Problem> {
    ended.unwrap_or_else(|error| {
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

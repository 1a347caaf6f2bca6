//! Runs as server-sent events.

use std::convert::Infallible;
use std::future::{pending, ready};
use std::time::Duration;

use axum::http::header::ACCEPT;
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use axum::response::sse::{Event as SentEvent, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use belljar::event::{Event, EventReader, Stream};
use futures_util::{StreamExt, stream};
use serde::Serialize;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::task::JoinError;
use tokio_util::task::AbortOnDropHandle;

use super::output::OutputReader;
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

/// An event of a stream.
#[derive(Clone)]
pub(crate) struct Sent {
    pub name: String,
    /// JSON on one line.
    pub data: String,
}

impl Sent {
    pub(crate) fn new(name: &str, data: &Value) -> Self {
        Self {
            name: name.to_owned(),
            data: data.to_string(),
        }
    }

    /// The event as it is written.
    pub(super) fn written(self) -> SentEvent {
        SentEvent::default().event(self.name).data(self.data)
    }
}

/// The sources of a stream's events before the outcome.
#[derive(Default)]
pub(crate) struct Watched {
    /// The run's own events.
    pub events: Option<EventReader>,
    /// The run's output alone.
    pub output: Option<OutputReader>,
    /// Calls for the client to answer.
    pub calls: Option<mpsc::Receiver<Sent>>,
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
    let mut rest = Rest::begin(watched, run);
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
        Some((event.written(), rest))
    });
    Ok(respond(stream::once(ready(first.written())).chain(others)))
}

/// The events not sent yet.
pub(super) struct Rest<T> {
    watched: Watched,
    run: Option<AbortOnDropHandle<Result<T, Problem>>>,
}

pub(super) enum Told<T> {
    Event(Sent),
    Outcome(Result<T, Problem>),
}

impl<T: Send + 'static> Rest<T> {
    /// Starts the run.
    pub(super) fn begin(
        watched: Watched,
        run: impl Future<Output = Result<T, Problem>> + Send + 'static,
    ) -> Self {
        Self {
            watched,
            // On its own task, so that guest code does not delay its events.
            run: Some(AbortOnDropHandle::new(tokio::spawn(run))),
        }
    }

    /// The next event; after the last one the outcome, once.
    pub(super) async fn next(&mut self) -> Option<Told<T>> {
        let run = self.run.as_mut()?;
        let Watched {
            events,
            output,
            calls,
            ..
        } = &mut self.watched;
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
                text = text_of(output) => match text {
                    Some((stream, text)) => return Some(Told::Event(written(stream, &text))),
                    None => *output = None,
                },
                ended = &mut *run, if events.is_none() && output.is_none() => break ended,
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

async fn text_of(output: &mut Option<OutputReader>) -> Option<(Stream, String)> {
    match output {
        Some(output) => output.next().await,
        None => pending().await,
    }
}

async fn call_of(calls: &mut Option<mpsc::Receiver<Sent>>) -> Option<Sent> {
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

fn written(stream: Stream, text: &str) -> Sent {
    let name = if stream == Stream::Stderr {
        "stderr"
    } else {
        "stdout"
    };
    Sent::new(name, &json!({"type": name, "text": text}))
}

fn sent(event: &Event) -> Sent {
    let json = serde_json::to_value(event).unwrap_or_default();
    let name = json.get("type").and_then(|name| name.as_str()).unwrap_or("event");
    Sent::new(name, &json)
}

pub(super) fn last<T: Serialize>(outcome: Result<T, Problem>) -> Sent {
    let (name, json) = match outcome {
        Ok(outcome) => ("outcome", serde_json::to_string(&outcome)),
        Err(problem) => ("problem", serde_json::to_string(&problem)),
    };
    Sent {
        name: name.to_owned(),
        data: json.unwrap_or_default(),
    }
}

pub(super) fn respond(events: impl stream::Stream<Item = SentEvent> + Send + 'static) -> Response {
    let sse =
        Sse::new(events.map(Ok::<_, Infallible>)).keep_alive(KeepAlive::new().interval(KEEP_ALIVE));
    let mut response = sse.into_response();
    // Disables buffering in proxies.
    response
        .headers_mut()
        .insert(HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no"));
    response
}

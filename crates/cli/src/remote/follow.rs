//! A run on a server: its events as they come, and its outcome.

use std::io;
use std::pin::Pin;
use std::time::{Duration, Instant};

use belljar::Outcome;
use bytes::Bytes;
use hyper::{Method, StatusCode};
use serde_json::{Value, json};
use tokio::time::sleep;

use super::RemoteError;
use super::link::{Ask, Link, pause};
use super::order::{Order, random};
use super::stream::{Events, Sent};

/// How often a stream is resumed without an event in between.
const MAX_FAILURES: u32 = 5;
/// How long after the first attempt a request is sent again that a server does not know. Later the
/// server may have forgotten that it ran the code.
const AGAIN: Duration = Duration::from_secs(30);
/// Maximum length of the ids of runs and calls.
const MAX_ID: usize = 128;

/// The end of a run.
pub(crate) struct Answer {
    pub outcome: Outcome,
    /// Id by which the server has its files.
    pub run: Option<String>,
}

/// Which events a run has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    Nothing,
    Output,
    Everything,
}

/// Receives the events of a run.
pub(crate) trait Follower {
    /// An event, and its type.
    fn event(&self, name: &str, event: &Value);

    /// A line for `input()`; `None` at the end of the input.
    fn line(&self) -> impl Future<Output = Option<String>>;
}

/// A question that is being answered: the id of the call, and the answer.
type Question<'a> = Option<(String, Pin<Box<dyn Future<Output = Option<String>> + 'a>>)>;

/// Runs an order, and resumes its stream where a connection was lost. If this is dropped, the run
/// goes on for half a minute, unless [`Run::end`] ends it.
pub(crate) async fn follow(
    link: &Link,
    run: &Run,
    mut order: Order,
    told: Told,
    asks: bool,
    follower: &impl Follower,
) -> Result<Answer, RemoteError> {
    order.set("stream", run.stream.as_str());
    order.set("client_input", asks);
    order.set(
        "events",
        match told {
            Told::Nothing => Value::Bool(false),
            Told::Output => "output".into(),
            Told::Everything => Value::Bool(true),
        },
    );
    let (body, media) = order.body();
    let (mut seen, mut failures, begun) = (0, 0, Instant::now());
    let mut question: Question<'_> = None;
    loop {
        let opened =
            open(link, run, seen, (failures > 0).then_some(begun), (&body, &media), &order).await;
        let mut events = match opened {
            Ok(events) => events,
            // It was asked several times.
            Err(error @ RemoteError::Unreachable { .. }) if failures == 0 && seen == 0 => {
                return Err(error);
            }
            Err(error) if failures < MAX_FAILURES && error.is_lost() => {
                sleep(pause(failures)).await;
                failures += 1;
                continue;
            }
            Err(error) => return Err(error),
        };
        let lost = loop {
            let next = tokio::select! {
                biased;
                next = events.next(link) => next,
                typed = answer(&mut question) => {
                    let id = question.take().map(|(id, _)| id).unwrap_or_default();
                    reply(link, &id, typed).await?;
                    continue;
                }
            };
            let event = match next {
                Ok(Some(event)) => event,
                Ok(None) => break link.cut(),
                Err(error) if error.is_lost() => break error,
                Err(error) => return Err(error),
            };
            if event.id <= seen {
                continue;
            }
            if event.id != seen + 1 {
                return Err(link.strange(StatusCode::OK));
            }
            (seen, failures) = (event.id, 0);
            let strange = |_| link.strange(StatusCode::OK);
            match event.name.as_str() {
                "outcome" => return ended(link, &event),
                "problem" => {
                    let problem = serde_json::from_slice(&event.data).map_err(strange)?;
                    return Err(RemoteError::Refused(problem));
                }
                "input" => question = Some((call(link, &event)?, Box::pin(follower.line()))),
                "call_cancelled" => question = None,
                name => {
                    let data = serde_json::from_slice(&event.data).map_err(strange)?;
                    follower.event(name, &data);
                }
            }
        };
        if failures >= MAX_FAILURES {
            return Err(lost);
        }
        sleep(pause(failures)).await;
        failures += 1;
    }
}

/// The id of a run's stream.
pub(crate) struct Run {
    stream: String,
}

impl Run {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self { stream: random()? })
    }

    /// Ends a run whose caller no longer awaits its outcome.
    pub(crate) async fn end(&self, link: &Link) {
        let path = format!("/v1/streams/{}", self.stream);
        // A server that does not hear of it ends the run by itself.
        let _ = link.ask(&Ask::new(Method::DELETE, &path)).await;
    }
}

/// Opens the stream after an event: by the request, or by its id if the request may have arrived,
/// which was first sent at `sent`.
async fn open(
    link: &Link,
    run: &Run,
    seen: u64,
    sent: Option<Instant>,
    (body, media): (&Bytes, &str),
    order: &Order,
) -> Result<Events, RemoteError> {
    if seen > 0 || sent.is_some() {
        let path = format!("/v1/streams/{}", run.stream);
        let ask = Ask {
            events: Some(seen),
            silence: order.silence,
            ..Ask::new(Method::GET, &path)
        };
        match link.ask(&ask).await {
            Ok(response) => return Ok(Events::of(response.into_body())),
            // The request has not arrived, or the server has started again.
            Err(error)
                if seen == 0
                    && sent.is_some_and(|sent| sent.elapsed() < AGAIN)
                    && error.has_code("stream.not_found") =>
            {
                if order.is_in_session() {
                    return Err(link.forgotten());
                }
            }
            Err(error) => return Err(error),
        }
    }
    let ask = Ask {
        body: body.clone(),
        media,
        events: Some(0),
        silence: order.silence,
        // Whether it has arrived is asked for first.
        is_repeatable: false,
        ..Ask::new(Method::POST, &order.path)
    };
    Ok(Events::of(link.ask(&ask).await?.into_body()))
}

/// Waits for the answer to a question, if there is one.
async fn answer(question: &mut Question<'_>) -> Option<String> {
    match question {
        Some((_, answer)) => answer.await,
        None => std::future::pending().await,
    }
}

/// Sends the answer to a call. The code may no longer wait for it.
async fn reply(link: &Link, id: &str, typed: Option<String>) -> Result<(), RemoteError> {
    let path = format!("/v1/calls/{id}");
    let ask = Ask {
        body: json!({"answer": typed}).to_string().into(),
        // It is answered once; after that the call is unknown.
        is_repeatable: true,
        ..Ask::new(Method::POST, &path)
    };
    match link.ask(&ask).await {
        Err(error) if !error.has_code("call.not_found") => Err(error),
        _ => Ok(()),
    }
}

/// The id of a call, which becomes part of a path.
fn call(link: &Link, event: &Sent) -> Result<String, RemoteError> {
    let data: Value = serde_json::from_slice(&event.data).unwrap_or_default();
    let id = data["id"].as_str().filter(|id| is_id(id));
    id.map(str::to_owned).ok_or_else(|| link.strange(StatusCode::OK))
}

/// Whether a text is an id, which may be part of a path.
pub(super) fn is_id(id: &str) -> bool {
    !id.is_empty()
        && id.len() <= MAX_ID
        && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

fn ended(link: &Link, event: &Sent) -> Result<Answer, RemoteError> {
    let value = serde_json::from_slice(&event.data).map_err(|_| link.strange(StatusCode::OK))?;
    read(link, value)
}

/// Runs an order and returns its outcome alone.
pub(crate) async fn plain(link: &Link, order: &Order) -> Result<Answer, RemoteError> {
    let (body, media) = order.body();
    let ask = Ask {
        body,
        media: &media,
        silence: order.silence,
        // It does nothing outside of its sandbox.
        is_repeatable: true,
        ..Ask::new(Method::POST, &order.path)
    };
    read(link, link.json(&ask).await?)
}

fn read(link: &Link, mut value: Value) -> Result<Answer, RemoteError> {
    let strange = || link.strange(StatusCode::OK);
    let map = value.as_object_mut().ok_or_else(strange)?;
    map.remove("id");
    let run = match map.remove("run") {
        None => None,
        Some(Value::String(run)) if is_id(&run) => Some(run),
        Some(_) => return Err(strange()),
    };
    let outcome = serde_json::from_value(value).map_err(|_| strange())?;
    Ok(Answer { outcome, run })
}

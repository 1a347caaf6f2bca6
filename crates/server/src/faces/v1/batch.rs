//! `/v1/batch`: many runs, one JSON request per line, answered while further lines are read.

use std::io;
use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use belljar::request::{HostPaths, RunRequest};
use bytes::Bytes;
use futures_util::{Stream, StreamExt, stream};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::io::{AsyncBufRead, AsyncBufReadExt, BufReader};
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::io::StreamReader;
use tokio_util::task::AbortOnDropHandle;

use super::operation::{NDJSON, Operation};
use super::runs::RunAnswer;
use crate::http::app::App;
use crate::http::extract::{Query, StreamedBody, check_json};
use crate::http::problem::Problem;
use crate::http::request_body::Reservation;
use crate::http::upload::pump;
use crate::service::error::ServiceError;
use crate::service::owner::Owner;

/// Maximum length of a line, in bytes.
const MAX_LINE: usize = 32 << 20;
/// Maximum number of concurrent runs of one batch.
const MAX_AT_ONCE: usize = 16;
/// How long reading waits for earlier lines to finish when they use all of the body memory.
const MAX_PAUSE: Duration = Duration::from_mins(10);
/// How long a line waits for its key's limit before it is answered with an error.
const MAX_WAIT: Duration = Duration::from_mins(1);

pub(super) fn operations() -> Vec<Operation> {
    vec![
        Operation::new(
            "POST",
            "/v1/batch",
            post(batch),
            "Runs each line of the body, a JSON request, and answers with one line per request: the \
             outcome, or `line`, `code` and `error` if it cannot be run. Answers are sent while \
             more lines are read, so a client must read while it writes.",
        )
        .query::<bool>("unordered", "`true` sends each answer when it is ready instead of in the order of the lines")
        .takes_as(NDJSON, None)
        .answers_as(200, "One answer per line", NDJSON, None),
    ]
}

#[derive(Deserialize)]
struct Options {
    #[serde(default)]
    unordered: bool,
}

async fn batch(
    State(app): State<App>,
    owner: Owner,
    Query(options): Query<Options>,
    StreamedBody(body): StreamedBody,
) -> Result<Response, Problem> {
    let allowed = owner.limits().concurrent_runs.map_or(MAX_AT_ONCE, |runs| runs as usize);
    let at_once = allowed.clamp(1, MAX_AT_ONCE);
    let room = Some((app.clone(), owner.clone()));
    let runs = lines(body, room).map(move |line| answer(app.clone(), owner.clone(), line));
    let answers = if options.unordered {
        runs.buffer_unordered(at_once).boxed()
    } else {
        runs.buffered(at_once).boxed()
    };
    let body = Body::from_stream(answers.map(Ok::<Bytes, io::Error>));
    Ok(([(CONTENT_TYPE, NDJSON)], body).into_response())
}

/// A line with its number, or the error that ended the batch.
pub(super) type Line = (u64, Result<Text, String>);

/// A line and the body memory that it holds.
#[derive(Default)]
pub(super) struct Text {
    bytes: Vec<u8>,
    room: Option<Reservation>,
}

/// Splits a body into lines and skips empty ones. With `room`, lines take body memory of that
/// owner.
pub(super) fn lines(body: Body, room: Option<(App, Owner)>) -> impl Stream<Item = Line> + Send {
    let reader = BufReader::new(StreamReader::new(ReceiverStream::new(pump(body))));
    stream::unfold(Some((Box::pin(reader), room, 0)), async |state| {
        let (mut reader, room, mut number) = state?;
        loop {
            number += 1;
            let taking =
                room.clone().map(|(app, owner)| Reservation::new(app, owner).patience(MAX_PAUSE));
            match next_line(&mut reader, taking).await {
                Ok(None) => return None,
                Ok(Some(line)) if line.bytes.trim_ascii().is_empty() => {}
                Ok(Some(line)) => return Some(((number, Ok(line)), Some((reader, room, number)))),
                Err(error) => return Some(((number, Err(error)), None)),
            }
        }
    })
}

async fn next_line(
    reader: &mut (impl AsyncBufRead + Unpin),
    room: Option<Reservation>,
) -> Result<Option<Text>, String> {
    let mut line = Text {
        room,
        ..Text::default()
    };
    loop {
        let broken = |error| format!("the body ended early: {error}");
        let come = reader.fill_buf().await.map_err(broken)?;
        if come.is_empty() {
            return Ok((!line.bytes.is_empty()).then_some(line));
        }
        let end = come.iter().position(|byte| *byte == b'\n');
        let length = end.map_or(come.len(), |end| end + 1);
        line.bytes.extend_from_slice(&come[..length]);
        reader.consume(length);
        if line.bytes.len() > MAX_LINE {
            return Err("the line is longer than 32 MiB".into());
        }
        if let Some(room) = &mut line.room {
            room.take(length).await.map_err(|error| error.to_string())?;
        }
        if end.is_some() {
            return Ok(Some(line));
        }
    }
}

/// The answer to a line that cannot be run.
#[derive(Serialize)]
struct Refused {
    #[serde(skip_serializing_if = "Value::is_null")]
    id: Value,
    line: u64,
    code: &'static str,
    error: String,
}

async fn answer(app: App, owner: Owner, (line, text): Line) -> Bytes {
    // On its own task, so that a batch can use all processors.
    let run = AbortOnDropHandle::new(tokio::spawn(run(app, owner, text)));
    let (id, answer) = match run.await {
        Ok(ran) => ran,
        Err(_) => (Value::Null, Err(("internal", "the run was lost".into()))),
    };
    let mut json = match answer {
        Ok(answer) => serde_json::to_vec(&answer),
        Err((code, error)) => serde_json::to_vec(&Refused {
            id,
            line,
            code,
            error,
        }),
    }
    .unwrap_or_default();
    json.push(b'\n');
    json.into()
}

fn parse(line: &[u8]) -> Result<RunRequest, (Value, (&'static str, String))> {
    check_json(line).map_err(|why| (Value::Null, ("bad_body", why)))?;
    serde_json::from_slice(line).map_err(|error| {
        // Valid JSON that is not a valid request may still have an id.
        let line: Value = serde_json::from_slice(line).unwrap_or_default();
        let id = line.get("id").cloned().unwrap_or_default();
        (id, ("bad_field", error.to_string()))
    })
}

type Answered = Result<RunAnswer, (&'static str, String)>;

async fn run(app: App, owner: Owner, text: Result<Text, String>) -> (Value, Answered) {
    let asked: Result<RunRequest, _> = match &text {
        Ok(Text { bytes, .. }) => parse(bytes),
        Err(error) => Err((Value::Null, ("bad_body", error.clone()))),
    };
    let mut asked = match asked {
        Ok(asked) => asked,
        Err((id, error)) => return (id, Err(error)),
    };
    let id = asked.id.take();
    let told = |error: ServiceError| (error.code(), Problem::from(error).detail);
    let request = match asked.into_request(HostPaths::Refused) {
        Ok(request) => request,
        Err(refusal) => return (id, Err(told(refusal.into()))),
    };
    let ran = loop {
        match app.service().run(&owner, request.clone()).await {
            Err(ServiceError::Limit {
                retry_after: Some(wait),
                ..
            }) if wait <= MAX_WAIT => tokio::time::sleep(wait).await,
            ran => break ran,
        }
    };
    let answer = ran.map_err(told).map(|run| {
        let (outcome, run) = app.service().keep(&owner, run);
        RunAnswer {
            id: id.clone(),
            run,
            outcome,
        }
    });
    (id, answer)
}

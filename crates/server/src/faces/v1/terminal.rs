//! `/v1/sessions/{id}/terminal`: an interactive prompt over a WebSocket.

use axum::Extension;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::ws::{Message, Utf8Bytes, WebSocket, WebSocketUpgrade};
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use belljar::event::{Event, Running, Turn};
use belljar::request::Echo;
use belljar::session::Completeness;
use belljar::tool;
use belljar::{Outcome, Request};
use futures_util::stream::SplitSink;
use futures_util::{SinkExt, StreamExt};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::{mpsc, watch};
use tokio_util::task::AbortOnDropHandle;

use super::operation::Operation;
use crate::http::app::App;
use crate::http::body_error::BodyError;
use crate::http::connection::ConnectionState;
use crate::http::extract::check_json;
use crate::http::limiter::Permit;
use crate::http::limits::UNIT;
use crate::http::problem::Problem;
use crate::http::request_body::Reservation;
use crate::http::websocket::{Incoming, going_away, ping, pings};
use crate::lock::lock;
use crate::service::error::ServiceError;
use crate::service::owner::Owner;
use crate::service::session_store::Access;

/// Maximum size of a client's message, in bytes.
const MAX_MESSAGE: usize = 16 << 20;
/// Maximum number of queued runs of one client.
const MAX_WAITING: usize = 64;

pub(super) fn operations() -> Vec<Operation> {
    vec![
        Operation::new(
            "GET",
            "/v1/sessions/{id}/terminal",
            get(open),
            "A WebSocket with an interactive prompt on the session. Messages are JSON. A client sends `run` (`code`), \
             `input` (`text`, or null for the end), `interrupt`, `complete` (`code`, `cursor`) and \
             `is_complete` (`code`), each with an `id` of its choice. It receives the events of its runs, \
             `input` (`prompt`) when the code reads a line, `outcome`, and the responses to its \
             queries, each with that `id`. If the client disconnects, its run is interrupted.",
        )
        .ends(101, "The WebSocket"),
    ]
}

/// A client's message.
#[derive(Deserialize)]
struct Said {
    #[serde(default)]
    id: Value,
    #[serde(flatten)]
    what: What,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum What {
    Run { code: String },
    Input { text: Option<String> },
    Interrupt,
    Complete { code: String, cursor: usize },
    IsComplete { code: String },
}

/// A queued request with its id and the memory that it holds.
type Waiting<T> = (Value, T, Room);

/// Memory of a message, and its share of the memory for queued messages. The share leaves room for
/// the next message, which may be an interrupt.
type Room = (Option<Reservation>, Permit);

/// A query about code that does not run it.
enum Question {
    Complete { code: String, cursor: usize },
    IsComplete { code: String },
}

/// A message to the client.
#[derive(Serialize)]
struct Told<'a, T> {
    id: &'a Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    r#type: Option<&'static str>,
    #[serde(flatten)]
    what: T,
}

async fn open(
    State(app): State<App>,
    owner: Owner,
    Path(id): Path<String>,
    link: Option<Extension<ConnectionState>>,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Result<Response, Problem> {
    let upgrade = upgrade.map_err(|rejection| {
        Problem::new(rejection.status(), "no_websocket", rejection.body_text())
            .hint("use a WebSocket: Connection: Upgrade, Upgrade: websocket")
    })?;
    app.service().listed(&owner, &id).await?;
    let upgrade = upgrade.max_message_size(MAX_MESSAGE).max_frame_size(MAX_MESSAGE);
    let link = link.map(|Extension(link)| link);
    Ok(upgrade.on_upgrade(|socket| Terminal::serve(app, owner, id, (socket, link))).into_response())
}

/// State shared by the two directions of a terminal.
#[derive(Clone)]
struct Terminal {
    app: App,
    owner: Owner,
    /// The id or name of the session.
    session: String,
    /// Messages to send.
    out: mpsc::Sender<Message>,
    /// Number of unanswered runs and queries.
    open: watch::Sender<usize>,
    /// The run that waits for a line of input.
    asked: std::sync::Arc<std::sync::Mutex<Option<tool::Question>>>,
}

impl Terminal {
    async fn serve(
        app: App,
        owner: Owner,
        session: String,
        (socket, link): (WebSocket, Option<ConnectionState>),
    ) {
        let (sink, stream) = socket.split();
        let stream = Incoming::new(stream, link);
        let (out, to_send) = mpsc::channel(16);
        let (runs, to_run) = mpsc::channel(MAX_WAITING);
        let (questions, to_answer) = mpsc::channel(MAX_WAITING);
        let terminal = Self {
            app,
            owner,
            session,
            out,
            open: watch::Sender::new(0),
            asked: std::sync::Arc::default(),
        };
        // Dropping this future drops these tasks, and so their runs.
        let _running = AbortOnDropHandle::new(tokio::spawn(terminal.clone().run_all(to_run)));
        let _answering =
            AbortOnDropHandle::new(tokio::spawn(terminal.clone().answer_all(to_answer)));
        tokio::select! {
            () = send_all(sink, to_send) => {}
            () = terminal.listen(stream, runs, questions) => {}
            () = terminal.farewell() => {}
        }
    }

    /// Closes the connection when the server stops and all requests are answered.
    async fn farewell(&self) {
        self.app.stopping().cancelled().await;
        let _ = self.open.subscribe().wait_for(|open| *open == 0).await;
        let _ = self.out.send(going_away()).await;
        // That message ends the sending task.
        std::future::pending::<()>().await;
    }

    /// Reads the client's messages until it disconnects, times out or sends an invalid message.
    async fn listen(
        &self,
        mut stream: Incoming,
        runs: mpsc::Sender<Waiting<String>>,
        questions: mpsc::Sender<Waiting<Question>>,
    ) {
        while let Some((message, room)) = stream.next().await {
            let text = match message {
                Message::Text(text) => text,
                Message::Close(_) => return,
                _ => continue,
            };
            let said = check_json(text.as_bytes())
                .and_then(|()| serde_json::from_str(&text).map_err(|error| error.to_string()));
            let Said { id, what } = match said {
                Ok(said) => said,
                Err(error) => {
                    let problem = bad_message(error);
                    self.tell(&Value::Null, Some("problem"), problem).await;
                    continue;
                }
            };
            let room = (text.len(), room);
            match what {
                What::Run { code } => self.queue(&runs, (id, code), room, "runs").await,
                What::Input { text } => self.answer(text),
                What::Interrupt => {
                    let interrupted = self.app.service().interrupt(&self.owner, &self.session);
                    if let Err(error) = interrupted.await {
                        self.tell::<Problem>(&id, Some("problem"), error.into()).await;
                    }
                }
                What::Complete { code, cursor } => {
                    let question = Question::Complete { code, cursor };
                    self.queue(&questions, (id, question), room, "questions").await;
                }
                What::IsComplete { code } => {
                    let question = Question::IsComplete { code };
                    self.queue(&questions, (id, question), room, "questions").await;
                }
            }
        }
    }

    /// Queues a request if there is room.
    async fn queue<T>(
        &self,
        to: &mpsc::Sender<Waiting<T>>,
        (id, what): (Value, T),
        (bytes, room): (usize, Option<Reservation>),
        name: &str,
    ) {
        let units = u32::try_from(bytes.div_ceil(UNIT)).unwrap_or(u32::MAX);
        let Some(place) = self.app.waiting().try_acquire(self.owner.name(), units) else {
            let problem = Problem::from(BodyError::NoRoom);
            return self.tell(&id, Some("problem"), problem).await;
        };
        let room = (room, place);
        self.open.send_modify(|open| *open += 1);
        if let Err(mpsc::error::TrySendError::Full((id, ..))) = to.try_send((id, what, room)) {
            let problem = bad_message(format!("{MAX_WAITING} {name} are queued already"));
            self.tell(&id, Some("problem"), problem).await;
            self.answered();
        }
    }

    fn answered(&self) {
        self.open.send_modify(|open| *open -= 1);
    }

    /// Answers queries in order. They wait for the session; other messages do not wait for them.
    async fn answer_all(self, mut questions: mpsc::Receiver<Waiting<Question>>) {
        while let Some((id, question, _reserved)) = questions.recv().await {
            match question {
                Question::Complete { code, cursor } => {
                    let answer = self.complete(&code, cursor).await;
                    self.tell_answer(&id, "completion", answer).await;
                }
                Question::IsComplete { code } => {
                    let answer = self.is_complete(&code).await;
                    self.tell_answer(&id, "completeness", answer).await;
                }
            }
            self.answered();
        }
    }

    async fn complete(&self, code: &str, cursor: usize) -> Result<Value, ServiceError> {
        let service = self.app.service();
        let session = service.claim(&self.owner, &self.session, Access::Read).await?;
        let found = service.complete(&self.owner, &session, code, cursor).await?;
        Ok(serde_json::json!({"start": found.start, "matches": found.matches}))
    }

    async fn is_complete(&self, code: &str) -> Result<Value, ServiceError> {
        let service = self.app.service();
        let session = service.claim(&self.owner, &self.session, Access::Read).await?;
        Ok(match service.is_complete(&self.owner, &session, code).await? {
            Completeness::Complete => serde_json::json!({"status": "complete"}),
            Completeness::Incomplete { indent } => {
                serde_json::json!({"status": "incomplete", "indent": indent})
            }
            _ => serde_json::json!({"status": "invalid"}),
        })
    }

    /// Runs the client's code in order.
    async fn run_all(self, mut runs: mpsc::Receiver<Waiting<String>>) {
        while let Some((id, code, _reserved)) = runs.recv().await {
            self.run(id, code).await;
            self.answered();
        }
    }

    async fn run(&self, id: Value, code: String) {
        let session = match self.app.service().claim(&self.owner, &self.session, Access::Run).await
        {
            Ok(session) => session,
            Err(error) => return self.tell::<Problem>(&id, Some("problem"), error.into()).await,
        };
        let request = Request::new(code).echo(Echo::Display);
        let mut running = Running::of(request, |request| {
            self.app.service().run_claimed(&self.owner, session, request)
        });
        while let Some(turn) = running.next().await {
            match turn {
                Turn::Event(event) => self.tell::<Event>(&id, None, event).await,
                Turn::Question(question) => self.ask(&id, question).await,
                _ => {}
            }
        }
        match running.end().await {
            Ok(outcome) => self.tell::<Outcome>(&id, Some("outcome"), outcome).await,
            Err(error) => self.tell::<Problem>(&id, Some("problem"), error.into()).await,
        }
    }

    /// Asks the client for a line of input.
    async fn ask(&self, id: &Value, question: tool::Question) {
        let prompt = serde_json::json!({"prompt": question.prompt});
        *lock(&self.asked) = Some(question);
        self.tell(id, Some("input"), prompt).await;
    }

    /// Passes a line of input to the run that asked for it.
    fn answer(&self, line: Option<String>) {
        let asked = lock(&self.asked).take();
        if let Some(question) = asked {
            question.answer(line);
        }
    }

    async fn tell_answer(
        &self,
        id: &Value,
        kind: &'static str,
        answer: Result<Value, ServiceError>,
    ) {
        match answer {
            Ok(answer) => self.tell(id, Some(kind), answer).await,
            Err(error) => self.tell::<Problem>(id, Some("problem"), error.into()).await,
        }
    }

    async fn tell<T: Serialize>(&self, id: &Value, kind: Option<&'static str>, what: T) {
        let told = Told {
            id,
            r#type: kind,
            what,
        };
        let text = serde_json::to_string(&told).unwrap_or_default();
        // The client may have disconnected.
        let _ = self.out.send(Message::Text(Utf8Bytes::from(text))).await;
    }
}

/// Sends messages until the last one, and pings the client.
async fn send_all(mut sink: SplitSink<WebSocket, Message>, mut messages: mpsc::Receiver<Message>) {
    let mut pings = pings();
    loop {
        let message = tokio::select! {
            message = messages.recv() => message,
            _ = pings.tick() => Some(ping()),
        };
        let Some(message) = message else {
            return;
        };
        let is_last = matches!(message, Message::Close(_));
        if sink.send(message).await.is_err() || is_last {
            return;
        }
    }
}

fn bad_message(detail: String) -> Problem {
    Problem::new(axum::http::StatusCode::BAD_REQUEST, "bad_message", detail)
}

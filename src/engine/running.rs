//! Runs that their callers follow turn by turn.

use std::io;
use std::pin::Pin;
use std::sync::Arc;

use tokio::sync::oneshot;
use tracing::Instrument;

use crate::api::request::Request;
use crate::api::tenant::Meter;
use crate::api::tool::{Answerer, Call, Question, ToolError};
use crate::api::watch::{Asker, Turn, TurnReader, Watcher};
use crate::engine::run::Run;
use crate::error::Error;

/// A run that its caller follows turn by turn: events, calls to answer and, at the end, the result.
/// [`Runtime::start`](crate::Runtime::start) and [`Session::start`](crate::Session::start) make it.
///
/// The run is a task of its own, so its limits also apply while the caller asks for no turn. It
/// waits for a slow caller as an [`event_channel`](crate::event::event_channel) does. Dropping this
/// cancels it.
///
/// ```no_run
/// # async fn example(runtime: belljar::Runtime) -> Result<(), belljar::Error> {
/// use belljar::event::{EventKind, Turn};
/// use belljar::tool::ToolError;
/// use belljar::{Request, Tool};
/// use serde_json::json;
///
/// let price = Tool::deferred("price", json!({"properties": {"symbol": {"type": "string"}}}));
/// let request = Request::new("import tools\nprint(tools.price('ACME'))").tool(price);
/// let mut running = runtime.start(request);
/// while let Some(turn) = running.next().await {
///     match turn {
///         Turn::Event(event) => {
///             if let EventKind::Stdout { text } = event.kind {
///                 print!("{text}");
///             }
///         }
///         Turn::Call(call) if call.arguments["symbol"] == "ACME" => call.answer(42.5),
///         Turn::Call(call) => call.fail(ToolError::message("no such share")),
///         Turn::Question(question) => question.answer(Some("Ada".into())),
///         _ => {}
///     }
/// }
/// let run = running.end().await?;
/// assert!(run.outcome.success);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Running<T = Run, E = Error> {
    turns: TurnReader,
    ended: oneshot::Receiver<Result<T, E>>,
}

/// The task of a run.
pub(crate) type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

impl<T: Send + 'static, E: From<Error> + Send + 'static> Running<T, E> {
    /// Starts `run`, which gets the request and must pass it on to [`Runtime::run`] or
    /// [`Session::run`]. For callers that do more than these two, such as waiting for a place
    /// first.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime.
    ///
    /// [`Runtime::run`]: crate::Runtime::run
    /// [`Session::run`]: crate::Session::run
    pub fn of<F>(request: Request, run: impl FnOnce(Request) -> F) -> Self
    where
        F: Future<Output = Result<T, E>> + Send + 'static,
    {
        Self::spawn(Self::prepare(request, run))
    }

    /// Starts a prepared run.
    pub(crate) fn spawn((running, work): (Self, Work)) -> Self {
        tokio::spawn(work);
        running
    }

    /// Returns a run and its task, for a caller that starts the task.
    pub(crate) fn prepare<F>(request: Request, run: impl FnOnce(Request) -> F) -> (Self, Work)
    where
        F: Future<Output = Result<T, E>> + Send + 'static,
    {
        let turns = TurnReader::default();
        let asker = turns.asker();
        let run = run(in_turns(request, &turns));
        let meter = Meter::current();
        let (mut sender, ended) = oneshot::channel();
        let work = async move {
            let metered = async move {
                match meter {
                    Some(meter) => meter.scope(run).await,
                    None => run.await,
                }
            };
            let closing = Closing(asker);
            tokio::select! {
                biased;
                // The caller has dropped it.
                () = sender.closed() => {}
                result = metered => {
                    drop(closing);
                    let _ = sender.send(result);
                }
            }
        };
        (Self { turns, ended }, Box::pin(work.in_current_span()))
    }

    /// Waits for the next turn. Returns `None` when the run has ended. Dropping the future loses no
    /// turn.
    pub async fn next(&mut self) -> Option<Turn> {
        self.turns.next().await
    }

    /// Waits for the end of the run and returns its result. Turns that were not read are dropped,
    /// also those to come, so unanswered calls fail.
    ///
    /// # Errors
    ///
    /// As for [`Runtime::run`](crate::Runtime::run) or [`Session::run`](crate::Session::run).
    pub async fn end(self) -> Result<T, E> {
        drop(self.turns);
        self.ended.await.unwrap_or_else(|_| {
            let panicked = io::Error::other("its task has panicked");
            Err(Error::system("finish a run")(panicked).into())
        })
    }
}

/// Ends the turns of a run, also if it panics.
struct Closing(Asker);

impl Drop for Closing {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// Makes turns of everything in a request that has no callback.
fn in_turns(mut request: Request, turns: &TurnReader) -> Request {
    request.watcher.get_or_insert_with(|| Watcher(turns.watcher()));
    // With an answerer, `input()` does not read standard input.
    if request.answerer.is_none() && request.stdin.is_empty() {
        let asker = turns.asker();
        request.answerer = Some(Answerer::new(move |prompt| {
            let line = asker.clone().ask(|answer| Turn::Question(Question::new(prompt, answer)));
            async move { line.await.flatten() }
        }));
    }
    // A request with answers is a replay: its other calls are for the next replay.
    if request.answers.is_empty() {
        for tool in request.tools.iter_mut().filter(|tool| tool.is_deferred()) {
            let (asker, name) = (turns.asker(), Arc::<str>::from(tool.name()));
            *tool = tool.clone().answered_by(move |id, arguments| {
                let call = (id, name.to_string(), arguments);
                let answered = asker.clone().ask(|answer| Turn::Call(Call::new(call, answer)));
                async move {
                    let dropped = || Err(ToolError::message("the caller did not answer"));
                    answered.await.unwrap_or_else(dropped)
                }
            });
        }
    }
    request
}

//! A run on a server.

use std::cell::Cell;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use belljar::Request;
use belljar::event::{OutputWatcher, Stream};
use belljar::request::RunLimits;
use serde_json::Value;

use super::live::Live;
use super::session::restarted;
use super::summary::Files;
use super::{report, watch};
use crate::engine;
use crate::exit::Exit;
use crate::input::Person;
use crate::printer::Printer;
use crate::remote::{self, Follower, Link, Order, RemoteSession, Told};

/// How long ending a run on the server may take.
const FAREWELL: Duration = Duration::from_secs(2);

/// A run to do on a server.
pub(super) struct Task<'a> {
    pub link: Link,
    pub request: Request,
    /// The name of the session to run in.
    pub session: Option<&'a str>,
    pub live: Arc<Live>,
    pub can_ask: bool,
    pub json: bool,
    pub out: Option<&'a Path>,
    pub printer: &'a Arc<Printer>,
}

pub(super) fn run(task: Task<'_>) -> anyhow::Result<Exit> {
    let Task {
        link,
        mut request,
        session,
        live,
        can_ask,
        json,
        out,
        printer,
    } = task;
    let link = Arc::new(link);
    let told = if live.wants_events() {
        Told::Everything
    } else if json {
        Told::Nothing
    } else {
        Told::Output
    };
    let run = remote::Run::new()?;
    let ran = watch(&live, async || {
        let shown = Shown::new(&live, told, printer);
        let session = match session {
            Some(name) => Some(open(&link, name, &mut request, printer).await?),
            None => None,
        };
        let (order, workspace) = if let Some(session) = &session {
            // The session's own limit is not known.
            (session.order(&request)?, RunLimits::CEILINGS.workspace)
        } else {
            let asked = request.limits.workspace;
            (Order::of(&request)?, asked.unwrap_or(RunLimits::default().workspace))
        };
        // The files that were sent do not count in the limit.
        let most = workspace.saturating_add(order.size());
        let answer = remote::follow(&link, &run, order, told, can_ask, &shown).await?;
        shown.rest(&answer.outcome.stderr);
        let files = match (&session, &answer.run) {
            (Some(session), _) => Some(session.files_path()),
            (None, run) => run.as_ref().map(|id| format!("/v1/runs/{id}/files")),
        };
        let copied = match (out, files) {
            (Some(out), Some(files)) => {
                remote::copy(&link, &files, &answer.outcome.files, out, most).await.map(Some)
            }
            (out, _) => Ok(out.map(|_| Vec::new())),
        };
        if let Some(id) = &answer.run {
            remote::forget(&link, id).await;
        }
        Ok((answer.outcome, copied))
    });
    if !matches!(ran, Ok(ControlFlow::Continue(_))) {
        let farewell = async { tokio::time::timeout(FAREWELL, run.end(&link)).await };
        let _ = engine::reactor()?.block_on(farewell);
    }
    let (outcome, copied) = match ran? {
        ControlFlow::Continue(done) => done,
        ControlFlow::Break(exit) => return Ok(exit),
    };
    let fate = session.map_or(Files::ThrownAway, |name| Files::Kept(Path::new(name)));
    report(printer, &outcome, json, Files::of(out, &copied).unwrap_or(fate))?;
    if let Some(name) = session.filter(|_| !json) {
        restarted(&outcome, Path::new(name), printer);
    }
    copied.context("the run is done, but its files could not all be copied")?;
    Ok(if outcome.success {
        Exit::Success
    } else {
        Exit::Found
    })
}

/// Opens the session with this name, and creates it if it is missing.
async fn open(
    link: &Arc<Link>,
    name: &str,
    request: &mut Request,
    printer: &Printer,
) -> anyhow::Result<RemoteSession> {
    let (session, is_new) = RemoteSession::open(link, Some(name), request).await?;
    if is_new {
        printer.note(&format!("new session {name}"));
    }
    Ok(session)
}

/// Shows what happens during a run.
pub(crate) struct Shown<'a> {
    live: &'a Live,
    told: Told,
    person: Person,
    /// Bytes of standard error that were shown; `None` if some were lost.
    stderr: Cell<Option<usize>>,
}

impl<'a> Shown<'a> {
    /// Shows output only.
    pub(crate) fn output(live: &'a Live, printer: &Arc<Printer>) -> Self {
        Self::new(live, Told::Output, printer)
    }

    fn new(live: &'a Live, told: Told, printer: &Arc<Printer>) -> Self {
        Self {
            live,
            told,
            person: Person::new(printer),
            stderr: Cell::new(Some(0)),
        }
    }

    /// Shows the end of standard error that has no events of its own: the traceback.
    fn rest(&self, stderr: &str) {
        if self.told == Told::Everything
            && let Some(rest) = self.stderr.get().and_then(|shown| stderr.get(shown..))
            && !rest.is_empty()
        {
            self.live.write(Stream::Stderr, rest.as_bytes());
        }
    }
}

impl Follower for Shown<'_> {
    fn event(&self, name: &str, event: &Value) {
        let text = event["text"].as_str().unwrap_or_default();
        match name {
            "stdout" => self.live.write(Stream::Stdout, text.as_bytes()),
            "stderr" => {
                self.live.write(Stream::Stderr, text.as_bytes());
                self.stderr.set(self.stderr.get().map(|shown| shown + text.len()));
            }
            "dropped" => self.stderr.set(None),
            _ => {}
        }
        if self.told == Told::Everything {
            self.live.pass(event);
        }
    }

    async fn line(&self) -> Option<String> {
        self.person.line().await
    }
}

//! Sessions: state that persists, survives, forks and rewinds.

mod analysis;
mod cancelled;
mod checkpoints;
mod damage;
mod example;
mod files;
mod keeping;
mod leases;
mod limits;
mod past;
mod questions;
mod recovery;
mod registry;
mod state;
mod stored;
mod waking;

use std::sync::Arc;
use std::time::Duration;

use belljar::event::{OutputWatcher, Stream};
use belljar::outcome::{ErrorKind, SessionReport};
use belljar::{Error, Outcome, Request, Runtime, Session, SessionOptions};

use crate::support::{check, runtime, succeeded, tokio};

/// Runs a test's body if sessions are supported.
fn block_on<T>(body: impl Future<Output = T>) -> T {
    tokio(2).block_on(body)
}

/// A session on the image `core` of the shared runtime.
async fn core() -> Session {
    session_on(runtime(), SessionOptions::new().image("core")).await
}

async fn session_on(runtime: &Runtime, options: SessionOptions) -> Session {
    runtime.session(options).await.unwrap_or_else(|e| panic!("{}", crate::support::chain(&e)))
}

/// One run; checks its outcome against the published schema.
async fn run(session: &Session, request: Request) -> Outcome {
    let outcome =
        session.run(request).await.unwrap_or_else(|e| panic!("{}", crate::support::chain(&e)));
    check(&outcome);
    assert_eq!(report(&outcome).interpreter_id, session.id());
    outcome
}

/// The output of a run that succeeds and loses nothing.
async fn out(session: &Session, code: &str) -> String {
    let outcome = run(session, Request::new(code)).await;
    succeeded(&outcome);
    assert!(!report(&outcome).interpreter_restarted, "{outcome:#?}");
    outcome.stdout
}

fn report(outcome: &Outcome) -> &SessionReport {
    outcome.session.as_ref().expect("a session's outcome says so")
}

/// Checks that a run lost the interpreter, and that the session reports it.
#[track_caller]
fn restarted(outcome: &Outcome, kind: ErrorKind, reason: &str) {
    crate::support::failed(outcome, kind);
    let report = report(outcome);
    assert!(report.interpreter_restarted && !report.interpreter_crashed, "{report:?}");
    let said = report.restart_reason.as_deref().unwrap_or_default();
    assert!(said.contains(reason), "{said}");
}

/// An error as shown to people, with its hint.
#[track_caller]
fn told<T>(result: Result<T, Error>) -> (String, Option<String>) {
    match result {
        Ok(_) => panic!("this should have failed"),
        Err(error) => (crate::support::chain(&error), error.hint()),
    }
}

/// Interrupts a run as soon as its code reports that it is ready.
async fn interrupted(session: &Session, code: &str) -> Outcome {
    let request = Request::new(code).timeout(Duration::from_mins(2));
    let (running, ready) = (session.clone(), Arc::new(Ready::default()));
    let request = request.watch(ready.clone());
    let run = ::tokio::spawn(async move { running.run(request).await.unwrap() });
    ready.0.notified().await;
    assert!(session.interrupt());
    let outcome = run.await.unwrap();
    check(&outcome);
    outcome
}

/// Waits for output.
#[derive(Default)]
struct Ready(::tokio::sync::Notify);

impl OutputWatcher for Ready {
    fn write(&self, _: Stream, _: &[u8]) {
        self.0.notify_one();
    }
}

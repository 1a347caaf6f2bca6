//! The engine with a guest other than Python: limits, files, sessions, tools, hostile frames and
//! stores, in seconds and without a download. `guest.rs` describes the guest.

mod cluster;
mod deferred;
mod faults;
mod files;
mod frames;
mod guest;
mod limits;
mod runs;
mod sessions;
mod tools;
mod turns;

use std::path::Path;

use belljar::outcome::{ErrorKind, SessionReport};
use belljar::{Outcome, Request, Runtime, Session, SessionOptions};

/// A runtime of the test's own.
fn runtime() -> Runtime {
    Runtime::builder().bundle(guest::bundle()).build().unwrap()
}

/// One whose files are in `dir`, as another process has it.
fn runtime_in(dir: &Path) -> Runtime {
    Runtime::builder().bundle(guest::bundle()).temp_dir(dir).build().unwrap()
}

/// Runs a request in a fresh sandbox.
async fn run(request: Request) -> Outcome {
    runtime().run(request).await.unwrap().outcome
}

/// Runs code under every default.
async fn outcome(code: &str) -> Outcome {
    run(Request::new(code)).await
}

/// A session on a runtime of its own.
async fn session() -> Session {
    runtime().session(SessionOptions::new()).await.unwrap()
}

/// What code prints in a session, where it succeeds and nothing was lost before.
#[track_caller]
fn out(session: &Session, code: &str) -> impl Future<Output = String> {
    let caller = std::panic::Location::caller();
    async move {
        let outcome = session.run(Request::new(code)).await.unwrap();
        assert!(outcome.success, "{caller}: {outcome:#?}");
        assert!(!report(&outcome).interpreter_restarted, "{caller}: {outcome:#?}");
        outcome.stdout
    }
}

fn report(outcome: &Outcome) -> &SessionReport {
    outcome.session.as_ref().expect("a session's outcome says so")
}

#[track_caller]
fn succeeded(outcome: &Outcome) {
    assert!(outcome.success, "{outcome:#?}");
}

/// Checks the kind and the type of a failure.
#[track_caller]
fn failed(outcome: &Outcome, kind: ErrorKind, name: &str) {
    let found = outcome.error_detail.as_ref().map(|detail| (detail.kind, detail.type_.as_str()));
    assert_eq!(found, Some((kind, name)), "{outcome:#?}");
}

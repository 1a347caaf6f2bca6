//! Public types and futures can be sent between threads: checked by the compiler.

use std::future::Future;

use belljar::doctor::Finding;
use belljar::event::OutputWatcher;
use belljar::images::Images;
use belljar::request::{Capture, Deterministic, RunRequest};
use belljar::session::Sessions;
use belljar::{
    Error, Outcome, Request, RequestLimits, Run, Runtime, RuntimeBuilder, Session, SessionOptions,
};

fn any_thread<T: Send + Sync + 'static>() {}

fn any_worker<F: Future + Send>(_: F) {}

#[test]
fn public_types_go_from_thread_to_thread() {
    any_thread::<Runtime>();
    any_thread::<RuntimeBuilder>();
    any_thread::<Session>();
    any_thread::<Sessions>();
    any_thread::<SessionOptions>();
    any_thread::<Images>();
    any_thread::<Request>();
    any_thread::<RunRequest>();
    any_thread::<RequestLimits>();
    any_thread::<Capture>();
    any_thread::<Deterministic>();
    any_thread::<Run>();
    any_thread::<Outcome>();
    any_thread::<Error>();
    any_thread::<Finding>();
    any_thread::<Box<dyn OutputWatcher>>();
}

#[test]
fn runs_are_waited_for_on_any_worker() {
    let runtime = crate::support::runtime();
    any_worker(runtime.run(Request::new("1")));
    any_worker(runtime.session(SessionOptions::new()));
    any_worker(async {
        let session = runtime.session(SessionOptions::new()).await.unwrap();
        session.run(Request::new("1")).await.unwrap();
        session.suspend().await;
        session.fork().await.unwrap().close();
    });
}

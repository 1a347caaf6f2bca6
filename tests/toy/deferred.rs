//! Deferred tools: a run ends as waiting, and goes on when its call is answered.

use std::time::Duration;

use belljar::event::{EventKind, event_channel};
use belljar::outcome::ErrorKind;
use belljar::request::Deterministic;
use belljar::tool::ToolAnswer;
use belljar::{Outcome, Request, Session, SessionOptions, Tool};
use serde_json::json;

use super::{failed, out, run, runtime, succeeded};

fn approve() -> Tool {
    Tool::deferred("approve", json!({"type": "object"}))
}

async fn session() -> Session {
    runtime().session(SessionOptions::new().tool(approve()).init_code("set a 1")).await.unwrap()
}

const CODE: &str = "add a 1\nappend f once\nrandom\nclock\ncall approve {\"x\": 5}\nget a\nadd a 1";

async fn waits(session: &Session) -> Outcome {
    let outcome = session.run(Request::new(CODE)).await.unwrap();
    failed(&outcome, ErrorKind::Waiting, "Waiting");
    outcome
}

#[tokio::test]
async fn a_run_waits_and_goes_on_when_it_is_answered() {
    let session = session().await;
    let waiting = waits(&session).await;
    let asked = session.waiting().await.unwrap();
    assert_eq!((asked[0].id, &asked[0].arguments), (1, &json!({"x": 5})));
    let refused = session.run(Request::new("print 1")).await.unwrap_err();
    assert_eq!(refused.code(), "session.waiting");
    let wrong = session.answer(vec![ToolAnswer::new(9, 1)]).await.unwrap_err();
    assert_eq!(wrong.code(), "session.no_call");

    let outcome = session.answer(vec![ToolAnswer::new(1, json!(["yes"]))]).await.unwrap();
    succeeded(&outcome);
    // It restarted from the state before, with the same clock and random numbers.
    let expected = format!("{}{{\"ok\":[\"yes\"]}}\n2\n", waiting.stdout);
    assert_eq!(outcome.stdout, expected);
    assert_eq!(out(&session, "get a\nread f").await, "3\nonce");
    let late = session.answer(vec![ToolAnswer::new(1, 1)]).await.unwrap_err();
    assert_eq!(late.code(), "session.not_waiting");
}

#[tokio::test]
async fn a_waiting_run_survives_suspension_forks_and_a_checkpoint() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("checkpoint");
    let session = session().await;
    waits(&session).await;
    assert!(session.suspend().await);
    let fork = session.fork().await.unwrap();
    session.checkpoint(&path).await.unwrap();
    session.close();
    let restored = runtime().restore(path.as_path()).await.unwrap();
    for (session, answer) in [(fork, 1), (restored, 2)] {
        assert_eq!(session.waiting().await.unwrap().len(), 1);
        let outcome = session.answer(vec![ToolAnswer::new(1, answer)]).await.unwrap();
        let expected = format!("{{\"ok\":{answer}}}\n2\n");
        assert!(outcome.stdout.ends_with(&expected), "{}", outcome.stdout);
        assert_eq!(out(&session, "get a").await, "3\n");
    }
}

#[tokio::test]
async fn a_waiting_run_is_given_up_by_going_back() {
    let session = session().await;
    waits(&session).await;
    session.rewind(0).await.unwrap();
    assert!(session.waiting().await.unwrap().is_empty());
    assert_eq!(out(&session, "get a\ntry read f").await, "1\nerrno 44\n");
}

#[tokio::test]
async fn a_deterministic_run_is_given_its_answers_beforehand() {
    let request = Request::new(CODE).tool(approve()).deterministic(Deterministic::new(1));
    let waiting = run(request.clone()).await;
    failed(&waiting, ErrorKind::Waiting, "Waiting");
    let outcome = run(request.answer(ToolAnswer::failed(1, "no"))).await;
    succeeded(&outcome);
    let told = outcome.stdout.strip_prefix(&waiting.stdout).unwrap();
    assert_eq!(told, "{\"kind\":\"tool_error\",\"message\":\"no\"}\n1\n");
}

/// Otherwise a reader of the events would wait until the call is answered.
#[tokio::test]
async fn events_end_when_a_run_waits() {
    let session = runtime().session(SessionOptions::new()).await.unwrap();
    let (watcher, mut events) = event_channel();
    let request = Request::new("print before\ncall approve {}").tool(approve()).watch(watcher);
    let outcome = session.run(request).await.unwrap();
    failed(&outcome, ErrorKind::Waiting, "Waiting");
    let mut last = None;
    let time = Duration::from_secs(20);
    while let Some(event) = tokio::time::timeout(time, events.next()).await.unwrap() {
        last = Some(event.kind);
    }
    assert_eq!(last, Some(EventKind::Ended { success: false }));
    let outcome = session.answer(vec![ToolAnswer::new(1, 2)]).await.unwrap();
    succeeded(&outcome);
    assert_eq!(outcome.stdout, "before\n{\"ok\":2}\n");
}

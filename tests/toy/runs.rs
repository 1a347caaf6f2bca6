//! A run: what goes in, what comes out, and each of its endings.

use std::time::Duration;

use belljar::event::EventKind;
use belljar::outcome::ErrorKind;
use belljar::request::{Capture, Deterministic, RunLimits};
use belljar::{Request, Runtime};
use serde_json::json;

use super::{failed, guest, outcome, run, runtime, succeeded};

#[tokio::test]
async fn what_a_run_says_is_in_its_outcome() {
    let code =
        "print one\n\nerror two\nwrite sub.txt three\nvalue {\"a\": [1, null]}\nprint \"\\é\t";
    let outcome = outcome(code).await;
    succeeded(&outcome);
    assert_eq!(outcome.stdout, "one\n\"\\é\t\n");
    assert_eq!(outcome.stderr, "two");
    assert_eq!(outcome.result, json!({"a": [1, null]}));
    assert_eq!((outcome.files[0].path.as_str(), outcome.files[0].size), ("sub.txt", 5));
    assert_eq!(outcome.usage.stdout_bytes, 10);
    assert!(outcome.usage.fuel > 1000, "{:?}", outcome.usage);
}

#[tokio::test]
async fn what_a_run_is_given_is_there() {
    let request =
        Request::new("stdin\nread given\nremove given").stdin("in\n").file("given", "file");
    let run = runtime().run(request).await.unwrap();
    assert_eq!(run.outcome.stdout, "in\nfile");
    assert!(run.outcome.files.is_empty(), "{:?}", run.outcome.files);
    let run = runtime().run(Request::new("write kept text")).await.unwrap();
    assert_eq!(run.read("kept").unwrap(), b"text");
}

#[tokio::test]
async fn every_ending_is_told_apart() {
    for (code, kind, name, error) in [
        ("print 1\nraise it \"broke\"", ErrorKind::Exception, "ToyError", "ToyError: it \"broke\""),
        ("exit 3", ErrorKind::Exit, "Exception", "Exception"),
        ("no such command", ErrorKind::Syntax, "SyntaxError", "SyntaxError: no such command"),
        ("read absent", ErrorKind::Exception, "OSError", "OSError: errno 44"),
        ("trap", ErrorKind::Crash, "Trap", "Trap: the interpreter aborted, and gave no reason"),
        (
            "recurse",
            ErrorKind::Crash,
            "StackOverflow",
            "StackOverflow: the interpreter ran out of stack",
        ),
        (
            "quit 7",
            ErrorKind::Crash,
            "ProcessExit",
            "ProcessExit: the interpreter was ended with status 7 before the code had finished",
        ),
        (
            "leave",
            ErrorKind::Crash,
            "NoReply",
            "NoReply: the interpreter came back without an answer",
        ),
    ] {
        let outcome = outcome(code).await;
        failed(&outcome, kind, name);
        assert_eq!(outcome.error.as_deref(), Some(error), "{code}");
    }
    succeeded(&outcome("exit 0").await);
    let raised = outcome("print 1\nraise it").await.error_detail.unwrap();
    assert_eq!(raised.line, Some(2));
    assert_eq!(outcome("exit 3").await.error_detail.unwrap().exit_status, Some(3));
}

/// No run sees what another left in its memory or its files.
#[tokio::test]
async fn runs_share_nothing() {
    let runtime = runtime();
    for _ in 0..20 {
        let code = "get a\nadd a 1\nget a\ntry read f\nwrite f x\ngrow 3";
        let outcome = runtime.run(Request::new(code)).await.unwrap().outcome;
        assert_eq!(outcome.stdout, "0\n1\nerrno 44\n");
    }
}

#[tokio::test]
async fn a_deterministic_run_repeats_itself() {
    let request = |seed| {
        Request::new("clock\nrandom\nsleep 1000\nclock").deterministic(Deterministic::new(seed))
    };
    let runtime = runtime();
    let mut printed = Vec::new();
    for seed in [1, 1, 2] {
        let outcome = runtime.run(request(seed)).await.unwrap().outcome;
        succeeded(&outcome);
        printed.push(outcome.stdout);
    }
    assert_eq!(printed[0], printed[1]);
    assert_ne!(printed[0], printed[2]);
    let number = |line: usize| printed[0].lines().nth(line).unwrap().parse::<u64>().unwrap();
    assert!(number(2) - number(0) >= 1_000_000_000, "its own clock has gone on by the sleep");
}

#[tokio::test]
async fn events_come_in_order() {
    let code = "print 1\nwrite f x\nraise it";
    let request = Request::new(code).capture(Capture::default().events(true));
    let events = run(request).await.events.unwrap();
    let kinds: Vec<&str> = events
        .iter()
        .map(|event| match &event.kind {
            EventKind::Started => "started",
            EventKind::Stdout { .. } => "stdout",
            EventKind::FileWritten { .. } => "file",
            EventKind::Error { .. } => "error",
            EventKind::Ended { success: false } => "ended",
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(kinds, ["started", "stdout", "file", "error", "ended"]);
}

/// What `/readyz` asks.
#[tokio::test]
async fn a_runtime_proves_that_it_works() {
    let time = Duration::from_secs(10);
    assert!(runtime().probe(time).await.unwrap());
    let ceilings = RunLimits::CEILINGS.timeout(time / 2);
    let runtime = Runtime::builder().bundle(guest::bundle()).ceilings(ceilings).build().unwrap();
    assert!(runtime.probe(time).await.unwrap(), "the limits are those of runs");
}

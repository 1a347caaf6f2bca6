//! Runs that are followed turn by turn.

use std::time::{Duration, Instant};

use belljar::event::{EventKind, Running, Turn};
use belljar::outcome::{ErrorKind, ToolErrorKind};
use belljar::request::{Deterministic, Tenant};
use belljar::tool::{Call, ToolAnswer, ToolError, ToolLimits};
use belljar::{Error, Interrupt, Outcome, Request, Runtime, SessionOptions, Tool};
use serde_json::json;

use super::{failed, out, report, runtime, session, succeeded};

/// A request with the tool `ask`, which has no function.
fn request(code: &str) -> Request {
    Request::new(code).tool(Tool::deferred("ask", json!({"type": "object"})))
}

/// Follows a run. Returns what happened, in order, and its outcome.
async fn follow(mut running: Running, mut answer: impl FnMut(Call)) -> (Vec<String>, Outcome) {
    let mut turns: Vec<String> = Vec::new();
    while let Some(turn) = running.next().await {
        turns.push(match turn {
            Turn::Event(event) => match event.kind {
                // A line may come in parts.
                EventKind::Stdout { text } if text == "\n" => {
                    turns.last_mut().unwrap().push('\n');
                    continue;
                }
                EventKind::Stdout { text } => text,
                EventKind::ToolCall { id, .. } => format!("event {id}"),
                EventKind::ToolAnswer(call) => format!("answered {}", call.id),
                EventKind::Interrupted { .. } => "interrupted".into(),
                EventKind::Ended { .. } => "ended".into(),
                _ => continue,
            },
            Turn::Call(call) => {
                let told = format!("call {} {} {}", call.id, call.name, call.arguments);
                answer(call);
                told
            }
            Turn::Question(question) => {
                let told = format!("question {}", question.prompt);
                let line = (question.prompt == "name? ").then(|| "Ada".into());
                question.answer(line);
                told
            }
            other => panic!("{other:?}"),
        });
    }
    (turns, running.end().await.unwrap().outcome)
}

fn kinds(outcome: &Outcome) -> Vec<Option<ToolErrorKind>> {
    outcome.tool_calls.iter().map(|call| call.error.as_ref().map(|error| error.kind)).collect()
}

#[tokio::test]
async fn turns_are_in_the_order_of_the_run() {
    let code = "print one\ncall ask {\"x\": 1}\nprint two\ncall ask {\"x\": 2}\n\
                send n{\"prompt\":\"name? \"}\nsend n{\"prompt\":\"\"}";
    let (turns, outcome) =
        follow(runtime().start(request(code)), |call| match call.arguments["x"].as_i64() {
            Some(1) => call.answer(json!({"y": 2})),
            _ => call.fail(ToolError::denied("not yours")),
        })
        .await;
    succeeded(&outcome);
    let expected = [
        "one\n",
        "event 1",
        "call 1 ask {\"x\":1}",
        "answered 1",
        "{\"ok\":{\"y\":2}}\n",
        "two\n",
        "event 2",
        "call 2 ask {\"x\":2}",
        "answered 2",
        "{\"kind\":\"denied\",\"message\":\"not yours\"}\n",
        "question name? ",
        "{\"ok\":\"Ada\"}\n",
        "question ",
        "{\"ok\":null}\n",
        "ended",
    ];
    assert_eq!(turns, expected);
    assert_eq!(kinds(&outcome), [None, Some(ToolErrorKind::Denied)]);
}

#[tokio::test]
async fn concurrent_calls_are_answered_in_any_order() {
    let code = "send b{\"name\":\"ask\",\"arguments\":{\"n\":1}}\n\
                send b{\"name\":\"ask\",\"arguments\":{\"n\":2}}\n\
                send a{\"ids\":[2],\"seconds\":null}\nsend a{\"ids\":[1],\"seconds\":null}";
    let mut first = None;
    let (_, outcome) = follow(runtime().start(request(code)), |call| match first.take() {
        None => first = Some(call),
        Some(first) => {
            call.answer(2);
            Call::answer(first, 1);
        }
    })
    .await;
    assert_eq!(outcome.stdout, "{\"id\":1}\n{\"id\":2}\n[[2,{\"ok\":2}]]\n[[1,{\"ok\":1}]]\n");
}

#[tokio::test]
async fn what_is_dropped_without_an_answer_fails() {
    let code = "call ask {}\nsend n{\"prompt\":\"a\"}";
    let mut running = runtime().start(request(code));
    while running.next().await.is_some() {}
    let outcome = running.end().await.unwrap().outcome;
    assert!(outcome.stdout.contains("the caller did not answer"), "{}", outcome.stdout);
    assert!(outcome.stdout.ends_with("{\"ok\":null}\n"), "{}", outcome.stdout);
    // The same without a look at any turn.
    let unread = runtime().start(request(code)).end().await.unwrap().outcome;
    assert_eq!(unread.stdout, outcome.stdout);
    assert_eq!(kinds(&unread), [Some(ToolErrorKind::ToolError)]);
}

#[tokio::test]
async fn callbacks_are_called_and_standard_input_is_read() {
    let echo = Tool::new("ask", json!({"type": "object"}), async |_: serde_json::Value| Ok("own"));
    let given = Request::new("call ask {}\nstdin").tool(echo).stdin("typed");
    let (turns, outcome) = follow(runtime().start(given), |call| panic!("{call:?}")).await;
    assert_eq!(outcome.stdout, "{\"ok\":\"own\"}\ntyped");
    assert!(turns.contains(&"answered 1".to_owned()));
    let asked = Request::new("send n{\"prompt\":\"x\"}").answerer(async |_| Some("line".into()));
    let (_, outcome) = follow(runtime().start(asked), drop).await;
    assert_eq!(outcome.stdout, "{\"ok\":\"line\"}\n");
}

#[tokio::test]
async fn limits_apply_while_nobody_asks_for_a_turn() {
    let deadline = Duration::from_millis(200);
    let running = runtime().start(request("call ask {}").timeout(deadline));
    // The run ends in this time, although its call is not read.
    tokio::time::sleep(Duration::from_secs(2)).await;
    let (turns, outcome) = follow(running, |call| panic!("{call:?}")).await;
    failed(&outcome, ErrorKind::Timeout, "Timeout");
    assert!(outcome.usage.wall_ms < 1_500.0, "{:?}", outcome.usage);
    assert_eq!(turns.last().unwrap(), "ended");
    let limits = ToolLimits::default().timeout(Duration::from_millis(10));
    let request = request("call ask {}\nprint after").tool_limits(limits);
    let mut kept = None;
    let (turns, outcome) = follow(runtime().start(request), |call| kept = Some(call)).await;
    assert_eq!(kinds(&outcome), [Some(ToolErrorKind::Timeout)]);
    assert!(turns.contains(&"call 1 ask {}".to_owned()));
    kept.unwrap().answer(1);
}

/// Without the bound, the queue would hold an event for every call.
#[tokio::test]
async fn turns_that_nobody_reads_are_bounded() {
    let calls = "repeat 3000 send k{\"id\":1}\n";
    let code = format!("{calls}repeat 3000 call none {{}}");
    let limits = ToolLimits::default().calls(5_000);
    let mut running =
        runtime().start(request(&code).tool_limits(limits).timeout(Duration::from_secs(30)));
    tokio::time::sleep(Duration::from_secs(3)).await;
    let (mut read, mut dropped) = (0, 0);
    while let Some(turn) = running.next().await {
        read += 1;
        if let Turn::Event(event) = turn
            && let EventKind::Dropped { events, .. } = event.kind
        {
            dropped += events;
        }
    }
    assert!(dropped > 0 && read + dropped >= 6_000, "{read} {dropped}");
    succeeded(&running.end().await.unwrap().outcome);
}

#[tokio::test]
async fn calls_that_the_code_gives_up_are_not_turns() {
    let begun = "repeat 200 send b{\"name\":\"ask\",\"arguments\":{}}\n";
    let cancel = |id| format!("send k{{\"id\":{id}}}\n");
    let given_up: Vec<String> = (1..=200).map(cancel).collect();
    let running = runtime().start(request(&(begun.to_owned() + &given_up.concat())));
    tokio::time::sleep(Duration::from_secs(2)).await;
    let (turns, outcome) = follow(running, |call| panic!("{call:?}")).await;
    succeeded(&outcome);
    assert_eq!(kinds(&outcome), [Some(ToolErrorKind::Cancelled); 200]);
    assert!(turns.contains(&"event 200".to_owned()));
}

#[tokio::test]
async fn an_interrupt_ends_a_run_that_waits_for_its_caller() {
    let interrupt = Interrupt::new();
    let running = runtime().start(request("call ask {}").interrupt(&interrupt));
    let mut kept = None;
    let (turns, outcome) = follow(running, |call| {
        kept = Some(call);
        interrupt.interrupt();
    })
    .await;
    failed(&outcome, ErrorKind::Interrupted, "Interrupted");
    assert!(turns.contains(&"interrupted".to_owned()));
}

#[tokio::test]
async fn a_run_that_is_dropped_is_cancelled() {
    let runtime = Runtime::builder().bundle(super::guest::bundle()).concurrency(1).build().unwrap();
    for code in ["spin", "call ask {}"] {
        let long = request(code).timeout(Duration::from_secs(30));
        let mut running = runtime.start(long);
        running.next().await.unwrap();
        drop(running);
        let began = Instant::now();
        // There is one place, which the run has until it is cancelled.
        succeeded(&runtime.run(Request::new("print 1")).await.unwrap().outcome);
        assert!(began.elapsed() < Duration::from_secs(15));
    }
    let session = session().await;
    assert_eq!(out(&session, "set a 1").await, "");
    let mut running = session.start(Request::new("set a 2\nspin").timeout(Duration::from_secs(30)));
    running.next().await.unwrap();
    drop(running);
    let outcome = session.run(Request::new("get a")).await.unwrap();
    assert_eq!((outcome.stdout.as_str(), report(&outcome).interpreter_restarted), ("1\n", true));
}

#[tokio::test]
async fn a_run_that_cannot_begin_has_no_turns() {
    let mut running = runtime().start(request("print 1").timeout(Duration::from_secs(10_000)));
    assert!(running.next().await.is_none());
    assert!(matches!(running.end().await, Err(Error::Refused(_))));
}

#[tokio::test]
async fn sessions_have_turns_too() {
    let tool = Tool::deferred_values("ask", json!({"type": "object"}));
    let session = runtime().session(SessionOptions::new().tool(tool)).await.unwrap();
    for n in 1..3 {
        let mut running = session.start(
            request("add a 1\ncall other {}")
                .tool(Tool::deferred("other", json!({"type": "object"}))),
        );
        while let Some(turn) = running.next().await {
            if let Turn::Call(call) = turn {
                assert_eq!(call.name, "other");
                assert_eq!(call.values().unwrap().len(), 0);
                call.answer(n);
            }
        }
        let outcome = running.end().await.unwrap();
        succeeded(&outcome);
        assert_eq!(outcome.stdout, format!("{{\"ok\":{n}}}\n"));
        assert!(outcome.tool_calls[0].duration_ms > 0.0, "it has no clock for replays");
    }
    assert_eq!(out(&session, "get a").await, "2\n");
    assert_eq!(session.waiting().await.unwrap(), []);
    // A tool of the session; a request with a tool of that name has its own.
    let mut running = session.start(Request::new("call ask {}"));
    while let Some(turn) = running.next().await {
        assert!(!matches!(turn, Turn::Call(_)), "its arguments are typed");
    }
    let outcome = running.end().await.unwrap();
    assert!(outcome.stdout.contains("invalid_arguments"), "{}", outcome.stdout);
}

/// A replay ends as it does without turns.
#[tokio::test]
async fn a_request_with_answers_is_a_replay() {
    let request = request("call ask {}\ncall ask {}").deterministic(Deterministic::new(1));
    let replay = request.answer(ToolAnswer::new(1, 7));
    let (turns, outcome) = follow(runtime().start(replay), |call| panic!("{call:?}")).await;
    failed(&outcome, ErrorKind::Waiting, "Waiting");
    assert!(turns.contains(&"answered 1".to_owned()));
}

#[tokio::test]
async fn a_meter_measures_runs_that_were_started_under_it() {
    let begun = Instant::now();
    let meter = Tenant::new().meter(None);
    let runtime = runtime();
    assert_eq!(meter.waited(), None);
    let running = meter.scope(async { runtime.start(Request::new("print 1")) }).await;
    running.end().await.unwrap();
    assert!(meter.fuel() > 0);
    let waited = meter.waited().unwrap();
    assert!(!waited.start.is_zero() && waited.queue + waited.start < begun.elapsed(), "{waited:?}");
}

#[test]
fn blocking_callers_have_turns() {
    let runtime = runtime().blocking();
    let mut running = runtime.start(request("call ask {}")).unwrap();
    while let Some(turn) = running.next().unwrap() {
        if let Turn::Call(call) = turn {
            call.answer(5);
        }
    }
    assert_eq!(running.end().unwrap().outcome.stdout, "{\"ok\":5}\n");
    let session = runtime.session(SessionOptions::new()).unwrap();
    let mut running = session.start(Request::new("set a 3\nspin")).unwrap();
    running.next().unwrap();
    drop(running);
    assert_eq!(session.start(Request::new("get a")).unwrap().end().unwrap().stdout, "0\n");
    // A run ends with its last handle.
    let running = runtime.start(Request::new("spin").timeout(Duration::from_mins(1))).unwrap();
    drop((session, runtime));
    drop(running);
}

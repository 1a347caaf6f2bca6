//! Calls of tools: waited for, begun, answered, cancelled, over their limits and forged.

use std::time::Duration;

use belljar::event::EventKind;
use belljar::outcome::{ErrorKind, ToolErrorKind};
use belljar::request::Capture;
use belljar::tool::{ToolError, ToolLimits};
use belljar::{Outcome, Request, Tool};
use serde_json::{Value, json};

use super::{failed, run, succeeded};

/// A request with tools: `echo` answers with its arguments, `nap` sleeps for so many milliseconds,
/// and `bad` fails in the way it is asked for.
fn request(code: &str) -> Request {
    let echo = Tool::new("echo", json!({"type": "object"}), async |given: Value| Ok(given));
    let schema =
        json!({"type": "object", "properties": {"ms": {"type": "integer"}}, "required": ["ms"]});
    let nap = Tool::new("nap", schema, async |given: Value| {
        let time = given["ms"].as_u64().unwrap_or_default();
        tokio::time::sleep(Duration::from_millis(time)).await;
        Ok(time)
    });
    let bad = Tool::new("bad", json!({"type": "object"}), async |given: Value| match given["how"]
        .as_str()
    {
        Some("panic") => panic!("a tool that panics"),
        Some("denied") => Err(ToolError::denied("not yours")),
        Some("leak") => Err(std::io::Error::other("the password is 1234"))?,
        Some("long") => Ok("x".repeat(5000)),
        _ => Err(ToolError::message("as you like")),
    });
    Request::new(code).tool(echo).tool(nap).tool(bad)
}

async fn called(code: &str) -> Outcome {
    let outcome = run(request(code)).await;
    succeeded(&outcome);
    outcome
}

/// How each call ended.
fn kinds(outcome: &Outcome) -> Vec<Option<ToolErrorKind>> {
    outcome.tool_calls.iter().map(|call| call.error.as_ref().map(|error| error.kind)).collect()
}

#[tokio::test]
async fn a_call_is_answered_and_recorded() {
    let outcome = called("call echo {\"a\": [1, \"é\"]}\ncall nap {\"ms\": 1}").await;
    assert_eq!(outcome.stdout, "{\"ok\":{\"a\":[1,\"é\"]}}\n{\"ok\":1}\n");
    let call = &outcome.tool_calls[0];
    assert_eq!((call.id, call.name.as_str(), call.ok), (1, "echo", true));
    assert_eq!(call.arguments, json!({"a": [1, "é"]}));
    assert_eq!(kinds(&outcome), [None, None]);
}

#[tokio::test]
async fn failures_of_tools_have_kinds_and_keep_secrets() {
    let outcome = called(
        "call absent {}\ncall nap {}\ncall nap {\"ms\": \"x\"}\n\
         call bad {}\ncall bad {\"how\": \"denied\"}\n\
         call bad {\"how\": \"panic\"}\ncall bad {\"how\": \"leak\"}",
    )
    .await;
    let expected = [
        ToolErrorKind::UnknownTool,
        ToolErrorKind::InvalidArguments,
        ToolErrorKind::InvalidArguments,
        ToolErrorKind::ToolError,
        ToolErrorKind::Denied,
        ToolErrorKind::ToolError,
        ToolErrorKind::ToolError,
    ];
    assert_eq!(kinds(&outcome), expected.map(Some));
    assert!(outcome.stdout.contains("as you like") && outcome.stdout.contains("not yours"));
    assert!(!outcome.stdout.contains("1234"), "{}", outcome.stdout);
    assert_eq!(outcome.stdout.lines().count(), 7);
}

#[tokio::test]
async fn calls_are_begun_and_fetched_in_any_order() {
    let outcome = called(
        "send b{\"name\":\"nap\",\"arguments\":{\"ms\":300}}\n\
         send b{\"name\":\"echo\",\"arguments\":{\"x\":1}}\n\
         send a{\"ids\":[2],\"seconds\":null}\n\
         send a{\"ids\":[1],\"seconds\":0.000001}\n\
         send a{\"ids\":[1],\"seconds\":null}\n\
         send a{\"ids\":[1, 7],\"seconds\":null}",
    )
    .await;
    let gone = "{\"kind\":\"cancelled\",\"message\":\"there is no such call\"}";
    let expected = format!(
        "{{\"id\":1}}\n{{\"id\":2}}\n[[2,{{\"ok\":{{\"x\":1}}}}]]\n[]\n[[1,{{\"ok\":300}}]]\n\
         [[1,{gone}],[7,{gone}]]\n"
    );
    assert_eq!(outcome.stdout, expected);
}

#[tokio::test]
async fn a_call_that_is_given_up_is_cancelled() {
    let outcome = called(
        "send b{\"name\":\"nap\",\"arguments\":{\"ms\":60000}}\nsleep 5\nsend k{\"id\":1}\n\
         send k{\"id\":1}\nsend k{\"id\":9}\nsend b{\"name\":\"nap\",\"arguments\":{\"ms\":60000}}",
    )
    .await;
    assert_eq!(outcome.stdout, "{\"id\":1}\n\n\n\n{\"id\":2}\n");
    assert_eq!(kinds(&outcome), [Some(ToolErrorKind::Cancelled); 2]);
}

#[tokio::test]
async fn a_deadline_ends_a_run_that_waits_for_a_tool() {
    let request =
        request("call nap {\"ms\": 60000}\nprint after").timeout(Duration::from_millis(300));
    let outcome = run(request).await;
    failed(&outcome, ErrorKind::Timeout, "Timeout");
    assert_eq!(outcome.stdout, "{\"id\":1}\n", "it is told the number of its call");
    assert_eq!(kinds(&outcome), [Some(ToolErrorKind::Cancelled)]);
}

#[tokio::test]
async fn calls_are_bounded_in_number_bytes_and_time() {
    let limits = ToolLimits::default();
    let long = format!("call echo {{\"x\": \"{}\"}}", "x".repeat(2000));
    for (limits, code, expected) in [
        (limits.calls(3), "repeat 6 call echo {}", ToolErrorKind::BudgetExceeded),
        (limits.argument_bytes(1000), long.as_str(), ToolErrorKind::TooLarge),
        (limits.answer_bytes(1000), "call bad {\"how\": \"long\"}", ToolErrorKind::TooLarge),
        (limits.total_bytes(3000), "call bad {\"how\": \"long\"}", ToolErrorKind::BudgetExceeded),
        (limits.total_bytes(5000), &format!("repeat 2 {long}"), ToolErrorKind::BudgetExceeded),
        (
            limits.timeout(Duration::from_millis(10)),
            "call nap {\"ms\": 60000}",
            ToolErrorKind::Timeout,
        ),
    ] {
        let outcome = run(request(code).tool_limits(limits)).await;
        succeeded(&outcome);
        let failures: Vec<_> = kinds(&outcome).into_iter().flatten().collect();
        assert_eq!(failures, [expected], "{code}: {outcome:#?}");
        let told = serde_json::to_string(&expected).unwrap();
        assert!(outcome.stdout.contains(&told), "{code}: {}", outcome.stdout);
    }
}

#[tokio::test]
async fn no_more_than_256_calls_are_open() {
    let outcome =
        called("repeat 300 send b{\"name\":\"nap\",\"arguments\":{\"ms\":60000}}\nprint end").await;
    let begun = outcome.stdout.lines().filter(|line| line.starts_with("{\"id\":")).count();
    let refused = outcome.stdout.lines().filter(|line| line.contains("budget_exceeded")).count();
    assert_eq!((begun, refused), (256, 44));
}

/// Frames about tools that the runner never sends.
#[tokio::test]
async fn hostile_frames_are_answered_with_an_error_or_refused() {
    let is_invalid = ["c{", "c", "cnull", "c{\"name\":1}", "c{\"name\":\"echo\"}"];
    for frame in is_invalid {
        let outcome = called(&format!("send {frame}")).await;
        assert!(outcome.stdout.contains("invalid_arguments"), "{frame}: {}", outcome.stdout);
    }
    let deep = format!("c{{\"name\":\"echo\",\"arguments\":{}", "[".repeat(2000));
    assert!(called(&format!("send {deep}")).await.stdout.contains("nested too deep"));
    let long = "c{\"name\":\"echo\",\"arguments\":{\"n\":99999999999999999999}}";
    assert!(called(&format!("send {long}")).await.stdout.contains("more than 64 bits"));
    let ids = vec!["1"; 257].join(",");
    let many = format!("a{{\"ids\":[{ids}],\"seconds\":null}}");
    for frame in
        ["a", "a{}", "a{\"ids\":[-1],\"seconds\":null}", many.as_str(), "k", "k{\"id\":-1}"]
    {
        assert_eq!(called(&format!("send {frame}")).await.stdout, "refused\n", "{frame}");
    }
    let outcome = called("bulk c 17000000\ncall echo {}").await;
    assert_eq!(outcome.stdout, "refused\n{\"ok\":{}}\n");
}

#[tokio::test]
async fn input_is_asked_for() {
    let request = Request::new("send n{\"prompt\":\"name? \"}\nsend n{\"prompt\":\"\"}\nsend n{}");
    let request =
        request.answerer(async |prompt: String| (prompt == "name? ").then(|| "Ada".into()));
    let outcome = run(request).await;
    let lines: Vec<&str> = outcome.stdout.lines().collect();
    // A question that cannot be read is at the end of the input.
    assert_eq!(lines, ["{\"ok\":\"Ada\"}", "{\"ok\":null}", "{\"ok\":null}"], "{outcome:#?}");
}

#[tokio::test]
async fn calls_are_events() {
    let outcome =
        run(request("print 1\ncall echo {}\nprint 2").capture(Capture::default().events(true)))
            .await;
    let events = outcome.events.unwrap();
    let kinds: Vec<&str> = events
        .iter()
        .map(|event| match event.kind {
            EventKind::Stdout { .. } => "stdout",
            EventKind::ToolCall { .. } => "call",
            EventKind::ToolAnswer(_) => "answer",
            _ => "other",
        })
        .filter(|kind| *kind != "other")
        .collect();
    assert_eq!(kinds, ["stdout", "call", "answer", "stdout"]);
}

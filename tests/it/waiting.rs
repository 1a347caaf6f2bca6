//! Deferred tools: runs that wait, in this process and in another.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use belljar::outcome::{ErrorKind, ToolErrorKind};
use belljar::request::{Deterministic, HostPaths, RunRequest};
use belljar::session::RestoreOptions;
use belljar::tool::{ToolAnswer, ToolLimits};
use belljar::{Outcome, Request, SessionOptions, Tool, blocking, value as typed};
use serde_json::{Value, json};

use crate::support::{chain, check, failed, runtime, succeeded};

fn approve() -> Tool {
    let schema = json!({
        "type": "object",
        "properties": {"amount": {"type": "integer", "maximum": 1000}},
        "required": ["amount"],
    });
    Tool::deferred("approve", schema).description("Asks a person.")
}

/// Counts its calls, and answers with the number.
fn counter(calls: &Arc<AtomicUsize>) -> Tool {
    let calls = Arc::clone(calls);
    Tool::new("count", json!({"type": "object"}), move |_: Value| {
        let number = calls.fetch_add(1, Ordering::Relaxed) + 1;
        async move { Ok(number) }
    })
}

fn session(options: SessionOptions) -> blocking::Session {
    runtime().blocking().session(options.image("core").tool(approve())).unwrap()
}

#[track_caller]
fn waits(outcome: &Outcome) -> u64 {
    check(outcome);
    failed(outcome, ErrorKind::Waiting);
    assert_eq!(outcome.error.as_deref(), Some("Code execution waits for the answer of a tool"));
    let kind = |call: &&belljar::outcome::ToolCall| {
        call.error.as_ref().is_some_and(|error| error.kind == ToolErrorKind::Waiting)
    };
    outcome.tool_calls.iter().find(kind).expect("a call that waits").id
}

const CODE: &str = "
import random, tools, time, uuid, os
print('begun', x)
mark = (random.random(), time.time(), uuid.uuid4(), os.urandom(4), tools.count())
_ = open('a.txt', 'a').write('once\\n')
answer = tools.approve(amount=x)
print('answered', answer)
y = x + 1
print(open('a.txt').read(), end='')
";

#[test]
fn a_run_waits_and_goes_on_when_it_is_answered() {
    let calls = Arc::new(AtomicUsize::new(0));
    let session = session(SessionOptions::new().tool(counter(&calls)));
    session.run(Request::new("x = 7")).unwrap();
    let waiting = session.run(Request::new(CODE)).unwrap();
    let id = waits(&waiting);
    assert_eq!((id, waiting.stdout.as_str()), (2, "begun 7\n"), "{waiting:#?}");
    assert_eq!(waiting.session.as_ref().unwrap().execution, 1);
    let asked = session.waiting().unwrap();
    assert_eq!((asked[0].id, &asked[0].arguments), (2, &json!({"amount": 7})));

    // No other operation is possible, and a wrong answer changes nothing.
    assert_eq!(session.run(Request::new("1")).unwrap_err().code(), "session.waiting");
    assert_eq!(session.set("x", 8).unwrap_err().code(), "session.waiting");
    let wrong = session.answer(vec![ToolAnswer::new(9, 1)]).unwrap_err();
    assert_eq!(wrong.code(), "session.no_call");

    let outcome = session.answer(vec![ToolAnswer::new(id, json!({"ok": true}))]).unwrap();
    check(&outcome);
    succeeded(&outcome);
    assert_eq!(outcome.stdout, "begun 7\nanswered {'ok': True}\nonce\n");
    assert_eq!(calls.load(Ordering::Relaxed), 1, "no function is called twice");
    assert_eq!(outcome.session.as_ref().unwrap().execution, 2);
    assert!(outcome.session.unwrap().restart_reason.is_none());

    // The session is as after any run, with the real clock.
    let after = session.run(Request::new(
        "import time\nprint(y, mark[4], abs(time.time() - mark[1]) < 600)\ntime.sleep(0.2)",
    ));
    let after = after.unwrap();
    assert_eq!(after.stdout, "8 1 True\n", "{after:#?}");
    assert!(after.usage.wall_ms >= 200.0);
    assert_eq!(session.answer(vec![]).unwrap_err().code(), "session.not_waiting");
    session.close();
}

#[test]
fn several_calls_wait_together_and_failures_are_told() {
    let session = session(SessionOptions::new());
    let code = "import asyncio, tools\n\
                got = await asyncio.gather(*(tools.approve(amount=i) for i in range(3)), return_exceptions=True)\n\
                print(got)\n\
                print(tools.approve.wait(amount=9))";
    let waiting = session.run(Request::new(code)).unwrap();
    waits(&waiting);
    let ids: Vec<u64> = session.waiting().unwrap().iter().map(|call| call.id).collect();
    assert_eq!(ids, [1, 2, 3]);
    let answers = vec![ToolAnswer::new(1, "yes"), ToolAnswer::failed(3, "no")];
    let waiting = session.answer(answers).unwrap();
    assert_eq!(waits(&waiting), 2);
    let waiting = session.answer(vec![ToolAnswer::new(2, 5)]).unwrap();
    assert_eq!(waits(&waiting), 4, "{waiting:#?}");
    assert_eq!(waiting.stdout, "['yes', 5, ToolError('no')]\n");
    // A waiting run can be forked and cancelled.
    let fork = session.fork().unwrap();
    session.rewind(0).unwrap();
    assert!(session.waiting().unwrap().is_empty());
    assert_eq!(session.run(Request::new("print(1)")).unwrap().stdout, "1\n");
    let outcome = fork.answer(vec![ToolAnswer::new(4, 6)]).unwrap();
    assert_eq!(outcome.stdout, "['yes', 5, ToolError('no')]\n6\n", "{outcome:#?}");
    fork.close();
    session.close();
}

#[test]
fn arguments_of_deferred_tools_are_checked_and_plain_runs_have_none() {
    let session = session(SessionOptions::new());
    let code = "import tools\ntry:\n    tools.approve(amount=5000)\nexcept tools.ToolError as e:\n    print(e.kind)";
    assert_eq!(session.run(Request::new(code)).unwrap().stdout, "invalid_arguments\n");
    session.close();
    let error = runtime().blocking().run(Request::new("1").tool(approve())).unwrap_err();
    assert!(error.to_string().contains("approve is deferred"), "{error}");
}

#[test]
fn a_run_that_does_something_else_the_second_time_is_told() {
    // The engine does not keep the contents of a mounted directory.
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("n"), "1").unwrap();
    let session = session(SessionOptions::new().mount(dir.path(), "/data"));
    let code = "import tools\nz = 1\ntools.approve(amount=int(open('/data/n').read()))";
    waits(&session.run(Request::new(code)).unwrap());
    std::fs::write(dir.path().join("n"), "2").unwrap();
    let outcome = session.answer(vec![ToolAnswer::new(1, 1)]).unwrap();
    failed(&outcome, ErrorKind::Crash);
    let detail = outcome.error_detail.unwrap();
    assert_eq!(detail.type_, "ReplayDiffers");
    assert!(detail.message.contains("{\"amount\":1}") && detail.message.contains("{\"amount\":2}"));
    // The state is the one before the run.
    assert!(session.waiting().unwrap().is_empty());
    assert_eq!(session.run(Request::new("print('z' in globals())")).unwrap().stdout, "False\n");
    session.close();
}

/// The run is repeated from the state before it, which nothing changes meanwhile.
#[test]
fn files_stay_as_they_were_while_a_run_waits() {
    let session = session(SessionOptions::new().file("n", "1"));
    let code = "import os, tools\nopen('made', 'w').close()\n\
                n = int(open('n').read())\nprint(n, tools.approve(amount=n), open('n').read())";
    let id = waits(&session.run(Request::new(code)).unwrap());
    let files = session.workspace();
    let changes = [
        files.write("n", &b"2"[..]).map(drop),
        files.remove("n"),
        files.rename("n", "m"),
        files.make_dir("d"),
    ];
    for changed in changes {
        assert_eq!(changed.unwrap_err().code(), "session.waiting");
    }
    // They can be read: those of the state before.
    assert_eq!(files.read("n", ..).unwrap(), b"1");
    let names = files.list("", 1).unwrap();
    assert_eq!(names.iter().map(|e| e.path.as_str()).collect::<Vec<_>>(), ["n"]);
    let outcome = session.answer(vec![ToolAnswer::new(id, "ok")]).unwrap();
    succeeded(&outcome);
    assert_eq!(outcome.stdout, "1 ok 1\n");
    files.write("n", &b"2"[..]).unwrap();
    assert_eq!(session.run(Request::new("print(open('n').read())")).unwrap().stdout, "2\n");
    session.close();
}

/// The checkpoint's manifest contained them, and is limited to 64 MiB.
#[test]
fn large_inputs_of_a_run_that_waits_are_in_the_checkpoint() {
    let session = session(SessionOptions::new());
    let code = "import tools, sys\ndata = open('data', 'rb').read()\n\
                print(tools.approve(amount=1), len(data), data[-1], sys.stdin.read())";
    let data: Vec<u8> = (0..50 << 20).map(|n: u32| (n / 4099) as u8).collect();
    let last = data[data.len() - 1];
    let request = Request::new(code).file("data", data).file("none", "").stdin("typed");
    let id = waits(&session.run(request.timeout(Duration::from_secs(30))).unwrap());
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("large.belljar");
    session.checkpoint(&file).unwrap();
    session.close();
    let restored = runtime().blocking().restore(RestoreOptions::file(&file)).unwrap();
    // It can be written again before it is answered.
    restored.checkpoint(&file).unwrap();
    let outcome = restored.answer(vec![ToolAnswer::new(id, "yes")]).unwrap();
    succeeded(&outcome);
    assert_eq!(outcome.stdout, format!("yes {} {last} typed\n", 50 << 20));
    restored.close();
}

/// A checkpoint counts the memory of values before it reads them: values of 33 million answers were
/// written, but could not be read again.
#[test]
fn a_run_with_many_values_in_its_answers_can_be_restored() {
    const LEVELS: usize = 120;
    let many = Tool::new("many", json!({"type": "object"}), |_: Value| async {
        Ok(Value::Array(vec![json!([]); 1_390_000]))
    });
    let deep = Tool::new("deep", json!({"type": "object"}), |arguments: Value| async move {
        let levels = arguments["levels"].as_u64().unwrap_or(0);
        Ok((0..levels).fold(json!(1), |inner, _| json!([inner])))
    });
    let session = session(SessionOptions::new().tool(many).tool(deep));
    let code = "\
import tools
def told(call, **arguments):
    try:
        return len(call(**arguments))
    except tools.ToolError as error:
        return error.kind
nested = 1
for _ in range(LEVELS): nested = [nested]
print(*(told(tools.many) for _ in range(13)))
print(told(tools.deep, levels=LEVELS), told(tools.deep, levels=LEVELS + 1), told(tools.deep, levels=1, x=[nested]))
print(tools.approve(amount=1))";
    let code = format!("LEVELS = {LEVELS}\n{code}");
    let limits = ToolLimits::default().total_bytes(4 << 30);
    let request = Request::new(code).timeout(Duration::from_secs(30)).tool_limits(limits);
    let id = waits(&session.run(request).unwrap());
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("values.belljar");
    session.checkpoint(&file).unwrap();
    let huge = Value::Array(vec![json!([]); 1_390_000]);
    let refused = session.answer(vec![ToolAnswer::new(id, huge)]).unwrap_err();
    assert_eq!(refused.code(), "session.bad_answer");
    assert!(chain(&refused).contains("3000000 values of JSON together"), "{}", chain(&refused));
    session.close();
    let restored = runtime().blocking().restore(RestoreOptions::file(&file)).unwrap();
    let outcome = restored.answer(vec![ToolAnswer::new(id, "yes")]).unwrap();
    succeeded(&outcome);
    let told = format!("1390000{}\n1 too_large too_large\nyes\n", " budget_exceeded".repeat(12));
    assert_eq!(outcome.stdout, told);
    restored.close();

    let session = self::session(SessionOptions::new());
    let values = typed::Value::List(vec![typed::Value::None; 240_000]);
    let mut request = Request::new("1");
    for name in ["a", "b", "c", "d", "e"] {
        request.variables.insert(name.into(), values.clone());
    }
    let refused = session.run(request).unwrap_err();
    assert_eq!(refused.code(), "refused", "{}", chain(&refused));
    session.close();
}

fn typed_echo() -> Tool {
    let schema = json!({"properties": {"value": {}}, "required": ["value"]});
    Tool::deferred_values("echo", schema)
}

#[test]
fn typed_values_go_to_whoever_answers_later_and_back() {
    let session = session(SessionOptions::new().tool(typed_echo()));
    let code = "import tools\nprint(tools.echo((1, b'ab', 2 ** 70, {3: 'x'})))";
    let id = waits(&session.run(Request::new(code)).unwrap());
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("typed.belljar");
    session.checkpoint(&file).unwrap();
    let restored = runtime().blocking().restore(RestoreOptions::file(&file)).unwrap();
    for session in [session, restored] {
        let asked = session.waiting().unwrap().remove(0);
        assert!(asked.typed);
        let value = asked.values().unwrap().remove("value").unwrap();
        let typed::Value::Tuple(items) = &value else {
            panic!("{value:?}");
        };
        assert_eq!(items[1], typed::Value::Bytes(b"ab".to_vec()));
        // Invalid values are rejected, and the run waits as before.
        let wrong = vec![ToolAnswer::new(id, json!({"$": "nonesuch"}))];
        assert_eq!(session.answer(wrong).unwrap_err().code(), "session.bad_answer");
        let answer = typed::Value::Tuple(vec![value, 1.5.into()]);
        let outcome = session.answer(vec![ToolAnswer::value(id, &answer)]).unwrap();
        succeeded(&outcome);
        assert_eq!(outcome.stdout, "((1, b'ab', 1180591620717411303424, {3: 'x'}), 1.5)\n");
        session.close();
    }
}

/// Without a session: the same request again, with the answers so far.
#[test]
fn a_deterministic_run_takes_its_answers_with_the_request() {
    let text = json!({
        "code": "import tools, random\nprint(random.random())\n\
                 a = tools.approve(amount=5)\nb = tools.approve(amount=a)\n\
                 try:\n    tools.approve(amount=b)\nexcept tools.ToolError as error:\n    print(a, b, error)",
        "image": "core",
        "deterministic": {"seed": 7},
        "tools": [{"name": "approve", "schema": {"properties": {"amount": {"type": "integer"}}}}],
    });
    let run = |answers: &[Value]| {
        let mut text = text.clone();
        text["answers"] = answers.to_vec().into();
        let asked: RunRequest = serde_json::from_value(text).unwrap();
        let request = asked.into_request(HostPaths::Refused).unwrap();
        runtime().blocking().run(request).unwrap().outcome
    };
    let mut answers = Vec::new();
    let mut printed = Vec::new();
    for (expected, answer) in [
        (1, json!({"id": 1, "answer": 6})),
        (2, json!({"id": 2, "answer": 7})),
        (3, json!({"id": 3, "error": "no"})),
    ] {
        let outcome = run(&answers);
        assert_eq!(waits(&outcome), expected);
        let last = outcome.tool_calls.last().unwrap();
        assert_eq!((last.id, &last.arguments["amount"]), (expected, &json!(4 + expected)));
        printed.push(outcome.stdout);
        answers.push(answer);
    }
    let outcome = run(&answers);
    succeeded(&outcome);
    assert_eq!(outcome.tool_calls.len(), 3);
    assert_eq!(outcome.stdout, format!("{}6 7 no\n", printed[0]));
    assert!(printed.iter().all(|text| *text == printed[0]));
    // Answers to calls that are not made have no effect.
    answers.push(json!({"id": 9, "answer": 1}));
    assert_eq!(run(&answers).stdout, outcome.stdout);

    // A session is answered in another way, and a run that is not repeatable not at all.
    let session = session(SessionOptions::new());
    let request = Request::new("1").answer(ToolAnswer::new(1, 1));
    assert_eq!(session.run(request.clone()).unwrap_err().code(), "refused");
    session.close();
    assert_eq!(runtime().blocking().run(request).unwrap_err().code(), "refused");
}

#[test]
fn a_repeatable_session_waits_as_well() {
    let own = SessionOptions::new().deterministic(Deterministic::new(3));
    let code = "import random, tools\na = random.random()\nprint(tools.approve(amount=1), a)";
    let through = || {
        let session = session(own.clone());
        let id = waits(&session.run(Request::new(code)).unwrap());
        let outcome = session.answer(vec![ToolAnswer::new(id, "yes")]).unwrap();
        let next = session.run(Request::new("print(random.random())")).unwrap();
        session.close();
        (outcome.stdout, next.stdout)
    };
    assert_eq!(through(), through());
}

/// Answers to typed calls are in the checkpoint, and their tool need not be passed again.
#[test]
fn typed_answers_are_the_same_when_the_run_goes_on() {
    let calls = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&calls);
    let same = Tool::values("same", json!({"properties": {"value": {}}}), move |mut arguments| {
        count.fetch_add(1, Ordering::Relaxed);
        async move { Ok(arguments.remove("value").unwrap_or_default()) }
    });
    let session = session(SessionOptions::new().tool(same));
    let code = "import tools\n\
                got = tools.same((1, 2.0, 2 ** 70, b'ab', {3: 'x'}))\n\
                ok = tools.approve(amount=1)\nprint(got, ok)";
    let id = waits(&session.run(Request::new(code)).unwrap());
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("typed.belljar");
    session.checkpoint(&file).unwrap();
    let restored = runtime().blocking().restore(RestoreOptions::file(&file)).unwrap();
    for session in [session, restored] {
        let outcome = session.answer(vec![ToolAnswer::new(id, true)]).unwrap();
        succeeded(&outcome);
        let expected = format!("(1, 2.0, {}, b'ab', {{3: 'x'}}) True\n", 1u128 << 70);
        assert_eq!(outcome.stdout, expected, "{outcome:#?}");
        session.close();
    }
    assert_eq!(calls.load(Ordering::Relaxed), 1);
}

/// The whole sequence: one process writes a waiting session to a file, and another answers it.
#[test]
fn another_process_answers() {
    const FILE: &str = "BELLJAR_TEST_WAITING";
    let name = "waiting::another_process_answers";
    if let Some(file) = std::env::var_os(FILE) {
        let runtime = runtime().blocking();
        let session = runtime.restore(RestoreOptions::file(file)).unwrap();
        let asked = session.waiting().unwrap();
        assert_eq!(
            (asked[0].name.as_str(), &asked[0].arguments),
            ("approve", &json!({"amount": 7}))
        );
        // The function `count` is not passed again: its answer is in the file.
        let outcome = session.answer(vec![ToolAnswer::new(asked[0].id, "from afar")]).unwrap();
        assert_eq!(outcome.stdout, "begun 7\nanswered from afar\nonce\n", "{outcome:#?}");
        let after = session.run(Request::new("print(y, mark)")).unwrap();
        println!("AFTER {}", after.stdout);
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("waiting.belljar");
    let calls = Arc::new(AtomicUsize::new(0));
    let session = session(SessionOptions::new().tool(counter(&calls)));
    session.run(Request::new("x = 7")).unwrap();
    let request = Request::new(CODE).file("b.bin", [0, 255]).timeout(Duration::from_secs(30));
    let id = waits(&session.run(request).unwrap());
    assert!(session.suspend().unwrap(), "a session that waits can be put away");
    session.checkpoint(&file).unwrap();
    // The other process sees the same as this one would.
    session.answer(vec![ToolAnswer::new(id, "from here")]).unwrap();
    let here = session.run(Request::new("print(y, mark)")).unwrap().stdout;
    session.close();
    let output = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture", "--test-threads", "1"])
        .env(FILE, &file)
        .output()
        .unwrap();
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{printed}{}", String::from_utf8_lossy(&output.stderr));
    assert!(printed.contains(&format!("AFTER {here}")), "{here}\n{printed}");
}

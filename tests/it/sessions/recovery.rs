//! Item 19 and the soft interrupt: crashes that a session survives, and how it reports them.

use std::time::Duration;

use belljar::outcome::ErrorKind;
use belljar::session::SessionStatus;
use belljar::{Request, Runtime, Session, SessionOptions};

use super::{block_on, core, interrupted, out, report, restarted, run, session_on, told};
use crate::support::{failed, program, runtime};

/// The initial state of every session here.
const BEFORE: &str = "x = 1\nopen('a.txt', 'w').write('one')\nf = open('a.txt')";
/// The state that must still exist afterwards.
const LOOK: &str = "print(x, f.read(), open('a.txt').read()); f.seek(0)";
const SPOIL: &str = "x = 2\nopen('a.txt', 'w').write('two')\nopen('b.txt', 'w').write('b')\n";

const CANCELLED: &str = "an earlier run was cancelled before it ended";

async fn prepared() -> Session {
    let session = core().await;
    out(&session, BEFORE).await;
    session
}

#[test]
fn contract_19_a_crash_goes_back_to_the_last_good_state() {
    let bad_pointer = program("contract/contract_02_bad_pointer");
    let crashes = [
        ("import os\nos._exit(3)", "ProcessExit"),
        ("import os\nos.abort()", "Trap"),
        (&bad_pointer, "Trap"),
    ];
    block_on(async {
        let session = prepared().await;
        let mut execution = 1;
        for (crash, reason) in crashes {
            let outcome =
                run(&session, Request::new(format!("print('so far')\n{SPOIL}{crash}"))).await;
            restarted(&outcome, ErrorKind::Crash, reason);
            execution += 1;
            assert_eq!(report(&outcome).execution, execution);
            assert!(outcome.stdout.starts_with("so far\n"), "what it printed is there");
            // Its files can be read, although the session has dropped them.
            assert_eq!(session.read("b.txt").await.unwrap(), b"b");
            assert_eq!(out(&session, LOOK).await, "1 one one\n0\n", "{crash}");
            execution += 1;
            told(session.read("b.txt").await);
        }
        session.close();
    });
}

#[test]
fn contract_19_nothing_is_run_twice() {
    block_on(async {
        let session = core().await;
        out(&session, "import os\ncount = 0").await;
        out(&session, "count += 1").await;
        for _ in 0..3 {
            run(&session, Request::new("count += 1\nos._exit(1)")).await;
        }
        assert_eq!(out(&session, "count").await, "1\n");
        session.close();
    });
}

#[test]
fn contract_19_initial_code_is_honoured_after_a_crash_of_the_first_run() {
    block_on(async {
        let options = SessionOptions::new().image("core").init_code("start = 7");
        let session = session_on(runtime(), options).await;
        let outcome = run(&session, Request::new("start = 8\nimport os\nos._exit(0)")).await;
        restarted(&outcome, ErrorKind::Crash, "ProcessExit");
        assert_eq!(out(&session, "start").await, "7\n");
        session.close();
    });
}

#[test]
fn a_timeout_keeps_what_was_done() {
    block_on(async {
        let session = prepared().await;
        let limit = Duration::from_secs(1);
        let request = Request::new("y = 5\nwhile True:\n    pass").timeout(limit);
        let outcome = run(&session, request).await;
        failed(&outcome, ErrorKind::Timeout);
        let detail = outcome.error_detail.as_ref().unwrap();
        assert!(matches!(detail.line, Some(2 | 3)), "{detail:?}");
        assert!(detail.traceback.as_ref().unwrap().contains("File \"<string>\", line"));
        assert!(!report(&outcome).interpreter_restarted);
        assert_eq!(out(&session, "print(x, y)").await, "1 5\n");
        session.close();
    });
}

#[test]
fn fuel_keeps_what_was_done() {
    block_on(async {
        let session = prepared().await;
        let request = Request::new("y = 5\nwhile True: pass").fuel(100_000_000);
        let outcome = run(&session, request).await;
        failed(&outcome, ErrorKind::Fuel);
        assert!(!report(&outcome).interpreter_restarted);
        assert_eq!(out(&session, "print(x, y)").await, "1 5\n");
        session.close();
    });
}

#[test]
fn code_that_goes_on_after_an_interrupt_is_stopped_for_good() {
    let stubborn = [
        "while True:\n    try:\n        while True: pass\n    except BaseException: pass",
        "sum(range(10 ** 15))",
    ];
    block_on(async {
        for code in stubborn {
            let session = prepared().await;
            let request = Request::new(format!("{SPOIL}{code}"));
            let outcome = run(&session, request.timeout(Duration::from_secs(1))).await;
            restarted(&outcome, ErrorKind::Timeout, "did not stop when it was interrupted");
            assert_eq!(out(&session, LOOK).await, "1 one one\n0\n", "{code}");
            session.close();
        }
    });
}

#[test]
fn an_interrupt_keeps_what_was_done() {
    block_on(async {
        let session = prepared().await;
        for code in [
            "y = 6\nprint('ready')\nwhile True: pass",
            "y = 6\nimport time\nprint('ready')\ntime.sleep(100)",
        ] {
            let outcome = interrupted(&session, code).await;
            failed(&outcome, ErrorKind::Interrupted);
            assert_eq!(outcome.error.as_deref(), Some("Code execution was interrupted"));
            let detail = outcome.error_detail.as_ref().unwrap();
            assert!(detail.traceback.as_ref().unwrap().contains("KeyboardInterrupt"), "{detail:?}");
            assert!(!report(&outcome).interpreter_restarted);
            assert_eq!(out(&session, "print(x, y)\ndel y").await, "1 6\n");
        }
        assert!(!session.interrupt(), "nothing runs");
        // An interrupt without a run does not affect the next run.
        for _ in 0..50 {
            assert_eq!(out(&session, "x").await, "1\n");
        }
        session.close();
    });
}

#[test]
fn code_that_handles_the_interrupt_has_been_interrupted_all_the_same() {
    block_on(async {
        let session = prepared().await;
        let code = "try:\n    print('ready')\n    while True: pass\nexcept KeyboardInterrupt:\n    y = 'handled'";
        let outcome = interrupted(&session, code).await;
        failed(&outcome, ErrorKind::Interrupted);
        assert!(!report(&outcome).interpreter_restarted);
        assert_eq!(out(&session, "y").await, "handled\n");
        session.close();
    });
}

#[test]
fn a_run_that_is_dropped_is_as_if_it_had_not_been() {
    block_on(async {
        let session = prepared().await;
        let request = Request::new(format!("{SPOIL}while True: pass"));
        let dropped = tokio::time::timeout(
            Duration::from_millis(200),
            session.run(request.timeout(Duration::from_mins(1))),
        );
        assert!(dropped.await.is_err());
        assert_eq!(session.info().status, SessionStatus::Idle);
        let outcome = run(&session, Request::new(LOOK)).await;
        assert_eq!(outcome.stdout, "1 one one\n0\n");
        let report = report(&outcome);
        assert_eq!(report.execution, 2);
        assert!(report.interpreter_restarted);
        assert_eq!(report.restart_reason.as_deref(), Some(CANCELLED));
        assert_eq!(out(&session, "x").await, "1\n");
        session.close();
    });
}

#[test]
fn a_loss_is_told_by_the_next_run_that_comes_to_its_turn() {
    block_on(async {
        let runtime = Runtime::builder().environment().concurrency(1).build().unwrap();
        let session = session_on(&runtime, SessionOptions::new().image("core")).await;
        let other = session_on(&runtime, SessionOptions::new().image("core")).await;
        let dropped = async |code: &str, after: u64| {
            let running = session.run(Request::new(code));
            tokio::time::timeout(Duration::from_millis(after), running).await.unwrap_err();
        };
        dropped("while True: pass", 200).await;
        let slow = Request::new("import time\ntime.sleep(1)");
        let (slow, ()) = tokio::join!(other.run(slow), dropped("never = 1", 100));
        crate::support::succeeded(&slow.unwrap());
        let outcome = run(&session, Request::new("'never' in globals()")).await;
        assert_eq!(outcome.stdout, "False\n");
        assert_eq!(report(&outcome).restart_reason.as_deref(), Some(CANCELLED));
    });
}

#[test]
fn a_full_memory_is_an_exception_and_the_session_goes_on() {
    block_on(async {
        let mut options = SessionOptions::new().image("core");
        options.start = options.start.memory_mib(32);
        let session = session_on(runtime(), options).await;
        out(&session, "x = 1").await;
        let outcome = run(&session, Request::new("y = bytearray(64 << 20)")).await;
        assert_eq!(outcome.error.as_deref(), Some("Memory limit exceeded during code execution"));
        assert_eq!(out(&session, "x").await, "1\n");
        session.close();
    });
}

#[test]
fn attempts_at_the_runner_cost_the_run_and_not_the_session() {
    block_on(async {
        for name in crate::support::programs_in("forge") {
            let session = prepared().await;
            let request = Request::new(program(&format!("forge/{name}")));
            let outcome = run(&session, request.timeout(Duration::from_secs(20))).await;
            let next =
                run(&session, Request::new("print('after')").echo(belljar::request::Echo::None))
                    .await;
            let lost =
                report(&outcome).interpreter_restarted || report(&next).interpreter_restarted;
            // A guest may damage its own session, but must not keep the host from an answer.
            if !next.success {
                session.rewind(1).await.unwrap();
            }
            if lost || !next.success {
                assert_eq!(out(&session, LOOK).await, "1 one one\n0\n", "{name}");
            }
            session.close();
        }
    });
}

//! The state after a run is kept while its outcome is on its way: what comes next waits for it, and
//! nothing is lost silently.

use belljar::{Request, Runtime, SessionBounds, SessionOptions};

use super::{block_on, core, out, report, run, session_on};
use crate::support::runtime_in;

#[test]
fn whatever_comes_right_after_a_run_finds_its_state() {
    block_on(async {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("session.belljar");
        let session = core().await;
        out(&session, "x = 0\nf = open('a.txt', 'w+')").await;
        for n in 1..40_usize {
            out(&session, &format!("x += 1; f.write('{n} '); f.flush()")).await;
            match n % 8 {
                0 => {
                    let fork = session.fork().await.unwrap();
                    assert_eq!(out(&fork, "x").await, format!("{n}\n"));
                    fork.close();
                }
                1 => {
                    session.checkpoint(&path).await.unwrap();
                    let restored = crate::support::runtime().restore(&path).await.unwrap();
                    assert_eq!(out(&restored, "x").await, format!("{n}\n"));
                    restored.close();
                }
                2 => assert_eq!(
                    session.get("x").await.unwrap(),
                    Some(i64::try_from(n).unwrap().into())
                ),
                3 => {
                    let text = session.read("a.txt").await.unwrap();
                    assert!(text.ends_with(format!("{n} ").as_bytes()));
                }
                4 => assert!(session.suspend().await, "nothing runs"),
                5 => assert_eq!(session.history().await.unwrap().len(), n + 1),
                6 => {
                    let fork = session.fork().await.unwrap();
                    let later = fork.rewind_keeping(n as u64).await.unwrap();
                    assert_eq!(out(&later, "x").await, format!("{n}\n"));
                    assert_eq!(out(&fork, "x").await, format!("{}\n", n - 1));
                    later.close();
                    fork.close();
                }
                _ => {}
            }
        }
        session.close();
    });
}

#[test]
fn a_session_that_is_dropped_or_closed_right_after_a_run_leaves_nothing_behind() {
    let dir = tempfile::tempdir().unwrap();
    let code = "open('large', 'wb').write(bytes(1 << 20))\nx = bytes(range(256)) * (1 << 16)";
    let left = || std::fs::read_dir(dir.path()).unwrap().count();
    block_on(async {
        let runtime = runtime_in(dir.path());
        for _ in 0..3 {
            let session = session_on(&runtime, SessionOptions::new().image("core")).await;
            out(&session, code).await;
            session.close();
        }
        let session = session_on(&runtime, SessionOptions::new().image("core")).await;
        out(&session, code).await;
        drop((session, runtime));
        assert_eq!(left(), 0, "{:?}", std::fs::read_dir(dir.path()).unwrap().collect::<Vec<_>>());
    });
    // Where nobody drives the asynchronous runtime any more.
    let runtime = runtime_in(dir.path()).blocking();
    let session = runtime.session(SessionOptions::new().image("core")).unwrap();
    session.run(Request::new(format!("{code}\nf = open('large')"))).unwrap();
    drop((session, runtime));
    assert_eq!(left(), 0);
}

#[test]
fn an_asynchronous_runtime_may_end_before_the_state_is_kept() {
    let session = block_on(core());
    for n in 0..10 {
        let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let code = format!("x = {n}\nf = open('a.txt', 'w')\nf.write('{n}')");
        tokio.block_on(out(&session, &code));
        tokio.shutdown_background();
    }
    block_on(async {
        assert_eq!(out(&session, "x").await, "9\n");
        session.close();
    });
}

#[test]
fn a_state_that_cannot_be_kept_is_told_and_not_passed_off_as_another() {
    let (dir, states) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let bounds = SessionBounds::default().dir(states.path());
    let runtime = Runtime::builder().temp_dir(dir.path()).sessions(bounds).build().unwrap();
    block_on(async {
        let session = session_on(&runtime, SessionOptions::new().image("core")).await;
        out(&session, "x = 1").await;
        for entry in std::fs::read_dir(states.path()).unwrap().flatten() {
            std::fs::remove_dir_all(entry.path()).unwrap();
        }
        let spoil = "x = 2\nopen('large', 'wb').write(bytes(1 << 20))";
        out(&session, spoil).await;
        // Nobody gets the state before it in its place.
        let (hint, code) = match session.fork().await {
            Ok(_) => panic!("a fork of another state"),
            Err(error) => (error.hint(), error.code()),
        };
        assert_eq!(code, "session.not_kept");
        assert!(hint.unwrap().contains("rewind"));
        assert_eq!(session.get("x").await.unwrap_err().code(), "session.not_kept");
        let file = dir.path().join("checkpoint");
        let error = session.checkpoint(&file).await.unwrap_err();
        let said = format!("the state after run 2 of session {} could not be kept: ", session.id());
        assert!(error.to_string().starts_with(&said), "{error}");
        assert!(!file.exists());
        // The next run says it, and goes on from the state before.
        let outcome = run(&session, Request::new("x")).await;
        assert_eq!(outcome.stdout, "1\n");
        let report = report(&outcome);
        assert!(report.interpreter_restarted && !report.interpreter_crashed);
        assert_eq!(
            report.restart_reason.as_deref(),
            Some("the state after an earlier run could not be kept")
        );
        assert_eq!(out(&session, "x").await, "1\n");
        assert_eq!(session.history().await.unwrap().len(), 4);
        session.fork().await.unwrap().close();
        // So does going back.
        out(&session, spoil).await;
        session.rewind(1).await.unwrap();
        assert_eq!(out(&session, "x").await, "1\n");
        session.close();
    });
}

//! Sessions: state that persists, survives, forks and rewinds.

use std::time::Duration;

use belljar::{Request, Session, SessionOptions};

use crate::support::{runtime, tokio};

fn block_on(body: impl Future<Output = ()>) {
    tokio(2).block_on(body);
}

async fn core() -> Session {
    runtime().session(SessionOptions::new().image("core")).await.unwrap()
}

async fn out(session: &Session, code: &str) -> String {
    let outcome = session.run(Request::new(code)).await.unwrap();
    assert!(outcome.success, "{outcome:#?}");
    outcome.stdout
}

#[test]
fn state_persists() {
    block_on(async {
        let session = core().await;
        out(&session, "x = 20\nimport json").await;
        assert_eq!(out(&session, "json.dumps([x + 1])").await, "[21]\n");
        let outcome = session.run(Request::new("y = 5\n1/0")).await.unwrap();
        assert_eq!(outcome.error.as_deref(), Some("ZeroDivisionError: division by zero"));
        assert_eq!(out(&session, "y").await, "5\n");
        for n in 0..200 {
            assert_eq!(out(&session, &format!("{n}")).await, format!("{n}\n"));
        }
        session.close();
    });
}

#[test]
fn a_crash_goes_back_to_the_last_state() {
    block_on(async {
        let session = core().await;
        out(&session, "x = 1\nopen('a.txt', 'w').write('one')").await;
        let outcome =
            session.run(Request::new("x = 2\nopen('a.txt', 'w').write('two')\nimport os\nos._exit(3)")).await.unwrap();
        let report = outcome.session.unwrap();
        assert!(report.interpreter_restarted, "{report:?}");
        assert_eq!(report.execution, 2);
        assert_eq!(out(&session, "print(x, open('a.txt').read())").await, "1 one\n");
        session.close();
    });
}

#[test]
fn forks_and_rewinds() {
    block_on(async {
        let session = core().await;
        out(&session, "x = [1]\nopen('a.txt', 'w').write('one')").await;
        out(&session, "x.append(2)").await;
        let fork = session.fork().await.unwrap();
        out(&fork, "x.append('fork')\nopen('a.txt', 'w').write('fork')").await;
        assert_eq!(out(&session, "print(x, open('a.txt').read())").await, "[1, 2] one\n");
        assert_eq!(out(&fork, "print(x, open('a.txt').read())").await, "[1, 2, 'fork'] fork\n");
        session.rewind(1).await.unwrap();
        assert_eq!(out(&session, "x").await, "[1]\n");
        assert_eq!(session.execution().await, 2);
        fork.rewind(0).await.unwrap();
        assert_eq!(out(&fork, "'x' in globals()").await, "False\n");
        session.close();
        fork.close();
    });
}

#[test]
fn a_checkpoint_is_restored() {
    block_on(async {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("session.belljar");
        let session = core().await;
        out(&session, "f = open('a.txt', 'w+')\nf.write('hello')\nf.flush()\nf.seek(2)\ng = (i * i for i in range(10))\nnext(g), next(g)").await;
        session.checkpoint(&path).await.unwrap();
        out(&session, "f.close()").await;
        let other = runtime().restore(&path).await.unwrap();
        assert_eq!(out(&other, "print(f.read(), next(g))").await, "llo 4\n");
        other.close();
        session.close();
    });
}

#[test]
fn a_suspended_session_wakes_up() {
    block_on(async {
        let session = core().await;
        out(&session, "x = 5\nimport tempfile\nt = tempfile.TemporaryFile()\nt.write(b'abc')").await;
        assert!(session.suspend().await);
        assert_eq!(session.info().status, belljar::SessionStatus::Suspended);
        assert_eq!(out(&session, "t.seek(1)\nprint(x, t.read())").await, "1\n5 b'bc'\n");
        session.close();
    });
}

#[test]
fn an_interrupt_keeps_the_state() {
    block_on(async {
        let session = core().await;
        out(&session, "x = 5").await;
        let running = session.clone();
        let run = ::tokio::spawn(async move {
            running.run(Request::new("y = 6\nwhile True: pass").timeout(Duration::from_secs(60))).await
        });
        while !session.interrupt() {
            ::tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let outcome = run.await.unwrap().unwrap();
        assert_eq!(outcome.error.as_deref(), Some("Code execution was interrupted"));
        assert!(!outcome.session.unwrap().interpreter_restarted);
        assert_eq!(out(&session, "print(x, y)").await, "5 6\n");
        session.close();
    });
}

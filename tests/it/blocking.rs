//! The engine without an asynchronous runtime.

use std::time::Duration;

use belljar::outcome::ErrorKind;
use belljar::{Error, Request, Runtime, SessionOptions};

use crate::support::{check, comes_to, failed, runtime, succeeded, tokio};

#[test]
fn a_session_does_all_that_it_does_for_asynchronous_callers() {
    let runtime = runtime().blocking();
    let dir = tempfile::tempdir().unwrap();
    let session = runtime.session(SessionOptions::new().image("core")).unwrap();
    let print = |code: &str| {
        let outcome = session.run(Request::new(code)).unwrap();
        check(&outcome);
        succeeded(&outcome);
        outcome.stdout
    };
    assert_eq!(print("x = 20\nopen('a.txt', 'w').write('Ada')"), "3\n");
    assert_eq!(session.read("a.txt").unwrap(), b"Ada");
    let files = session.workspace();
    assert_eq!(files.write("d/b.txt", &b"Grace"[..]).unwrap().size, 5);
    files.make_dir("e").unwrap();
    files.rename("d/b.txt", "e/b.txt").unwrap();
    files.remove("d").unwrap();
    assert_eq!(files.list("", 2).unwrap().len(), 3);
    assert_eq!(files.stat("e/b.txt").unwrap().size, 5);
    assert_eq!(files.read("e/b.txt", 1..3).unwrap(), b"ra");
    let fork = session.fork().unwrap();
    assert_eq!(print("x + 1"), "21\n");
    assert_eq!(fork.run(Request::new("x + 2")).unwrap().stdout, "22\n");
    session.rewind(1).unwrap();
    assert_eq!(session.execution().unwrap(), 1);
    assert_eq!(session.history().unwrap().len(), 1);
    assert!(session.suspend().unwrap());
    assert_eq!(print("x"), "20\n");
    let path = dir.path().join("session.belljar");
    session.checkpoint(&path).unwrap();
    let restored = runtime.restore(&path).unwrap();
    assert_eq!(restored.run(Request::new("x * 2")).unwrap().stdout, "40\n");
    assert_eq!(runtime.find(restored.id()).unwrap().id(), restored.id());
    for session in [&session, &fork, &restored] {
        session.close();
        assert!(runtime.find(session.id()).is_err());
    }
}

#[test]
fn several_threads_wait_at_the_same_time() {
    let runtime = runtime().blocking();
    std::thread::scope(|scope| {
        let spin = || {
            let spin = Request::new("while True: pass").timeout(Duration::from_millis(300));
            runtime.run(spin).unwrap().outcome
        };
        let spins = [scope.spawn(spin), scope.spawn(spin), scope.spawn(spin)];
        let sleep = runtime.run(Request::new("import time; time.sleep(0.05)")).unwrap();
        succeeded(&sleep.outcome);
        for spin in spins {
            failed(&spin.join().unwrap(), ErrorKind::Timeout);
        }
    });
}

#[test]
fn a_run_is_interrupted_from_another_thread() {
    let session = runtime().blocking().session(SessionOptions::new().image("core")).unwrap();
    std::thread::scope(|scope| {
        let endless = Request::new("while True: pass").timeout(Duration::from_mins(1));
        let running = scope.spawn(|| session.run(endless).unwrap());
        assert!(comes_to(|| session.interrupt()));
        failed(&running.join().unwrap(), ErrorKind::Interrupted);
    });
    session.close();
}

#[test]
fn a_blocking_call_in_an_asynchronous_place_is_refused() {
    let errors = tokio(1).block_on(async {
        let runtime = runtime().blocking();
        let run = runtime.run(Request::new("1")).err();
        [run, runtime.session(SessionOptions::new()).err()]
    });
    for error in errors.map(Option::unwrap) {
        assert!(matches!(error, Error::NotBlocking), "{error:?}");
        assert!(error.hint().is_some());
    }
}

/// Its reactor has a thread, on which blocking calls are refused.
#[test]
fn a_runtime_that_was_blocked_on_can_end_in_an_asynchronous_place() {
    let runtime = Runtime::builder().environment().build().unwrap();
    succeeded(&runtime.blocking().run(Request::new("1")).unwrap().outcome);
    tokio(1).block_on(async move { drop(runtime) });
}

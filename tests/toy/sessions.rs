//! Sessions: what stays, what is lost, and every way to go on from somewhere else.

use std::sync::Arc;
use std::time::Duration;

use belljar::event::{OutputWatcher, Stream};
use belljar::outcome::ErrorKind;
use belljar::request::RunLimits;
use belljar::session::{RegistryLimits, RestoreOptions, SessionLimits, SessionStatus};
use belljar::{Error, Request, RequestLimits, Runtime, Session, SessionOptions};
use tokio::sync::Notify;

use super::{failed, guest, out, report, runtime, session};

/// Memory, files and an open file.
const BEFORE: &str = "set a 1\ngrow 20\nwrite f one\nopen o g\nput o 1";
/// Shows the variable and both files.
const LOOK: &str = "get a\nread f\nprint\nread g\nprint";
const CHANGE: &str = "add a 1\nwrite f two\nput o 2";

/// Hears when a run prints something.
#[derive(Default)]
struct Begun(Notify);

impl Begun {
    async fn wait(&self) {
        self.0.notified().await;
    }
}

impl OutputWatcher for Begun {
    fn write(&self, _: Stream, _: &[u8]) {
        self.0.notify_one();
    }
}

async fn prepared() -> Session {
    let session = session().await;
    out(&session, BEFORE).await;
    session
}

#[tokio::test]
async fn memory_files_and_descriptors_stay_between_runs() {
    let session = prepared().await;
    for n in 2..6 {
        out(&session, "add a 1\nput o .").await;
        assert_eq!(out(&session, "get a").await, format!("{n}\n"));
    }
    assert_eq!(out(&session, LOOK).await, "5\none\n1....\n");
    assert_eq!(session.execution().await, 10);
    assert_eq!(session.history().await.unwrap().len(), 10);
}

#[tokio::test]
async fn what_fails_in_code_is_kept_as_far_as_it_came() {
    let session = prepared().await;
    for (end, kind, name) in [
        ("raise it", ErrorKind::Exception, "ToyError"),
        ("exit 3", ErrorKind::Exit, "Exception"),
        ("grow 60000", ErrorKind::Memory, "MemoryError"),
    ] {
        let outcome = session.run(Request::new(format!("add a 1\n{end}"))).await.unwrap();
        failed(&outcome, kind, name);
        assert!(!report(&outcome).interpreter_restarted);
    }
    assert_eq!(out(&session, "get a").await, "4\n");
}

#[tokio::test]
async fn a_lost_interpreter_leaves_the_state_before_its_run() {
    let session = prepared().await;
    for (end, kind, name) in [
        ("trap", ErrorKind::Crash, "Trap"),
        ("recurse", ErrorKind::Crash, "StackOverflow"),
        ("quit 3", ErrorKind::Crash, "ProcessExit"),
        ("hang", ErrorKind::Timeout, "Timeout"),
    ] {
        let mut request = Request::new(format!("{CHANGE}\nwrite new x\n{end}"));
        if end == "hang" {
            request = request.timeout(Duration::from_millis(500));
        }
        let outcome = session.run(request).await.unwrap();
        failed(&outcome, kind, name);
        assert!(report(&outcome).interpreter_restarted, "{outcome:#?}");
        // The files of the lost run can be read until the next.
        assert_eq!(session.read("new").await.unwrap(), b"x", "{end}");
        assert_eq!(out(&session, LOOK).await, "1\none\n1\n", "{end}");
        assert!(session.read("new").await.is_err(), "{end}");
    }
}

#[tokio::test]
async fn initial_code_is_what_the_first_run_goes_back_to() {
    let options = || SessionOptions::new().init_code("set a 7");
    let session = runtime().session(options()).await.unwrap();
    failed(&session.run(Request::new("set a 8\ntrap")).await.unwrap(), ErrorKind::Crash, "Trap");
    assert_eq!(out(&session, "get a").await, "7\n");
    let none = runtime().session(options().init_code("error why\nraise it")).await.err().unwrap();
    assert_eq!(none.code(), "session.initial_code");
    assert!(none.to_string().contains("ToyError: it"), "{none}");
}

#[tokio::test]
async fn an_interrupted_run_keeps_what_it_did() {
    let session = prepared().await;
    let begun = Arc::new(Begun::default());
    let running = {
        let (session, begun) = (session.clone(), begun.clone());
        let request = Request::new("add a 1\nprint begun\nspin\nadd a 10").watch(begun);
        tokio::spawn(async move { session.run(request).await.unwrap() })
    };
    begun.wait().await;
    assert_eq!(session.info().status, SessionStatus::Running);
    assert!(session.interrupt());
    failed(&running.await.unwrap(), ErrorKind::Interrupted, "Interrupted");
    assert_eq!(out(&session, LOOK).await, "2\none\n1\n");
    let outcome = session.run(Request::new("add a 1\nspin").fuel(1_000_000)).await.unwrap();
    failed(&outcome, ErrorKind::Fuel, "Fuel");
    assert_eq!(out(&session, "get a").await, "3\n");
}

#[tokio::test]
async fn a_run_that_is_dropped_is_as_if_it_had_not_been() {
    let session = prepared().await;
    let begun = Arc::new(Begun::default());
    let request = Request::new(format!("{CHANGE}\nprint begun\nspin")).watch(begun.clone());
    tokio::select! {
        _ = session.run(request.timeout(Duration::from_mins(1))) => unreachable!(),
        () = begun.wait() => {}
    }
    let outcome = session.run(Request::new(LOOK)).await.unwrap();
    assert_eq!(outcome.stdout, "1\none\n1\n");
    let reason = report(&outcome).restart_reason.clone();
    assert_eq!(reason.as_deref(), Some("an earlier run was cancelled before it ended"));
}

#[tokio::test]
async fn forks_go_their_own_ways() {
    let session = prepared().await;
    let fork = session.fork().await.unwrap();
    out(&session, CHANGE).await;
    out(&fork, "add a 10\nput o 3\nremove f\nwrite f fork").await;
    let second = fork.fork().await.unwrap();
    session.close();
    assert_eq!(out(&second, LOOK).await, "11\nfork\n13\n");
    assert_eq!(out(&fork, LOOK).await, "11\nfork\n13\n");
}

#[tokio::test]
async fn a_session_goes_back_and_forth() {
    let session = prepared().await;
    out(&session, CHANGE).await;
    out(&session, CHANGE).await;
    assert_eq!(out(&session, LOOK).await, "3\ntwo\n122\n");
    session.rewind(2).await.unwrap();
    assert_eq!(out(&session, LOOK).await, "2\ntwo\n12\n");
    let later = session.rewind_keeping(1).await.unwrap();
    assert_eq!(out(&session, LOOK).await, "1\none\n1\n");
    assert_eq!(out(&later, LOOK).await, "2\ntwo\n12\n");
    assert_eq!(session.rewind(7).await.unwrap_err().code(), "session.no_state");
    session.reset().await.unwrap();
    assert_eq!(out(&session, "get a\ntry read f").await, "0\nerrno 44\n");
    assert!(session.files().await.unwrap().is_empty());
}

#[tokio::test]
async fn a_checkpoint_is_the_session_elsewhere() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("checkpoint");
    let session = prepared().await;
    out(&session, CHANGE).await;
    session.checkpoint(&path).await.unwrap();
    out(&session, CHANGE).await;
    let (one, other) = (runtime(), runtime());
    let restored = one.restore(path.as_path()).await.unwrap();
    assert_eq!(out(&restored, LOOK).await, "2\ntwo\n12\n");
    // What was written to the open file goes on where it was, and the past came along.
    out(&restored, "put o 3").await;
    assert_eq!(out(&restored, "read g").await, "123");
    restored.rewind(1).await.unwrap();
    assert_eq!(out(&restored, LOOK).await, "1\none\n1\n");
    restored.checkpoint(&path).await.unwrap();
    let again = other.restore(path.as_path()).await.unwrap();
    assert_eq!(out(&again, LOOK).await, "1\none\n1\n");
    assert_eq!(out(&session, LOOK).await, "3\ntwo\n122\n");
}

#[tokio::test]
async fn a_damaged_checkpoint_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("checkpoint");
    prepared().await.checkpoint(&path).await.unwrap();
    let sound = std::fs::read(&path).unwrap();
    let runtime = runtime();
    let step = (sound.len() / 200).max(1);
    for at in (0..sound.len()).step_by(step) {
        let mut damaged = sound.clone();
        damaged[at] ^= 0x55;
        std::fs::write(&path, &damaged).unwrap();
        let came = runtime.restore(path.as_path()).await;
        // Damage in what only the past needs is found when that is asked for.
        let Ok(session) = came else { continue };
        assert_eq!(out(&session, LOOK).await, "1\none\n1\n", "damage at {at}");
        session.close();
    }
    std::fs::write(&path, &sound[..sound.len() / 2]).unwrap();
    assert!(runtime.restore(path.as_path()).await.is_err());
    assert!(runtime.sessions().list().is_empty());
}

#[tokio::test]
async fn a_suspended_session_wakes_where_it_was() {
    let session = prepared().await;
    for n in 1..4 {
        assert!(session.suspend().await);
        assert_eq!(session.info().status, SessionStatus::Suspended);
        assert_eq!(session.read("f").await.unwrap(), b"one", "its files are at hand");
        assert_eq!(out(&session, "get a\nadd a 1\nput o +").await, format!("{n}\n"));
    }
    assert!(session.suspend().await);
    session.rewind(2).await.unwrap();
    assert_eq!(out(&session, LOOK).await, "2\none\n1+\n");
}

#[tokio::test]
async fn no_more_sessions_are_awake_than_may_be() {
    let bounds = RegistryLimits::default().max_awake(2);
    let runtime = Runtime::builder().bundle(guest::bundle()).sessions(bounds).build().unwrap();
    let mut sessions = Vec::new();
    for n in 0..6 {
        let session = runtime.session(SessionOptions::new()).await.unwrap();
        out(&session, &format!("set a {n}\nwrite f {n}")).await;
        sessions.push(session);
    }
    for (n, session) in sessions.iter().enumerate() {
        assert_eq!(out(session, "get a\nread f").await, format!("{n}\n{n}"));
    }
    // The others are suspended in the background.
    let is_awake = |session: &&Session| session.info().status != SessionStatus::Suspended;
    for _ in 0..1000 {
        if sessions.iter().filter(is_awake).count() <= 2 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("more than two sessions stay in memory");
}

#[tokio::test]
async fn a_snapshot_starts_any_number_of_sessions() {
    let runtime = runtime();
    let session = runtime.session(SessionOptions::new()).await.unwrap();
    out(&session, BEFORE).await;
    session.snapshot("ready").await.unwrap();
    out(&session, CHANGE).await;
    session.close();
    for _ in 0..3 {
        let from = runtime.session_from("ready").await.unwrap();
        out(&from, CHANGE).await;
        assert_eq!(out(&from, LOOK).await, "2\ntwo\n12\n");
    }
}

#[tokio::test]
async fn limits_hold_for_all_runs_together() {
    let limits = RequestLimits::default().memory(4 << 20).workspace(10_000).files(3);
    let options = SessionOptions::new().run_limits(limits).total_fuel(3_000_000);
    let session = runtime().session(options).await.unwrap();
    out(&session, "grow 40\nfill f 6000").await;
    let outcome = session.run(Request::new("grow 40")).await.unwrap();
    failed(&outcome, ErrorKind::Memory, "MemoryError");
    assert_eq!(out(&session, "try fill g 6000\nremove g\nfill g 4000").await, "errno 51\n");
    assert_eq!(out(&session, "write h\ntry write i").await, "errno 51\n");
    // A fork has its own room, and no more than that.
    let fork = session.fork().await.unwrap();
    assert_eq!(out(&fork, "remove f\nfill i 6000\ntry append i x").await, "errno 51\n");
    let outcome = session.run(Request::new("spin")).await.unwrap();
    failed(&outcome, ErrorKind::Fuel, "Fuel");
    let outcome = session.run(Request::new("print 1")).await.unwrap();
    assert!(outcome.error.unwrap().starts_with("The session has used all of its fuel"));
}

#[tokio::test]
async fn a_restorer_bounds_what_a_checkpoint_says() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("checkpoint");
    prepared().await.checkpoint(&path).await.unwrap();
    let runtime = runtime();
    let limits = SessionLimits::default().fuel(1_000_000);
    let bounded = RestoreOptions::from(path.as_path()).limits(limits);
    let session = runtime.restore(bounded).await.unwrap();
    assert_eq!(out(&session, "get a").await, "1\n");
    failed(&session.run(Request::new("spin")).await.unwrap(), ErrorKind::Fuel, "Fuel");
    // A checkpoint that asks for more than a runtime has to give is refused.
    let ceilings = RunLimits::default().workspace(1000);
    let strict = Runtime::builder().bundle(guest::bundle()).ceilings(ceilings).build().unwrap();
    assert!(matches!(strict.restore(path.as_path()).await, Err(Error::Refused(_))));
}

//! Labels, leases, and snapshots as parents of new sessions.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use belljar::error::SessionError;
use belljar::outcome::ErrorKind;
use belljar::session::{LeaseEnd, SessionStatus};
use belljar::{Error, Request, Session, SessionOptions};

use super::{block_on, core, out, session_on};
use crate::support::{failed, runtime};

const SHORT: Duration = Duration::from_millis(300);

fn is_gone<T>(result: &Result<T, Error>) -> bool {
    matches!(result, Err(Error::Session(SessionError::NotFound { .. })))
}

async fn comes_to(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < Duration::from_secs(10), "{what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

fn is_listed(session: &Session) -> bool {
    runtime().sessions().list().iter().any(|info| info.id == session.id())
}

#[test]
fn labels_are_listed_and_replaced() {
    block_on(async {
        let options = SessionOptions::new().image("core").label("user", "Ada").label("chat", "7");
        let session = session_on(runtime(), options).await;
        let labels = |session: &Session| session.info().labels;
        assert_eq!(labels(&session)["user"], "Ada");
        let fork = session.fork().await.unwrap();
        assert_eq!(labels(&fork).len(), 2);
        session.set_labels(BTreeMap::from([("chat".into(), "8".into())])).unwrap();
        assert!(session.suspend().await);
        let listed = runtime().sessions().list();
        let found = listed.iter().find(|info| info.labels.get("chat").is_some_and(|c| c == "8"));
        assert_eq!(found.unwrap().id, session.id());
        assert_eq!(labels(&fork)["chat"], "7");
        let many: BTreeMap<_, _> = (0..65).map(|n| (n.to_string(), String::new())).collect();
        assert_eq!(session.set_labels(many.clone()).unwrap_err().code(), "session.labels");
        let long = BTreeMap::from([("a".into(), "x".repeat(20_000))]);
        assert_eq!(session.set_labels(long).unwrap_err().code(), "session.labels");
        let mut options = SessionOptions::new().image("core");
        options.labels = many;
        assert!(runtime().session(options).await.is_err());
        assert_eq!(session.labels().len(), 1);
        session.close();
        fork.close();
    });
}

#[test]
fn a_lease_closes_unless_it_is_extended() {
    block_on(async {
        let options = || SessionOptions::new().image("core").lease(SHORT, LeaseEnd::Close);
        let (kept, left) =
            (session_on(runtime(), options()).await, session_on(runtime(), options()).await);
        assert!(left.info().lease_seconds.unwrap() <= 0.3);
        assert!(kept.extend_lease(Duration::from_mins(10)).unwrap());
        assert!(kept.info().lease_seconds.unwrap() > 500.0);
        comes_to("a lease ends", || !is_listed(&left)).await;
        assert!(is_gone(&left.run(Request::new("1")).await));
        assert!(is_gone(&left.extend_lease(SHORT)));
        assert_eq!(out(&kept, "1").await, "1\n");
        assert!(kept.extend_lease(Duration::MAX).unwrap());
        kept.close();
        let without = core().await;
        assert!(!without.extend_lease(SHORT).unwrap());
        assert_eq!(without.info().lease_seconds, None);
        without.close();
    });
}

#[test]
fn no_run_begins_after_a_lease_and_one_that_goes_on_is_interrupted() {
    block_on(async {
        let options = SessionOptions::new().image("core").lease(SHORT, LeaseEnd::Close);
        let session = session_on(runtime(), options).await;
        let request = Request::new("while True: pass").timeout(Duration::from_secs(30));
        let outcome = session.run(request).await.unwrap();
        failed(&outcome, ErrorKind::Interrupted);
        assert!(is_gone(&session.run(Request::new("1")).await));

        let options = SessionOptions::new().image("core").lease(Duration::ZERO, LeaseEnd::Close);
        let session = session_on(runtime(), options).await;
        assert!(is_gone(&session.run(Request::new("1")).await));
        assert!(!is_listed(&session));
    });
}

#[test]
fn a_lease_may_end_on_the_disk() {
    block_on(async {
        let options = SessionOptions::new().image("core").lease(SHORT, LeaseEnd::Suspend);
        let session = session_on(runtime(), options).await;
        out(&session, "x = 7").await;
        let is_suspended = || session.info().status == SessionStatus::Suspended;
        comes_to("a lease ends", is_suspended).await;
        assert_eq!(out(&session, "x").await, "7\n");
        comes_to("it is put away again", is_suspended).await;
        assert!(session.extend_lease(Duration::from_mins(10)).unwrap());
        assert_eq!(out(&session, "x").await, "7\n");
        session.close();
    });
}

#[test]
fn sessions_start_from_a_snapshot() {
    block_on(async {
        let parent = core().await;
        out(&parent, "x = 1\nopen('f', 'w').write('one') and None").await;
        parent.snapshot("prepared").await.unwrap();
        out(&parent, "x = 2\nopen('f', 'w').write('two') and None").await;
        parent.close();
        let sessions = runtime().sessions();
        assert!(sessions.snapshots().contains(&"prepared".to_owned()));
        let one = runtime().session_from("prepared").await.unwrap();
        let other = sessions.from_snapshot("prepared").await.unwrap();
        assert_eq!((one.execution().await, one.history().await.unwrap().len()), (0, 0));
        out(&one, "x = 9").await;
        for session in [&one, &other] {
            session.reset().await.unwrap();
            assert_eq!(out(session, "print(x, open('f').read())").await, "1 one\n");
        }
        // A snapshot of a suspended session reuses the name of an existing one.
        out(&one, "x = 3").await;
        assert!(one.suspend().await);
        one.snapshot("prepared").await.unwrap();
        let third = sessions.from_snapshot("prepared").await.unwrap();
        assert_eq!(out(&third, "x").await, "3\n");
        sessions.drop_snapshot("prepared").unwrap();
        assert_eq!(sessions.drop_snapshot("prepared").unwrap_err().code(), "session.no_snapshot");
        let missing = runtime().session_from("prepared").await.err().unwrap();
        assert_eq!(missing.to_string(), "there is no snapshot \"prepared\"");
        assert_eq!(one.snapshot("a/b").await.unwrap_err().code(), "session.id");
        assert_eq!(out(&third, "x").await, "3\n");
        for session in [one, other, third] {
            session.close();
        }
    });
}

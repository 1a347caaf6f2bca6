//! Item 18: sessions are created, found, listed, limited and deleted.

use std::future::poll_fn;
use std::task::Poll;
use std::time::Duration;

use belljar::session::{RegistryLimits, SessionStatus};
use belljar::{Request, Runtime, SessionOptions};

use super::{block_on, out, run, session_on, told};
use crate::support::comes_to;

fn core() -> SessionOptions {
    SessionOptions::new().image("core")
}

fn bounded(bounds: RegistryLimits) -> Runtime {
    Runtime::builder().environment().sessions(bounds).build().unwrap()
}

#[test]
fn contract_18_sessions_are_listed_and_deleted() {
    block_on(async {
        let runtime = bounded(RegistryLimits::default());
        let sessions = runtime.sessions();
        let one = session_on(&runtime, core()).await;
        let two = session_on(&runtime, core()).await;
        let ids: Vec<String> = sessions.list().into_iter().map(|info| info.id).collect();
        assert_eq!(ids, [one.id(), two.id()]);
        assert!(sessions.list().iter().all(|info| info.status == SessionStatus::Idle));
        out(&sessions.get(one.id()).unwrap(), "x = 1").await;
        assert_eq!(out(&one, "x").await, "1\n");
        two.suspend().await;
        assert_eq!(sessions.list()[1].status, SessionStatus::Suspended);
        sessions.delete(two.id()).unwrap();
        assert_eq!(sessions.list().len(), 1);
        let missing = format!("Interpreter {} not found", two.id());
        assert_eq!(told(sessions.get(two.id())).0, missing);
        assert_eq!(told(sessions.delete(two.id())).0, missing);
        assert_eq!(told(two.run(Request::new("1")).await).0, missing);
        assert_eq!(told(two.fork().await).0, missing);
        let info = serde_json::to_value(&sessions.list()[0]).unwrap();
        assert_eq!(info["status"], "idle");
    });
}

#[test]
fn contract_18_a_client_gets_its_own_default_session() {
    block_on(async {
        let runtime = bounded(RegistryLimits::default());
        let sessions = runtime.sessions();
        let ada = sessions.for_client("ada", core()).await.unwrap();
        let grace = sessions.for_client("grace", core()).await.unwrap();
        out(&ada, "x = 10").await;
        out(&grace, "x = 20").await;
        let again = sessions.for_client("ada", core()).await.unwrap();
        assert_eq!(again.id(), ada.id());
        assert_eq!(out(&again, "x").await, "10\n");
        // Concurrent requests create only one.
        let mut asked = tokio::task::JoinSet::new();
        for _ in 0..16 {
            let sessions = sessions.clone();
            asked.spawn(async move {
                sessions.for_client("all", core()).await.unwrap().id().to_owned()
            });
        }
        let mut ids = asked.join_all().await;
        ids.dedup();
        assert_eq!(ids.len(), 1, "{ids:?}");
        assert_eq!(sessions.list().len(), 3);
    });
}

#[test]
fn contract_18_runs_on_one_session_are_queued_in_order() {
    block_on(async {
        let session = super::core().await;
        out(&session, "seen = []\nimport time").await;
        let asked = |n| {
            let step = Request::new(format!("seen.append({n})\ntime.sleep(0.002)"));
            let session = &session;
            Box::pin(async move { session.run(step).await.unwrap() })
        };
        let mut runs: Vec<_> = (0..20).map(asked).collect();
        let mut done = Vec::new();
        // Each starts when first polled, and is done when taken out.
        poll_fn(|context| {
            runs.retain_mut(|run| match run.as_mut().poll(context) {
                Poll::Ready(outcome) => {
                    done.push(outcome.session.unwrap().execution);
                    false
                }
                Poll::Pending => true,
            });
            if runs.is_empty() {
                Poll::Ready(())
            } else {
                Poll::Pending
            }
        })
        .await;
        assert_eq!(done, (2..22).collect::<Vec<_>>());
        assert_eq!(out(&session, "seen == list(range(20))").await, "True\n");
        session.close();
    });
}

#[test]
fn two_runs_racing_on_one_session_lose_nothing() {
    block_on(async {
        let session = super::core().await;
        out(&session, "count = 0").await;
        let mut runs = tokio::task::JoinSet::new();
        for _ in 0..2 {
            let session = session.clone();
            runs.spawn(async move {
                for _ in 0..100 {
                    let step = "now = count\nfor _ in range(1000): pass\ncount = now + 1";
                    crate::support::succeeded(&session.run(Request::new(step)).await.unwrap());
                }
            });
        }
        runs.join_all().await;
        assert_eq!(out(&session, "count").await, "200\n");
        session.close();
    });
}

#[test]
fn there_are_no_more_than_the_bound() {
    block_on(async {
        let runtime = bounded(RegistryLimits::default().max(2));
        let one = session_on(&runtime, core()).await;
        let _two = session_on(&runtime, core()).await;
        let (error, hint) = told(runtime.session(core()).await);
        assert_eq!(error, "there are 2 sessions already, the limit of this runtime");
        assert_eq!(hint.unwrap(), "close some, or raise RegistryLimits::max");
        assert!(one.fork().await.is_err());
        one.close();
        session_on(&runtime, core()).await;
    });
}

#[test]
fn those_used_longest_ago_are_suspended_and_wake_unnoticed() {
    block_on(async {
        let runtime = bounded(RegistryLimits::default().max_awake(3));
        let mut sessions = Vec::new();
        for n in 0..8 {
            let session = session_on(&runtime, core()).await;
            out(&session, &format!("x = {n}\nopen('f', 'w').write('{n}')")).await;
            sessions.push(session);
            let awake = awake(&runtime);
            assert!(awake <= 3, "{awake}");
        }
        assert_eq!(sessions[0].info().status, SessionStatus::Suspended);
        for (n, session) in sessions.iter().enumerate() {
            assert_eq!(out(session, "print(x, open('f').read())").await, format!("{n} {n}\n"));
            assert!(awake(&runtime) <= 3);
        }
    });
}

fn awake(runtime: &Runtime) -> usize {
    let all = runtime.sessions().list();
    all.iter().filter(|info| info.status != SessionStatus::Suspended).count()
}

#[test]
fn idle_ones_are_suspended() {
    block_on(async {
        let runtime = bounded(RegistryLimits::default().suspend_after(Duration::from_millis(150)));
        let session = session_on(&runtime, core()).await;
        out(&session, "x = 5").await;
        assert!(comes_to(|| session.info().status == SessionStatus::Suspended));
        let outcome = run(&session, Request::new("x")).await;
        assert_eq!(outcome.stdout, "5\n");
        assert!(!super::report(&outcome).interpreter_restarted);
    });
}

#[test]
fn closing_stops_what_runs() {
    block_on(async {
        let session = super::core().await;
        let running = session.clone();
        let endless = Request::new("while True: pass").timeout(Duration::from_mins(2));
        let run = tokio::spawn(async move { running.run(endless).await });
        while session.info().status != SessionStatus::Running {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        session.close();
        let outcome = run.await.unwrap().unwrap();
        crate::support::failed(&outcome, belljar::outcome::ErrorKind::Interrupted);
        assert!(session.run(Request::new("1")).await.is_err());
    });
}

//! The state after a run is saved while its outcome is returned: the next operation waits for it,
//! and nothing is lost silently.

use belljar::{Request, SessionOptions};

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
    // Where the asynchronous runtime is no longer polled.
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

/// The state before a run is never taken for the one after it: not by a fork, nor by other
/// operations. Runs in a process that cannot write large files, such as those of states.
#[cfg(target_os = "linux")]
#[test]
fn a_state_that_cannot_be_kept_is_told_until_an_outcome_has_said_so() {
    let name =
        "sessions::keeping::a_state_that_cannot_be_kept_is_told_until_an_outcome_has_said_so";
    let bounded = "trap '' XFSZ; ulimit -f 16384; exec \"$0\" \"$@\"";
    let mut command = std::process::Command::new("sh");
    command.args(["-c", bounded]).arg(std::env::current_exe().unwrap());
    crate::support::apart(name, &mut command, || {
        block_on(async {
            let session = core().await;
            out(&session, "x = 1").await;
            let large = "x = 2\nlarge = bytearray(range(256)) * (64 << 12)\nprint('ran')";
            assert_eq!(out(&session, large).await, "ran\n");
            let refused = session.fork().await.err().unwrap();
            assert_eq!(refused.code(), "session.not_kept", "{refused}");
            for refused in [session.snapshot("s").await.err(), session.get("x").await.err()] {
                assert_eq!(refused.unwrap().code(), "session.not_kept");
            }
            let next = run(&session, Request::new("print(x)")).await;
            assert_eq!(next.stdout, "1\n");
            let reason = report(&next).restart_reason.as_deref().unwrap();
            assert!(reason.contains("could not be kept"), "{reason}");
            session.fork().await.unwrap().close();
            session.close();
        });
    });
}

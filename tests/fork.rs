//! Runtimes when the process forks, as in Python hosts (`multiprocessing`, pre-forking servers).
//! The children are real, and so is the state that they inherit: the process has threads, locks,
//! tokio runtimes and sandboxes at the time of the fork.
#![cfg(target_os = "linux")]
#![expect(
    unsafe_code,
    reason = "a fork has no safe form: the child has one thread of the parent's"
)]

use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::fd::{FromRawFd, OwnedFd};
use std::panic::AssertUnwindSafe;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use belljar::session::RegistryLimits;
use belljar::{Error, Policy, Request, Runtime, Session, SessionOptions};

/// Leaves a mark in pages of the image.
const LEAVE: &str =
    "import sys, json\nsys.left_here = json.left_here = 'a secret of ' + sys.argv[1]";
/// Prints marks of an earlier sandbox.
const LOOK: &str = "
import sys, json
print(getattr(sys, 'left_here', None), getattr(json, 'left_here', None))";

/// Time limit of a child, which is killed then: it waits for something that never happens.
const PATIENCE: Duration = Duration::from_mins(1);

/// A forked process with one line of output.
struct Child {
    id: libc::pid_t,
    says: File,
}

/// Forks; the child does `work`, prints its result, and exits without returning.
fn fork(mut work: impl FnMut() -> String) -> Child {
    let (says, mut tell) = pipe();
    // SAFETY: the child has only this thread. Its behaviour from here on is what is tested; it
    // leaves by `_exit`, so that the test's harness does nothing twice.
    match unsafe { libc::fork() } {
        -1 => panic!("{}", std::io::Error::last_os_error()),
        0 => {
            let said =
                std::panic::catch_unwind(AssertUnwindSafe(&mut work)).unwrap_or_else(|why| {
                    let text = why.downcast_ref::<String>().map(String::as_str);
                    let text = text.or_else(|| why.downcast_ref::<&str>().copied());
                    format!("panicked: {}", text.unwrap_or("?"))
                });
            let _ = tell.write_all(said.as_bytes());
            // SAFETY: ends the process, whose state is no longer needed.
            unsafe { libc::_exit(0) }
        }
        id => Child { id, says },
    }
}

/// The two ends of a pipe.
fn pipe() -> (File, File) {
    let mut ends = [0; 2];
    // SAFETY: there is room for two descriptors.
    assert_eq!(unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) }, 0);
    // SAFETY: the descriptors are new, and owned by nothing else.
    let [from, to] = ends.map(|end| File::from(unsafe { OwnedFd::from_raw_fd(end) }));
    (from, to)
}

impl Child {
    /// Waits for its end.
    #[track_caller]
    fn said(mut self) -> String {
        let (id, patience) = (self.id, PATIENCE);
        let (done, is_done) = std::sync::mpsc::channel::<()>();
        let guard = std::thread::spawn(move || {
            if is_done.recv_timeout(patience).is_err() {
                // SAFETY: the child has not been waited for yet, so the number is still its own.
                unsafe { libc::kill(id, libc::SIGKILL) };
            }
        });
        let mut said = String::new();
        self.says.read_to_string(&mut said).unwrap();
        let _ = done.send(());
        guard.join().unwrap();
        let mut status = 0;
        // SAFETY: the child is this process's, and `status` has room for the answer.
        assert_eq!(unsafe { libc::waitpid(id, &raw mut status, 0) }, id);
        assert_eq!(status, 0, "the child did not end by itself: it said {said:?}");
        said
    }
}

fn runtime_in(dir: &Path) -> Runtime {
    let runtime = Runtime::builder().environment().temp_dir(dir).concurrency(2).build().unwrap();
    runtime.images().prepare("core").unwrap();
    runtime
}

#[track_caller]
fn stdout(runtime: &Runtime, code: &str, argument: &str) -> String {
    let request = Request::new(code).image("core").arg(argument);
    let outcome = runtime.blocking().run(request).unwrap().outcome;
    assert!(outcome.success, "{outcome:#?}");
    outcome.stdout
}

fn wait<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(future)
}

#[track_caller]
fn session_prints(session: &Session, code: &str) -> String {
    let outcome = wait(session.run(Request::new(code))).unwrap();
    assert!(outcome.success, "{outcome:#?}");
    outcome.stdout
}

#[expect(
    clippy::needless_pass_by_value,
    reason = "calls read better without a borrow"
)]
fn is_forked<T>(result: Result<T, Error>) -> bool {
    matches!(&result, Err(error @ Error::Forked) if error.hint().unwrap().contains("after the fork"))
}

#[test]
fn a_runtime_of_the_parents_refuses_in_the_child() {
    let dir = tempfile::tempdir().unwrap();
    let runtime = runtime_in(dir.path());
    let session = wait(runtime.session(SessionOptions::new().image("core"))).unwrap();
    session_prints(&session, "x = 1");
    let child = fork(|| {
        let checkpoint = dir.path().join("checkpoint");
        let refused = [
            is_forked(runtime.blocking().run(Request::new("1"))),
            is_forked(runtime.blocking().check("1", &Policy::Strict)),
            is_forked(runtime.images().prepare("core")),
            is_forked(runtime.images().build(Path::new("none.toml"))),
            is_forked(runtime.images().list()),
            is_forked(runtime.images().get("core")),
            is_forked(runtime.images().remove("none")),
            is_forked(wait(runtime.session(SessionOptions::new()))),
            is_forked(wait(runtime.restore(&checkpoint))),
            is_forked(runtime.sessions().get(session.id())),
            is_forked(wait(runtime.sessions().for_client("a", SessionOptions::new()))),
            is_forked(runtime.sessions().delete(session.id())),
            is_forked(wait(session.run(Request::new("x")))),
            is_forked(wait(session.history())),
            is_forked(wait(session.rewind(0))),
            is_forked(wait(session.fork())),
            is_forked(wait(session.checkpoint(&checkpoint))),
            is_forked(wait(session.files())),
            is_forked(wait(session.read("a.txt"))),
        ];
        session.close();
        let suspended = wait(session.suspend());
        // A new runtime of the child works, and does not affect the parent's.
        let own = runtime_in(dir.path());
        let printed = stdout(&own, "print('mine')", "");
        let grandchild = fork(|| {
            let both = [&own, &runtime].map(|r| is_forked(r.blocking().run(Request::new("1"))));
            format!("{both:?} {}", stdout(&runtime_in(dir.path()), "print(3)", ""))
        });
        format!("{refused:?} {suspended} {printed}{}", grandchild.said())
    });
    assert_eq!(child.said(), format!("{:?} false mine\n[true, true] 3\n", [true; 19]));
    assert_eq!(session_prints(&session, "x"), "1\n");
    assert_eq!(stdout(&runtime, "print('still there')", ""), "still there\n");
}

#[test]
fn what_the_child_drops_stays_with_the_parent() {
    const CHANGE: &str = "
data = data[1:] + data[:1]
open('large.bin', 'ab').write(data)";
    let dir = tempfile::tempdir().unwrap();
    let mut runtime = Some(runtime_in(dir.path()));
    // An unused directory is kept for the next run.
    let used = runtime.as_ref().unwrap();
    stdout(used, "pass", "");
    let mut run =
        Some(used.blocking().run(Request::new("open('a.txt', 'w').write('Ada')")).unwrap());
    let session = || wait(used.session(SessionOptions::new().image("core"))).unwrap();
    let mut sessions = Some([session(), session()]);
    for session in sessions.as_ref().unwrap() {
        session_prints(session, "data = bytes(range(256)) * 4096");
        for _ in 0..3 {
            session_prints(session, CHANGE);
        }
    }
    assert!(wait(sessions.as_ref().unwrap()[1].suspend()));
    let listed = || {
        let mut names: Vec<_> =
            fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    };
    let before = listed();

    let child = fork(|| {
        drop((sessions.take(), run.take(), runtime.take()));
        let own = runtime_in(dir.path());
        stdout(&own, "print('done')", "")
    });
    assert_eq!(child.said(), "done\n");
    assert!(before.iter().all(|name| listed().contains(name)), "{before:?} {:?}", listed());

    for (number, session) in sessions.as_ref().unwrap().iter().enumerate() {
        let look = "print(data[:4], len(open('large.bin', 'rb').read()))";
        assert_eq!(session_prints(session, look), "b'\\x03\\x04\\x05\\x06' 3145728\n", "{number}");
        // An earlier state: its pages and its file are not used by a live instance.
        wait(session.rewind(2)).unwrap();
        assert_eq!(session_prints(session, look), "b'\\x01\\x02\\x03\\x04' 1048576\n", "{number}");
        session_prints(session, CHANGE);
    }
    assert_eq!(run.unwrap().read("a.txt").unwrap(), b"Ada");
    assert_eq!(stdout(runtime.as_ref().unwrap(), "print('still there')", ""), "still there\n");
}

/// The same memory goes from sandbox to sandbox, in parent and child at the same time.
#[test]
fn no_sandbox_sees_what_another_left() {
    let dir = tempfile::tempdir().unwrap();
    let runtime = runtime_in(dir.path());
    let leave_and_look = |runtime: &Runtime, who: &str| {
        let mut seen = String::new();
        for _ in 0..20 {
            stdout(runtime, LEAVE, who);
            seen += &stdout(runtime, LOOK, who);
        }
        seen
    };
    stdout(&runtime, LEAVE, "the parent");
    let children: Vec<_> = (0..2)
        .map(|number| {
            fork(|| {
                let own = runtime_in(dir.path());
                leave_and_look(&own, &format!("child {number}"))
            })
        })
        .collect();
    let nothing = "None None\n".repeat(20);
    assert_eq!(leave_and_look(&runtime, "the parent"), nothing);
    for child in children {
        assert_eq!(child.said(), nothing);
    }
}

/// A session's states contain the changes since the last one.
#[test]
fn sessions_of_a_child_are_as_good_as_any() {
    let dir = tempfile::tempdir().unwrap();
    let runtime = runtime_in(dir.path());
    let checkpoint = dir.path().join("checkpoint");
    let count = "counts = {}\nfor n in range(50_000): counts[n] = counts.get(n - 1, 0) + 1";
    let session = wait(runtime.session(SessionOptions::new().image("core"))).unwrap();
    session_prints(&session, count);
    wait(session.checkpoint(&checkpoint)).unwrap();
    // Starts all threads needed for that.
    let restored = wait(runtime.restore(&checkpoint)).unwrap();
    let go_on = |session: &Session| {
        let mut printed = String::new();
        for step in 1..=5 {
            printed += &session_prints(session, &format!("counts[-{step}] = {step}\nlen(counts)"));
        }
        wait(session.rewind(3)).unwrap();
        printed + &session_prints(session, "(len(counts), counts[49_999], counts[-2])")
    };
    let child = fork(|| {
        let bounds = RegistryLimits::default();
        let own =
            Runtime::builder().environment().temp_dir(dir.path()).sessions(bounds).build().unwrap();
        let restored = wait(own.restore(&checkpoint)).unwrap();
        let said = go_on(&restored);
        assert!(wait(restored.suspend()));
        said + &session_prints(&restored, "len(counts)")
    });
    let expected = "50001\n50002\n50003\n50004\n50005\n(50002, 50000, 2)\n";
    assert_eq!(go_on(&restored), expected);
    assert_eq!(child.said(), format!("{expected}50002\n"));
}

/// Random numbers of sandboxes come from the system, not from an inherited generator.
#[test]
fn parent_and_children_draw_other_numbers() {
    let dir = tempfile::tempdir().unwrap();
    let draw =
        "import random, secrets, uuid\nprint(secrets.token_hex(8), random.random(), uuid.uuid4())";
    let runtime = runtime_in(dir.path());
    let draw_in_child = || fork(|| stdout(&runtime_in(dir.path()), draw, "")).said();
    let drawn = [stdout(&runtime, draw, ""), draw_in_child(), draw_in_child()];
    let numbers: std::collections::BTreeSet<_> =
        drawn.iter().flat_map(|line| line.split_whitespace()).collect();
    assert_eq!(numbers.len(), 9, "{drawn:?}");
}

/// The time of the fork is arbitrary: other threads are in the middle of runs.
#[test]
fn a_child_of_a_busy_parent_runs() {
    let dir = tempfile::tempdir().unwrap();
    let runtime = runtime_in(dir.path());
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    stdout(&runtime, "open('a.txt', 'w').write('Ada')", "");
                }
            });
        }
        for number in 0..8 {
            let child = fork(|| {
                let own = runtime_in(dir.path());
                (0..3).map(|_| stdout(&own, "import sys\nprint(sys.argv[1])", "runs")).collect()
            });
            let said = child.said();
            if said != "runs\n".repeat(3) {
                over.store(true, Ordering::Relaxed);
            }
            assert_eq!(said, "runs\n".repeat(3), "child {number}");
        }
        over.store(true, Ordering::Relaxed);
    });
    drop(runtime);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}

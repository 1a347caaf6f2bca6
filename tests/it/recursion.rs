//! Recursion, in Python and through C code: its limit, and its cost. That each program of
//! `tests/programs/recursion` affects only its sandbox is in `tests/cases`.

use std::time::Duration;

use belljar::outcome::ErrorKind;
use belljar::request::Echo;
use belljar::{Outcome, Request, SessionOptions};

#[cfg(unix)]
use crate::host;
use crate::support::{program, run, runtime, succeeded};

#[test]
fn recursion_that_ends_is_no_error() {
    let outcome = run(Request::new(program("recursion/deep"))).outcome;
    succeeded(&outcome);
    assert_eq!(outcome.stdout, "900\n");
    let outcome = run(Request::new(program("recursion/limited"))).outcome;
    succeeded(&outcome);
    assert_eq!(outcome.stdout, "caught: maximum recursion depth exceeded\n");
}

/// Runs all kinds of deep recursion through C code in `tests/programs/dives/kinds.py`.
fn dives(how: &[&str]) -> Request {
    let mut request = Request::new(program("dives/drive")).image("core").echo(Echo::None);
    request.limits.timeout = Some(Duration::from_mins(2));
    request.limits.memory = Some(1 << 30);
    request.args = how.iter().map(|&one| one.to_owned()).collect();
    request.file("kinds.py", program("dives/kinds"))
}

/// The end of each kind; all must have ended.
fn ends(outcome: &Outcome) -> Vec<(&str, &str)> {
    succeeded(outcome);
    let ends: Vec<_> = outcome
        .stdout
        .lines()
        .map(|line| line.split_once(": ").expect("a name and an end"))
        .collect();
    assert_eq!(ends.len(), program("dives/kinds").matches("# kind: ").count());
    ends
}

/// By default CPython assumes a stack of 128 KiB, and ends all of them earlier.
#[test]
fn recursion_through_c_reaches_pythons_own_limit() {
    let outcome = run(dives(&[])).outcome;
    for (kind, end) in ends(&outcome) {
        let reached = ["deep enough", "maximum recursion depth exceeded"];
        assert!(reached.contains(&end), "{kind}: {end}");
    }
}

/// With a limit that exceeds the stack, this would be a trap.
#[test]
fn recursion_through_c_without_a_limit_is_an_error_and_no_crash() {
    let overflows = |outcome: &Outcome| {
        let ends = ends(outcome);
        ends.iter().filter(|(_, end)| end.contains("overflow")).count() * 2 > ends.len()
    };
    assert!(overflows(&run(dives(&["lifted"])).outcome));
    let session = runtime().blocking().session(SessionOptions::new().image("core")).unwrap();
    for how in [&["lifted"][..], &["lifted", "inside"][..]] {
        // A session's memory is fixed at its start.
        let mut request = dives(how);
        request.limits.memory = None;
        request.code = request.code.replace("300_000", "40_000");
        assert!(overflows(&session.run(request).unwrap()), "{how:?}");
    }
    assert_eq!(session.run(Request::new("print(1)")).unwrap().stdout, "1\n");
}

#[test]
fn a_crash_keeps_the_output() {
    let code = format!("print('before')\n{}", program("recursion/hashed"));
    let outcome = run(Request::new(code).timeout(Duration::from_mins(1))).outcome;
    assert_eq!(outcome.error_detail.unwrap().kind, ErrorKind::Crash);
    assert_eq!(outcome.stdout, "before\n");
}

/// On the host, the same program crashes the whole process.
#[cfg(unix)]
#[test]
fn the_host_dies() {
    use std::os::unix::process::ExitStatusExt;
    let dir = tempfile::tempdir().unwrap();
    for name in ["recursion/mapped", "recursion/chained"] {
        let status = host::run(name, dir.path(), &[]).status;
        assert!(status.signal().is_some(), "{name} ended with {status}");
    }
}

//! Recursion, in Python and through C code: where it ends, what it costs, and what it costs the host.
//! That each program of `tests/programs/recursion` costs at most its sandbox is in `tests/cases`.

use std::time::Duration;

use belljar::{ErrorKind, Request};

#[cfg(unix)]
use crate::host;
use crate::support::{program, run, succeeded};

#[test]
fn recursion_that_ends_is_no_error() {
    let outcome = run(Request::new(program("recursion/deep"))).outcome;
    succeeded(&outcome);
    assert_eq!(outcome.stdout, "900\n");
    let outcome = run(Request::new(program("recursion/limited"))).outcome;
    succeeded(&outcome);
    assert_eq!(outcome.stdout, "caught: maximum recursion depth exceeded\n");
}

#[test]
fn a_crash_keeps_the_output() {
    let code = format!("print('before')\n{}", program("recursion/chained"));
    let outcome = run(Request::new(code).timeout(Duration::from_mins(1))).outcome;
    assert_eq!(outcome.error_detail.unwrap().kind, ErrorKind::Crash);
    assert_eq!(outcome.stdout, "before\n");
}

/// Outside, the same program takes the whole process with it.
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

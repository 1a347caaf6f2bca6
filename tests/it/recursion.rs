//! Recursion without end, in Python and through C code: it costs at most the sandbox.

use std::os::unix::process::ExitStatusExt;
use std::time::Duration;

use belljar::{ErrorKind, Request};

use crate::host;
use crate::support::{program, programs_in, run, still_serves, succeeded};

macro_rules! recursions {
    ($($name:ident)+) => {
        $(
            #[test]
            fn $name() {
                survives(stringify!($name));
            }
        )+

        #[test]
        fn every_program_is_run() {
            let mut named = vec![$(stringify!($name)),+];
            named.sort();
            assert_eq!(named, programs_in("recursion"));
        }
    };
}

recursions! {
    attributes
    awaited
    blocks
    causes
    chained
    compared
    contexts
    deep
    deepcopied
    descriptor
    destroyed
    equal
    formatted
    generators
    groups
    hashed
    json_dump
    json_load
    limited
    mapped
    marshalled
    method
    operators
    parentheses
    parsed_xml
    partials
    pickled
    plain
    regex_groups
    regex_match
    represented
    result
    revived
    sorted_key
    type_check
    types
}

/// Any end is a good one that is the guest's own, and after which the next run is as usual.
#[track_caller]
fn survives(name: &str) {
    let code = format!("print('started')\n{}", program(&format!("recursion/{name}")));
    let outcome = run(Request::new(code).timeout(Duration::from_secs(3)).image("core")).outcome;
    assert!(outcome.stdout.starts_with("started\n"), "{name}: {outcome:#?}");
    if let Some(detail) = &outcome.error_detail {
        let expected = [
            ErrorKind::Crash,
            ErrorKind::Exception,
            ErrorKind::Memory,
            ErrorKind::Syntax,
            ErrorKind::Timeout,
        ];
        assert!(expected.contains(&detail.kind), "{name}: {outcome:#?}");
    }
    still_serves();
}

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

/// At once, and on every thread: a stack overflow is one sandbox's own.
#[test]
fn many_at_once() {
    std::thread::scope(|scope| {
        for name in
            ["plain", "mapped", "chained", "hashed", "sorted_key", "mapped", "plain", "deep"]
        {
            scope.spawn(move || survives(name));
        }
    });
}

/// Outside, the same program takes the whole process with it.
#[test]
fn the_host_dies() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["recursion/mapped", "recursion/chained"] {
        let status = host::run(name, dir.path(), &[]).status;
        assert!(status.signal().is_some(), "{name} ended with {status}");
    }
}

//! Errors have the numbers and texts of Linux, and come where they come on Linux.

use std::time::Duration;

use belljar::Request;

use crate::host;
use crate::support::{program, run, succeeded};

#[test]
fn errors_of_files_are_those_of_the_host() {
    let request = Request::new(program("error_numbers")).timeout(Duration::from_mins(1));
    let outcome = run(request).outcome;
    succeeded(&outcome);
    let dir = tempfile::tempdir().unwrap();
    let native = host::run("error_numbers", dir.path(), &[]);
    let native = String::from_utf8(native.stdout).unwrap();
    assert!(native.lines().count() > 3000, "{native}");
    for (here, there) in outcome.stdout.lines().zip(native.lines()) {
        assert_eq!(here, there);
    }
    assert_eq!(outcome.stdout.len(), native.len());
}

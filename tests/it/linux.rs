//! What programs print here they print on Linux.

use std::time::Duration;

use belljar::Request;

use crate::host;
use crate::support::{program, run, succeeded};

#[track_caller]
fn prints_the_same(name: &str, lines: usize) {
    let outcome = run(Request::new(program(name)).timeout(Duration::from_mins(1))).outcome;
    succeeded(&outcome);
    let dir = tempfile::tempdir().unwrap();
    let native = String::from_utf8(host::run(name, dir.path(), &[]).stdout).unwrap();
    assert!(native.lines().count() >= lines, "{native}");
    for (here, there) in outcome.stdout.lines().zip(native.lines()) {
        assert_eq!(here, there);
    }
    assert_eq!(outcome.stdout.len(), native.len());
}

#[test]
fn errors_have_the_same_numbers_and_come_in_the_same_places() {
    prints_the_same("error_numbers", 3000);
}

#[test]
fn modes_of_files_are_the_same() {
    prints_the_same("file_modes", 15);
}

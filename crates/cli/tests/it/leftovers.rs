//! A command leaves nothing in the directory for temporary files, however it ends.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

/// A command that exits removes what it kept for the next run.
#[test]
fn a_command_that_ends_leaves_no_directory() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_belljar"));
    command.args(["run", "-c", "print(1)"]).env("TMPDIR", dir.path());
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let left: Vec<_> = fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().path()).collect();
    assert!(left.is_empty(), "{left:?}");
}

/// A killed command leaves nothing either: its files had no names.
#[test]
fn a_command_that_is_killed_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let code =
        "import time\nopen('a.txt', 'w').write('x' * (1 << 20))\nprint('written')\ntime.sleep(60)";
    let mut command = Command::new(env!("CARGO_BIN_EXE_belljar"));
    command.args(["run", "--timeout", "60", "-c", code]).env("TMPDIR", dir.path());
    let mut process = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut said = String::new();
    BufReader::new(process.stdout.take().unwrap()).read_line(&mut said).unwrap();
    assert_eq!(said, "written\n");
    let entries = || fs::read_dir(dir.path()).unwrap().count();
    assert_eq!(entries(), 0, "a file of the guest is one of the host");
    process.kill().unwrap();
    process.wait().unwrap();
    assert_eq!(entries(), 0);
}

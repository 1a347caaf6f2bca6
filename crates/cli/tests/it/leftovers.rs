//! What a command leaves in the directory for temporary files, however it ends: nothing.

use std::fs;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// A command that ends takes with it what it kept for the next run.
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

/// One that is killed cannot; the next one does it. What still lives is left alone.
#[test]
fn what_a_killed_process_left_is_removed() {
    let dir = tempfile::tempdir().unwrap();
    let command = |code: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_belljar"));
        command.args(["run", "--timeout", "60", "-c", code]).env("TMPDIR", dir.path());
        command.stdout(Stdio::null()).stderr(Stdio::null());
        command
    };
    let entries = || fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().path());
    let asleep = "import time\nopen('a.txt', 'w').write('x')\ntime.sleep(60)";
    let mut processes = [command(asleep).spawn().unwrap(), command(asleep).spawn().unwrap()];
    wait_until("both have written", || {
        entries().filter(|path| path.join("workspace/a.txt").exists()).count() == 2
    });
    processes[0].kill().unwrap();
    processes[0].wait().unwrap();
    assert_eq!(entries().count(), 2);
    assert!(command("print(1)").status().unwrap().success());
    assert_eq!(entries().count(), 1);
    processes[1].kill().unwrap();
    processes[1].wait().unwrap();
    assert!(command("print(1)").status().unwrap().success());
    assert_eq!(entries().count(), 0);
}

#[track_caller]
fn wait_until(what: &str, holds: impl Fn() -> bool) {
    let until = Instant::now() + Duration::from_mins(1);
    while !holds() {
        assert!(Instant::now() < until, "{what}: not within a minute");
        std::thread::sleep(Duration::from_millis(10));
    }
}

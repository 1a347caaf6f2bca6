//! Processes that are held by what macOS and Windows have: it is for good, so each is of its own.
#![cfg(any(target_os = "macos", windows))]

use std::env;
use std::fs;
use std::process::Command;

use belljar_lockdown::Lockdown;

/// Names the test that a process is started for, and the directory that it keeps.
const ROLE: &str = "BELLJAR_TEST_HELD";

/// Runs the rest of a test in a process of its own, which gets a directory and is to succeed.
fn alone(test: &str, body: impl FnOnce(&std::path::Path)) {
    if let Some(directory) = env::var_os(ROLE) {
        return body(directory.as_ref());
    }
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("text"), "kept").unwrap();
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["--exact", test, "--include-ignored"]).env(ROLE, folder.path());
    assert!(command.status().unwrap().success());
}

/// Starts this program, to do nothing.
fn starts() -> bool {
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["--list"]).output().is_ok_and(|output| output.status.success())
}

#[test]
#[cfg_attr(windows, ignore = "Wine enforces no limit: pass --ignored on Windows")]
fn no_process_can_be_started_any_more() {
    alone("no_process_can_be_started_any_more", |_| {
        assert!(starts());
        let status = Lockdown::new().read(env::current_exe().unwrap()).apply();
        println!("held by {status}");
        assert!(status.is_whole(), "{:?}", status.failures());
        assert!(!starts());
    });
}

/// What a process does in its own files goes on.
#[test]
fn files_that_were_named_stay() {
    alone("files_that_were_named_stay", |kept| {
        let status = Lockdown::new().write(kept).apply();
        assert!(status.is_whole(), "{:?}", status.failures());
        assert_eq!(fs::read_to_string(kept.join("text")).unwrap(), "kept");
        fs::rename(kept.join("text"), kept.join("renamed")).unwrap();
        std::thread::spawn(|| ()).join().unwrap();
        let other = fs::read(env::current_exe().unwrap());
        assert_eq!(other.is_err(), cfg!(target_os = "macos"));
    });
}

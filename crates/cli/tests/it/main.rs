//! The command: every subcommand as a process, with the engine behind it.

#![cfg_attr(
    all(feature = "server", unix),
    expect(
        clippy::duplicate_mod,
        reason = "the tests of `run`, `repl` and `batch` run twice"
    )
)]

mod bare;
mod batch;
mod bundle;
#[path = "../../../../tests/it/caches.rs"]
mod caches;
mod calls;
#[cfg(all(feature = "server", unix))]
mod config;
#[cfg(all(feature = "server", unix))]
mod elsewhere;
#[cfg(unix)]
mod endings;
mod help;
#[cfg(all(feature = "server", target_os = "linux"))]
mod isolate;
mod lambda;
#[path = "../../../../tests/it/lasting.rs"]
mod lasting;
mod leftovers;
#[cfg(all(feature = "server", target_os = "linux"))]
mod lockdown;
mod receipts;
mod repl;
mod run;
#[cfg(all(feature = "server", target_os = "linux"))]
mod serve;
#[cfg(all(feature = "server", unix))]
mod server;
mod session;
mod state;
mod usage;

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::Once;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

use belljar as here;
use calls::{ran, ran_in, ran_with};

/// Whether commands run code on a server.
const ELSEWHERE: bool = false;

/// The command, with a complete cache, so that it does not report any setup.
fn belljar() -> Command {
    static READY: Once = Once::new();
    READY.call_once(|| {
        for image in ["core", "data"] {
            caches::runtime().images().prepare(image).unwrap();
        }
        #[cfg(unix)]
        obey_signals();
    });
    let mut command = Command::new(env!("CARGO_BIN_EXE_belljar"));
    for name in [
        "BELLJAR_BUNDLE",
        "BELLJAR_BUNDLE_HASH",
        "BELLJAR_KEY",
        "BELLJAR_LOG",
        "BELLJAR_URL",
        "COLUMNS",
        "NO_COLOR",
    ] {
        command.env_remove(name);
    }
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Restores, for the commands that tests start, the default handling of signals that the tests'
/// parent ignores: `nohup` ignores SIGHUP, and a shell SIGINT for its background jobs. Handled
/// signals are not inherited as ignored.
#[cfg(unix)]
fn obey_signals() {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    let ignored = ignored_signals();
    for signal in [SIGHUP, SIGINT, SIGTERM] {
        // The tests themselves still ignore these signals.
        let ends = std::sync::Arc::new(((ignored >> (signal - 1)) & 1 == 0).into());
        signal_hook::flag::register_conditional_shutdown(signal, 128 + signal, ends).unwrap();
    }
}

/// The set of signals that this process ignores; empty on systems other than Linux.
#[cfg(unix)]
fn ignored_signals() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    line.and_then(|set| u64::from_str_radix(set.trim(), 16).ok()).unwrap_or_default()
}

struct Ran {
    status: i32,
    stdout: String,
    stderr: String,
}

impl From<Output> for Ran {
    fn from(output: Output) -> Self {
        Self {
            status: output.status.code().expect("it was not ended by a signal"),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

impl Ran {
    /// Checks the exit status, and shows everything if it differs.
    #[track_caller]
    fn exits(self, status: i32) -> Self {
        assert_eq!(self.status, status, "stdout:\n{}\nstderr:\n{}", self.stdout, self.stderr);
        self
    }

    #[track_caller]
    fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap()
    }

    /// All lines of stdout, as JSON.
    #[track_caller]
    fn lines(&self) -> Vec<Value> {
        self.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// The text for a snapshot: both streams and the status.
    fn page(&self) -> String {
        format!("{}--- stderr\n{}--- exit {}\n", self.stdout, self.stderr, self.status)
    }
}

fn sent_to(mut command: Command, input: impl AsRef<[u8]>, args: &[&str]) -> Ran {
    let mut child = command.args(args).stdin(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = input.as_ref().to_owned();
    let writer = std::thread::spawn(move || stdin.write_all(&input));
    let ran = child.wait_with_output().unwrap().into();
    writer.join().unwrap().unwrap();
    ran
}

/// A folder with files in it.
fn folder(files: &[(&str, &str)]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        fs::write(folder.path().join(name), text).unwrap();
    }
    folder
}

fn lines(requests: &[Value]) -> String {
    requests.iter().map(|request| format!("{request}\n")).collect::<Vec<_>>().concat()
}

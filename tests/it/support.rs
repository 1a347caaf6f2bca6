//! Shared by all subjects: one runtime, guest programs by name, checked outcomes.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use belljar::outcome::ErrorKind;
use belljar::{Outcome, Request, Run, Runtime};

pub use crate::caches::runtime;

/// A runtime for one test, with workspaces in `dir`.
pub fn runtime_in(dir: &Path) -> Runtime {
    Runtime::builder().environment().temp_dir(dir).build().expect("the engine starts")
}

/// The directory of the guest programs.
pub fn programs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs")
}

/// The source of a guest program, by its path without `.py`.
#[track_caller]
pub fn program(name: &str) -> String {
    let path = programs().join(name).with_extension("py");
    fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// The names of the programs in a directory, sorted.
pub fn programs_in(directory: &str) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(programs().join(directory))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|e| e == "py"))
        .map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned())
        .collect();
    names.sort();
    names
}

/// Runs a request on the shared runtime; checks the outcome against the published schema.
#[track_caller]
pub fn run(request: Request) -> Run {
    run_on(runtime(), request)
}

/// Runs a request on a given runtime.
#[track_caller]
pub fn run_on(runtime: &Runtime, request: Request) -> Run {
    let run = runtime.blocking().run(request).unwrap_or_else(|e| panic!("{}", chain(&e)));
    check(&run.outcome);
    run
}

/// The outcome of code with all defaults.
#[track_caller]
pub fn outcome(code: &str) -> Outcome {
    run(Request::new(code)).outcome
}

/// Checks properties of all outcomes.
#[track_caller]
pub fn check(outcome: &Outcome) {
    let json = serde_json::to_value(outcome).unwrap();
    let errors: Vec<String> = SCHEMA.iter_errors(&json).map(|e| e.to_string()).collect();
    assert!(errors.is_empty(), "the outcome is not as published: {errors:?}\n{json:#}");
    assert_eq!(outcome.success, outcome.error.is_none(), "{outcome:#?}");
    assert_eq!(outcome.error.is_some(), outcome.error_detail.is_some(), "{outcome:#?}");
    if let Some(error) = &outcome.error {
        assert!(!error.contains(['\n', '\r']), "more than one line: {error:?}");
    }
    assert!(outcome.files.is_sorted_by_key(|f| &f.path), "{:?}", outcome.files);
    for plot in &outcome.plots {
        assert!(outcome.files.iter().any(|f| f.path == plot.path), "{plot:?} is no file");
    }
}

static SCHEMA: LazyLock<jsonschema::Validator> = LazyLock::new(|| {
    let schema = schemars::schema_for!(Outcome).to_value();
    jsonschema::validator_for(&schema).expect("the schema is one")
});

/// Checks that code succeeded, and shows the outcome if not.
#[track_caller]
pub fn succeeded(outcome: &Outcome) {
    assert!(outcome.success, "{outcome:#?}");
}

/// Checks the kind of failure.
#[track_caller]
pub fn failed(outcome: &Outcome, kind: ErrorKind) {
    let found = outcome.error_detail.as_ref().map(|d| d.kind);
    assert_eq!(found, Some(kind), "{outcome:#?}");
}

/// Checks that the shared runtime still works.
#[track_caller]
pub fn still_serves() {
    let outcome = outcome("print('still here')");
    assert_eq!(outcome.stdout, "still here\n", "{outcome:#?}");
}

/// The paths of an outcome's files.
pub fn paths(outcome: &Outcome) -> Vec<&str> {
    outcome.files.iter().map(|f| f.path.as_str()).collect()
}

/// An error with all of its causes, as shown to people.
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        text = format!("{text}: {cause}");
        next = cause.source();
    }
    text
}

/// Runs the body of the test `name` in a separate process, because it measures or changes the
/// process as a whole.
#[track_caller]
pub fn alone(name: &str, body: impl FnOnce()) {
    apart(name, &mut Command::new(std::env::current_exe().unwrap()), body);
}

/// The same in a process started by `command`, to which the test's name is added.
#[track_caller]
pub fn apart(name: &str, command: &mut Command, body: impl FnOnce()) {
    const MARK: &str = "BELLJAR_TEST_ALONE";
    if std::env::var(MARK).is_ok_and(|v| v == name) {
        return body();
    }
    // Created first, so that the other process finds it in the cache.
    runtime();
    let output = command
        .args(["--exact", name, "--nocapture", "--test-threads", "1"])
        .env(MARK, name)
        .output()
        .unwrap();
    let (stdout, stderr) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let has_passed = output.status.success() && stdout.contains("1 passed");
    // Indented, so that nothing takes the other process's report for one of this process.
    let shown = format!("\n{stdout}{stderr}").replace('\n', "\n    ");
    assert!(has_passed, "{name}: {}{shown}", output.status);
    print!("{stdout}");
}

/// A tokio runtime with this many threads.
pub fn tokio(threads: usize) -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(threads)
        .enable_all()
        .build()
        .unwrap()
}

/// Waits until a condition holds, for work in the background; returns false if it never does.
pub fn comes_to(mut holds: impl FnMut() -> bool) -> bool {
    let patience = Instant::now() + Duration::from_secs(15);
    loop {
        if holds() {
            return true;
        }
        if Instant::now() >= patience {
            return false;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Private memory of this process, without unmodified mapped files such as native code and images.
pub fn memory_taken() -> u64 {
    let rollup = fs::read_to_string("/proc/self/smaps_rollup").unwrap();
    let line = rollup.lines().find_map(|line| line.strip_prefix("Private_Dirty:")).unwrap();
    let kib: u64 = line.trim().trim_end_matches(" kB").parse().unwrap();
    kib << 10
}

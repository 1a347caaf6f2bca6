//! Requests that are rejected before the start, and inputs of valid ones.

use std::fs;
use std::time::Duration;

use belljar::error::Blame;
use belljar::request::{Field, ImageChoice, Reason, ReasonKind, RunLimits};
use belljar::{Error, Request, Runtime};

use crate::support::{outcome, run, runtime, succeeded};

#[track_caller]
fn refusal(request: Request) -> Vec<Reason> {
    match runtime().blocking().run(request) {
        Err(Error::Refused(refusal)) => refusal.reasons,
        other => panic!("not refused: {other:?}"),
    }
}

#[test]
fn every_reason_is_given_at_once() {
    let request = Request::new("1")
        .file("../out.txt", "")
        .file("", "")
        .mount("/nowhere/at/all", "/data")
        .env("", "x")
        .timeout(Duration::from_secs(1_000_000))
        .memory_mib(0);
    let reasons = refusal(request);
    assert_eq!(reasons.len(), 6, "{reasons:#?}");
    for (field, kind) in [
        (Field::Files, ReasonKind::Invalid),
        (Field::Mounts, ReasonKind::NotFound),
        (Field::Env, ReasonKind::Invalid),
        (Field::Timeout, ReasonKind::OutOfRange),
        (Field::Memory, ReasonKind::OutOfRange),
    ] {
        let named = |reason: &Reason| reason.field == field && reason.kind == kind;
        assert!(reasons.iter().any(named), "{field}: {reasons:#?}");
    }
}

#[test]
fn ceilings_are_the_runtimes() {
    let ceilings = RunLimits::CEILINGS.timeout(Duration::from_secs(1)).memory(64 << 20);
    let defaults = RunLimits::default().timeout(Duration::from_millis(200)).memory(32 << 20);
    let runtime =
        Runtime::builder().environment().ceilings(ceilings).defaults(defaults).build().unwrap();
    let outcome = runtime.blocking().run(Request::new("while True: pass")).unwrap().outcome;
    assert_eq!(outcome.error.as_deref(), Some("Code execution timed out after 0.2 seconds"));
    let asked = Request::new("1").timeout(Duration::from_secs(2)).memory_mib(65);
    assert!(
        matches!(runtime.blocking().run(asked), Err(Error::Refused(r)) if r.reasons.len() == 2)
    );
}

#[test]
fn an_unknown_image_is_an_error_that_names_those_there_are() {
    let error = runtime().blocking().run(Request::new("1").image("nope")).unwrap_err();
    let text = error.to_string();
    assert!(text.contains("nope") && text.contains("core") && text.contains("science"), "{text}");
    assert!(error.hint().is_some());
    assert_eq!((error.code(), error.blame()), ("image.unknown", Blame::Caller));
}

#[test]
fn an_image_is_chosen_by_the_imports() {
    let loaded = "import sys\nprint([m for m in ('pandas', 'sklearn') if m in sys.modules])";
    let chosen = |imports: &str| outcome(&format!("{imports}\n{loaded}")).stdout;
    assert_eq!(chosen(""), "[]\n");
    assert_eq!(chosen("import json, math"), "[]\n");
    assert_eq!(chosen("import numpy as np"), "['pandas']\n");
    assert_eq!(chosen("if True:\n    from matplotlib import pyplot"), "['pandas']\n");
    assert_eq!(chosen("import seaborn"), "['pandas', 'sklearn']\n");
    // A name that only looks like an import costs memory, but the code runs.
    assert_eq!(chosen("text = 'import pandas'").lines().count(), 1);
    let mut request = Request::new(loaded);
    request.image = ImageChoice::Named("data".into());
    assert_eq!(run(request).outcome.stdout, "['pandas']\n");
}

#[test]
fn input_files_and_arguments_arrive() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("host.bin");
    fs::write(&path, [0, 1, 2, 255]).unwrap();
    let request = Request::new(
        "import sys\nprint(open('a/b/c.txt').read(), list(open('host.bin', 'rb').read()), sys.argv[1:])",
    )
    .file("a/b/c.txt", "deep")
    .host_file("host.bin", &path)
    .arg("--x")
    .arg("two words");
    let outcome = run(request).outcome;
    assert_eq!(outcome.stdout, "deep [0, 1, 2, 255] ['--x', 'two words']\n", "{outcome:#?}");
    assert!(outcome.files.is_empty());
}

#[test]
fn an_input_file_that_cannot_be_read_is_an_engine_error() {
    let request = Request::new("1").host_file("x", "/nowhere/at/all.txt");
    let error = runtime().blocking().run(request).unwrap_err();
    assert!(matches!(error, Error::Workspace(_)), "{error:?}");
    assert!(error.to_string().contains("/nowhere/at/all.txt"), "{error}");
    assert_eq!((error.code(), error.blame()), ("workspace.input", Blame::Caller));
    let directory = Request::new("1").host_file("x", "/");
    assert!(runtime().blocking().run(directory).is_err());
}

#[test]
fn the_environment_is_given() {
    let request =
        Request::new("import os\nprint(os.environ['KEY'], os.environ['ÜN'], os.getcwd())")
            .env("KEY", "a=b c")
            .env("ÜN", "ï");
    assert_eq!(run(request).outcome.stdout, "a=b c ï /workspace\n");
}

#[test]
fn very_long_code_runs_and_longer_is_refused() {
    let line = "x = 1  # a line like many others\n";
    succeeded(&outcome(&line.repeat(20_000)));
    let reasons = refusal(Request::new("#".repeat((10 << 20) + 1)));
    assert_eq!((reasons[0].field, reasons[0].kind), (Field::Code, ReasonKind::TooLong));
}

#[test]
fn text_that_is_not_ascii_and_nul() {
    assert_eq!(outcome("print('ünïcode 😀')  # → €").stdout, "ünïcode 😀\n");
    let outcome = outcome("print(1)\0print(2)");
    assert!(!outcome.success && outcome.stdout.is_empty(), "{outcome:#?}");
}

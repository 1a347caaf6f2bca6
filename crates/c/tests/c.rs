//! The library as used from C: its header, and the examples, compiled by the C compiler and run.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const TOP: &str = env!("CARGO_MANIFEST_DIR");

#[test]
fn the_header_is_that_of_the_sources() {
    let path = Path::new(TOP).join("include/belljar.h");
    let config = cbindgen::Config::from_file(Path::new(TOP).join("cbindgen.toml")).unwrap();
    let made = cbindgen::Builder::new().with_crate(TOP).with_config(config).generate().unwrap();
    let mut header = Vec::new();
    made.write(&mut header);
    let header = String::from_utf8(header).unwrap();
    if env::var_os("BELLJAR_UPDATE_HEADER").is_some() {
        fs::write(&path, &header).unwrap();
    }
    let committed = fs::read_to_string(&path).unwrap();
    assert_eq!(committed, header, "run this test with BELLJAR_UPDATE_HEADER=1");
}

#[test]
fn a_program_in_c_runs_python() {
    let printed = run_example("run", &[]);
    assert!(printed.contains(r#""stdout":"hello\n""#), "{printed}");
    assert!(printed.contains(r#""result":{"answer":42}"#), "{printed}");
    assert!(printed.contains("made.txt: from inside\n"), "{printed}");
    assert!(printed.contains("events came\n"), "{printed}");
}

#[test]
fn a_program_in_c_has_a_session_with_a_tool() {
    let dir = tempfile::tempdir().unwrap();
    let checkpoint = dir.path().join("session.belljar");
    let printed = run_example("session", &[checkpoint.to_str().unwrap()]);
    assert!(printed.contains("there is no such share"), "{printed}");
    assert!(
        printed.contains(r#""kind":"policy""#),
        "the restorer's policy does not hold: {printed}"
    );
    let values: Vec<&str> = printed.lines().filter(|line| line.contains(": x = ")).collect();
    let tuple = r#"{"$":"tuple","items":[1,2]}"#;
    assert_eq!(
        values,
        [
            "session: x = 42.5",
            &format!("fork: x = {tuple}"),
            "rewound: x = 42.5",
            &format!("restored: x = {tuple}"),
        ]
    );
}

#[test]
fn every_mistake_of_a_caller_is_an_error_in_words() {
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("mistakes.c");
    fs::write(&source, MISTAKES).unwrap();
    let printed = run(&compile(&source, dir.path()), &[]);
    let errors: Vec<serde_json::Value> =
        printed.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let messages: Vec<&str> = errors.iter().map(|e| e["message"].as_str().unwrap()).collect();
    assert!(messages[0].contains("`options` cannot be read"), "{messages:?}");
    assert_eq!(messages[1], "the argument `runtime` is null");
    assert_eq!(messages[2], "the argument `request` is null");
    assert_eq!(messages[3], "the argument `request` is not UTF-8");
    assert!(messages[4].contains("unknown field `timeuot`"), "{messages:?}");
    assert_eq!(errors[5]["code"], "refused", "{}", errors[5]);
    assert_eq!(errors[5]["reasons"][0]["field"], "limits.timeout", "{}", errors[5]);
    assert_eq!(messages[6], "the argument `outcome` is null");
    assert_eq!(messages[7], "the argument `call` is null, and there are tools");
    assert_eq!(messages.len(), 8);
}

/// Its control is the same program with another argument.
#[test]
fn a_program_in_c_locks_itself_down() {
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("locked.c");
    fs::write(&source, LOCKED).unwrap();
    let program = compile(&source, dir.path());
    assert_eq!(run(&program, &["free"]), "reads\n");
    let printed = run(&program, &["locked"]);
    let (report, reads) = printed.split_once('\n').unwrap();
    let report: serde_json::Value = serde_json::from_str(report).unwrap();
    let is_held = !report["landlock"].is_null();
    assert_eq!(
        reads,
        if is_held {
            "does not read\n"
        } else {
            "reads\n"
        },
        "{report}"
    );
}

#[test]
fn the_library_has_no_hook_for_escapes() {
    let hook = b"belljar was built with the hook of the escape tests";
    assert!(!fs::read(library()).unwrap().windows(hook.len()).any(|bytes| bytes == hook));
}

#[test]
fn python_calls_it_without_a_package() {
    let script = Path::new(TOP).join("examples/belljar.py");
    let mut python = Command::new("python3");
    let done = python.arg(script).arg(library()).output().unwrap();
    let printed = String::from_utf8_lossy(&done.stdout);
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    assert!(printed.starts_with("45\nstarted stdout "), "{printed}");
    assert!(printed.contains("unknown field `cod`"), "{printed}");
}

const MISTAKES: &str = r#"
#include <stdio.h>
#include "belljar.h"

static void show(char *error) {
    printf("%s\n", error != NULL ? error : "{\"message\": \"no error\"}");
    belljar_string_free(error);
}

int main(void) {
    belljar_runtime *runtime = NULL;
    belljar_outcome *outcome = NULL;
    show(belljar_runtime_new("{\"cash\": \"/tmp\"}", NULL, &runtime));
    show(belljar_run(NULL, "{\"code\": \"1\"}", NULL, &outcome));
    char *error = belljar_runtime_new(NULL, NULL, &runtime);
    if (error != NULL) {
        show(error);
        return 1;
    }
    show(belljar_run(runtime, NULL, NULL, &outcome));
    show(belljar_run(runtime, "\xff", NULL, &outcome));
    show(belljar_run(runtime, "{\"code\": \"1\", \"timeuot\": 1}", NULL, &outcome));
    show(belljar_run(runtime, "{\"code\": \"1\", \"timeout\": 1e9}", NULL, &outcome));
    show(belljar_run(runtime, "{\"code\": \"1\"}", NULL, NULL));
    const belljar_callbacks callbacks = {
        .tools = "[{\"name\": \"f\", \"parameters\": {\"type\": \"object\"}}]"};
    show(belljar_run(runtime, "{\"code\": \"1\"}", &callbacks, &outcome));
    belljar_runtime_free(runtime);
    return 0;
}
"#;

const LOCKED: &str = r#"
#include <stdio.h>
#include <string.h>
#include "belljar.h"

int main(int count, char **arguments) {
    belljar_runtime *runtime = NULL;
    char *report = NULL, *error = belljar_runtime_new(NULL, NULL, &runtime);
    if (error == NULL && count > 1 && strcmp(arguments[1], "locked") == 0) {
        error = belljar_lockdown(runtime, "{\"read\": [\"/usr/share\"]}", &report);
        printf("%s\n", report != NULL ? report : "");
    }
    if (error != NULL) {
        fprintf(stderr, "%s\n", error);
        return 1;
    }
    puts(fopen("/etc/passwd", "r") != NULL ? "reads" : "does not read");
    belljar_string_free(report);
    belljar_runtime_free(runtime);
    return 0;
}
"#;

fn run_example(name: &str, arguments: &[&str]) -> String {
    let dir = tempfile::tempdir().unwrap();
    let source = Path::new(TOP).join("examples").join(name).with_extension("c");
    run(&compile(&source, dir.path()), arguments)
}

/// Compiles a program with all warnings, as C11.
fn compile(source: &Path, dir: &Path) -> PathBuf {
    let program = dir.join("program");
    let library = library();
    let include = Path::new(TOP).join("include");
    let mut cc = Command::new("cc");
    cc.args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-pedantic", "-I"]).arg(include);
    cc.arg(source).arg("-o").arg(&program).arg(&library);
    cc.arg(format!("-Wl,-rpath,{}", library.parent().unwrap().display()));
    let done = cc.output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    program
}

fn run(program: &Path, arguments: &[&str]) -> String {
    let done = Command::new(program).args(arguments).output().unwrap();
    let errors = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{}: {errors}", program.display());
    String::from_utf8(done.stdout).unwrap()
}

/// The library that was built for this test, from the test's own directory.
fn library() -> PathBuf {
    let test = env::current_exe().unwrap();
    let library = test.with_file_name("libbelljar_c.so");
    assert!(library.exists(), "{} is not there", library.display());
    library
}

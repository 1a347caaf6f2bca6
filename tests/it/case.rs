//! Cases: guest programs with comments at the end that say how to run them and what to expect.
//!
//! ```python
//! print(open("names.txt").read())
//!
//! # with timeout: 2
//! # expect stdout: "Ada\n"
//! ```
//!
//! The comments are not part of the code that is run. A case that expects neither an error nor
//! `success: false` must succeed.

use std::collections::BTreeMap;
use std::time::Duration;

use belljar::outcome::ErrorKind;
use belljar::request::{Deterministic, Echo, Threads};
use belljar::{Outcome, Policy, Request, Run};
use serde_json::Value;

use crate::support::{paths, program, run};

/// A parsed case.
pub struct Case {
    name: String,
    pub code: String,
    with: BTreeMap<String, String>,
    pub expect: BTreeMap<String, Value>,
}

/// Runs the case `name` and checks all of its expectations.
#[track_caller]
pub fn check(name: &str) -> Run {
    let case = Case::read(name);
    let run = run(case.request());
    case.verify(&run);
    run
}

impl Case {
    #[track_caller]
    pub fn read(name: &str) -> Self {
        let source = program(name);
        let end = source
            .lines()
            .scan(0, |at, line| {
                let start = *at;
                *at += line.len() + 1;
                Some((start, line))
            })
            .find(|(_, line)| line.starts_with("# with ") || line.starts_with("# expect "));
        let end = end.map_or(source.len(), |(start, _)| start);
        let (code, directives) = source.split_at(end);
        let mut case = Self {
            name: name.to_owned(),
            code: code.trim_end().to_owned() + "\n",
            with: BTreeMap::new(),
            expect: BTreeMap::new(),
        };
        for line in directives.lines() {
            case.directive(line);
        }
        assert!(!case.expect.is_empty(), "{name} expects nothing");
        case
    }

    #[track_caller]
    fn directive(&mut self, line: &str) {
        let (word, rest) = line.trim_start_matches("# ").split_once(' ').expect(line);
        let (key, value) = rest.split_once(": ").unwrap_or_else(|| panic!("{}: {line}", self.name));
        let (key, value) = (key.to_owned(), value.to_owned());
        match word {
            "with" => drop(self.with.insert(key, value)),
            "expect" => {
                let value = serde_json::from_str(&value)
                    .unwrap_or_else(|e| panic!("{}: {line}: {e}", self.name));
                self.expect.insert(key, value);
            }
            _ => panic!("{}: {line}", self.name),
        }
    }

    /// The request of the case. Its time limit is generous, because these tests are not about time.
    pub fn request(&self) -> Request {
        let mut request = Request::new(&self.code).timeout(Duration::from_mins(1));
        for (key, value) in &self.with {
            request = with(request, key, value);
        }
        request
    }

    #[track_caller]
    pub fn verify(&self, run: &Run) {
        let outcome = &run.outcome;
        let fails = ["error", "kind"].iter().any(|key| self.expect.contains_key(*key));
        let open = ["success", "kind within", "error lacks"];
        let open = open.iter().any(|key| self.expect.contains_key(*key));
        if !fails && !open {
            assert!(outcome.success, "{} fails: {outcome:#?}", self.name);
        }
        for (key, expected) in &self.expect {
            let found = found(run, key, expected);
            let holds = match key.rsplit_once(' ') {
                Some((_, "has")) => strings(expected).iter().all(|s| text(&found).contains(s)),
                Some((_, "lacks")) => strings(expected).iter().all(|s| !text(&found).contains(s)),
                Some((_, "starts")) => text(&found).starts_with(expected.as_str().unwrap()),
                Some(("kind", "within")) => expected.as_array().unwrap().contains(&found),
                Some((_, "within")) => {
                    strings(&found).iter().all(|s| strings(expected).contains(s))
                }
                Some((_, "between")) => {
                    expected[0].as_u64() <= found.as_u64() && found.as_u64() <= expected[1].as_u64()
                }
                _ => found == *expected,
            };
            assert!(holds, "{}: {key} is {found}, expected {expected}\n{outcome:#?}", self.name);
        }
    }
}

fn with(request: Request, key: &str, value: &str) -> Request {
    let string = || serde_json::from_str::<String>(value).expect("a string in quotes");
    match key {
        "policy" if value == "strict" => request.policy(Policy::Strict),
        "result_var" => request.result_var(value),
        "threads" if value == "refuse" => request.threads(Threads::Refuse),
        "echo" => request.echo(match value {
            "all" => Echo::All,
            "last" => Echo::Last,
            _ => Echo::None,
        }),
        "timeout" => request.timeout(Duration::from_secs_f64(value.parse().unwrap())),
        "memory_mib" => request.memory_mib(value.parse().unwrap()),
        "output" => {
            let mut request = request;
            request.limits.output = Some(value.parse().unwrap());
            request
        }
        "stdin" => request.stdin(string()),
        "args" => {
            let args: Vec<String> = serde_json::from_str(value).unwrap();
            args.into_iter().fold(request, Request::arg)
        }
        "image" => request.image(value),
        _ if key.starts_with("file ") => request.file(&key["file ".len()..], string()),
        "seed" => request.deterministic(Deterministic::default().seed(value.parse().unwrap())),
        _ => panic!("a case knows no `with {key}`"),
    }
}

/// The part of a run that an expectation is about.
fn found(run: &Run, key: &str, expected: &Value) -> Value {
    let outcome = &run.outcome;
    let detail = outcome.error_detail.as_ref();
    let json = |value: Option<&str>| value.map_or(Value::Null, Value::from);
    match key {
        "success" => outcome.success.into(),
        "result" | "result has" => outcome.result.clone(),
        "stdout" | "stdout has" | "stdout lacks" | "stdout starts" => outcome.stdout.clone().into(),
        "stderr" | "stderr has" | "stderr lacks" => outcome.stderr.clone().into(),
        "error" | "error has" | "error lacks" => json(outcome.error.as_deref()),
        "kind" | "kind within" => detail.map_or(Value::Null, |d| kind_name(d.kind)),
        "line" | "line between" => detail.and_then(|d| d.line).into(),
        "exit_status" => detail.and_then(|d| d.exit_status).into(),
        "traceback has" | "traceback lacks" => json(detail.and_then(|d| d.traceback.as_deref())),
        "hint has" => json(detail.and_then(|d| d.hint.as_deref())),
        "violation lines" => detail
            .map_or(Value::Null, |d| d.violations.iter().map(|v| Value::from(v.line)).collect()),
        "files" => paths(outcome).into_iter().collect(),
        "plots" | "plots within" | "plots has" => plots(outcome).into_iter().collect(),
        "dataframes" | "dataframes has" | "dataframes lacks" => {
            outcome.dataframes.iter().map(|d| d.name.as_str()).collect()
        }
        "truncated" => serde_json::to_value(&outcome.truncated).unwrap(),
        "contents" => contents(run, expected),
        "sizes" => outcome.plots.iter().map(|p| size(run, &p.path)).collect(),
        "first size" => size(run, &outcome.plots[0].path),
        _ => match key.strip_prefix("repr of ") {
            Some(name) => outcome
                .dataframes
                .iter()
                .find(|d| d.name == name)
                .map_or(Value::Null, |d| d.repr.clone().into()),
            None => panic!("a case knows no `expect {key}`"),
        },
    }
}

fn plots(outcome: &Outcome) -> Vec<&str> {
    outcome.plots.iter().map(|p| p.path.as_str()).collect()
}

fn kind_name(kind: ErrorKind) -> Value {
    serde_json::to_value(kind).unwrap()
}

/// The contents of the files in the expectation.
fn contents(run: &Run, expected: &Value) -> Value {
    let names = expected.as_object().unwrap().keys();
    let read = |name: &String| {
        let bytes = run.read(name).unwrap_or_else(|e| panic!("{name}: {e}"));
        (name.clone(), Value::from(String::from_utf8_lossy(&bytes)))
    };
    Value::Object(names.map(read).collect())
}

/// Width and height of a PNG, from its header.
pub fn size(run: &Run, path: &str) -> Value {
    let bytes = run.read(path).unwrap();
    assert!(bytes.starts_with(b"\x89PNG\r\n\x1a\n"), "{path} is no PNG");
    let number = |at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap());
    serde_json::json!([number(16), number(20)])
}

fn strings(value: &Value) -> Vec<&str> {
    value.as_array().unwrap().iter().map(|v| v.as_str().unwrap()).collect()
}

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

//! The published JSON Schemas match the types, and real requests and outcomes.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;
use std::{env, fs};

use belljar::outcome::{ErrorKind, SCHEMA_VERSION};
use belljar::request::{Capture, Deterministic, FigureFormat, RunRequest};
use belljar::{Outcome, Policy, Request, RequestLimits, Runtime, SessionOptions, Tool};
use jsonschema::Validator;
use serde_json::{Value, json};

/// Set to write the files instead of comparing them.
const UPDATE: &str = "BELLJAR_UPDATE_SCHEMAS";

fn compare(name: &str, schema: &schemars::Schema) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/schema").join(name);
    let generated = serde_json::to_string_pretty(schema).unwrap() + "\n";
    if env::var_os(UPDATE).is_some() {
        fs::write(&path, &generated).unwrap();
    }
    let published = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        published == generated,
        "docs/schema/{name} is not the schema of the types. If their change is meant, write it \
         anew with `{UPDATE}=1 cargo test --release --test schema`; if a key changed its meaning, \
         raise SCHEMA_VERSION."
    );
}

/// The schema as published.
fn published(name: &str) -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/schema").join(name);
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

fn validator(schema: &Value) -> Validator {
    jsonschema::draft202012::options().should_validate_formats(true).build(schema).unwrap()
}

/// The outcome's schema, closed: an unknown key is an error. Readers of outcomes must accept
/// unknown keys, because later versions may add some.
fn closed_outcome() -> Validator {
    let mut schema = published("outcome.schema.json");
    schema["additionalProperties"] = false.into();
    for (name, definition) in schema["$defs"].as_object_mut().unwrap() {
        // Displays are part of an event.
        if definition["type"] == "object" && name != "Display" {
            definition["unevaluatedProperties"] = false.into();
        }
    }
    validator(&schema)
}

#[track_caller]
fn fits(validator: &Validator, value: &Value) {
    let errors: Vec<String> =
        validator.iter_errors(value).map(|e| format!("{}: {e}", e.instance_path())).collect();
    assert!(errors.is_empty(), "{errors:#?}\n{value:#}");
}

#[test]
fn published_schemas_are_those_of_the_types() {
    compare("request.schema.json", &RunRequest::schema());
    compare("outcome.schema.json", &Outcome::schema());
}

#[test]
fn schemas_name_their_version() {
    for name in ["request", "outcome"] {
        let schema = published(&format!("{name}.schema.json"));
        assert_eq!(schema["title"], format!("belljar {name}, version {SCHEMA_VERSION}"));
        assert_eq!(schema["$id"], Value::Null, "a schema is where its reader put it");
    }
}

#[test]
fn every_key_is_described() {
    fn look(at: &str, schema: &Value, missing: &mut Vec<String>) {
        let keys = schema["properties"].as_object().into_iter().flatten();
        let choices = schema["oneOf"].as_array().into_iter().flatten().enumerate();
        for (key, value) in keys {
            let at = format!("{at}.{key}");
            if value["description"].as_str().is_none_or(|d| d.len() < 10) {
                // The only key of a choice is described by the choice.
                let described = at.contains('|') && schema["description"].is_string();
                missing.extend((!described).then_some(at));
            }
        }
        for (index, choice) in choices {
            let at = format!("{at}|{index}");
            if !choice["description"].is_string() {
                missing.push(at.clone());
            }
            look(&at, choice, missing);
        }
    }
    let mut missing = Vec::new();
    for name in ["request", "outcome"] {
        let schema = published(&format!("{name}.schema.json"));
        look(name, &schema, &mut missing);
        for (definition, schema) in schema["$defs"].as_object().unwrap() {
            assert!(schema["description"].is_string(), "{definition}");
            look(definition, schema, &mut missing);
        }
    }
    assert!(missing.is_empty(), "{missing:#?}");
}

#[test]
fn keys_are_there_in_the_order_of_the_contract() {
    let schema = published("outcome.schema.json");
    let order = [
        "success",
        "result",
        "stdout",
        "stderr",
        "files",
        "plots",
        "dataframes",
        "error",
        "error_detail",
        "code",
        "truncated",
        "usage",
    ];
    assert_eq!(schema["required"], json!(order));
    // If the request asks for them; a session adds the others at the end.
    let asked_for = ["typed", "events", "tool_calls"];
    let of_session = [
        "interpreter_id",
        "execution",
        "interpreter_restarted",
        "restart_reason",
        "interpreter_crashed",
    ];
    let all = order.into_iter().chain(asked_for).chain(of_session);
    assert!(schema["properties"].as_object().unwrap().keys().eq(all));
}

/// A request for each way in which a run can end, with settings that add the outcome's optional
/// keys.
fn requests() -> Vec<(Request, Option<ErrorKind>)> {
    let everything = Capture::default()
        .inline_images(true)
        .table_rows(2)
        .file_hashes(true)
        .media_types(true)
        .events(true);
    let figures = "import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()\nplt.plot([2, 1])";
    let displays = "h = display({'a': 1}, display_id=True)\nh.update(2)\n[3]";
    let limits = |limits: RequestLimits| limits.timeout(Duration::from_secs(30));
    let few = RequestLimits::default().output(10);
    let no_fuel = limits(RequestLimits::default().fuel(50_000_000));
    let spin = "while True: pass";
    let values = "import numpy as np, datetime\nresult = {1: np.arange(3), 'n': float('nan'), \
                  's': {3, 1}, 'b': b'x', 'd': datetime.date(2024, 1, 1), 'big': 2**70}";
    let frames = "import pandas as pd\ndf = pd.DataFrame({'a': [1, 2, 3], 'b': ['x', None, 'z']})\n\
                  s = df['a']\nresult = df";
    let files = "import os\nopen('a.txt', 'w').write('x')\nos.mkdir('d')\n\
                 open('d/b.json', 'w').write('{}')\nos.symlink('a.txt', 'link')\n\
                 open('no.pdf', 'w').close()";
    let new = Request::new;
    let end = |kind| Some(kind);
    let mut all = vec![
        (new("print('hello')"), None),
        (new("result = 6 * 7"), None),
        (new(values), None),
        (new("1 + 1").echo(belljar::request::Echo::Last), None),
        (new(frames).capture(everything.clone()), None),
        (new(files).capture(everything.clone()), None),
        (new(displays).echo(belljar::request::Echo::Display).capture(everything.clone()), None),
        (new(figures).capture(everything.clone()), None),
        (new(figures).capture(everything.figure_format(FigureFormat::Svg)), None),
        (
            new("import random\nresult = random.random()").deterministic(Deterministic::default()),
            None,
        ),
        (new("import warnings\nwarnings.warn('careful')"), None),
        (new("print('x' * 100)").limits(few), None),
        (new("raise SystemExit"), None),
        (new("print('so far')\n1 / 0"), end(ErrorKind::Exception)),
        (
            new("import socket\nsocket.create_connection(('127.0.0.1', 1))"),
            end(ErrorKind::Exception),
        ),
        (new("import nonesuch"), end(ErrorKind::Exception)),
        (
            new("raise ExceptionGroup('some', [ValueError(1), KeyError(2)])"),
            end(ErrorKind::Exception),
        ),
        (new("x = "), end(ErrorKind::Syntax)),
        (new(""), end(ErrorKind::Syntax)),
        (new(spin).timeout(Duration::from_millis(200)), end(ErrorKind::Timeout)),
        (new(spin).limits(no_fuel), end(ErrorKind::Fuel)),
        (new("x = bytearray(64 << 20)").memory_mib(16), end(ErrorKind::Memory)),
        (new("import os\neval('1')").policy(Policy::Strict), end(ErrorKind::Policy)),
        (new("raise SystemExit(3)"), end(ErrorKind::Exit)),
        (new("raise SystemExit('bye')"), end(ErrorKind::Exit)),
        (new("import os\nos._exit(4)"), end(ErrorKind::Crash)),
    ];
    let flood = RequestLimits::default().output(1_000);
    let flood = new("while True: print('x' * 100_000)").limits(limits(flood));
    all.push((flood, end(ErrorKind::Output)));
    all
}

/// The outcome of a run that waits for a tool's answer, which needs a session.
fn waiting(runtime: &Runtime) -> Outcome {
    let ask = Tool::deferred("ask", json!({"type": "object"}));
    let options = SessionOptions::new().image("core").tool(ask);
    let session = runtime.blocking().session(options).unwrap();
    session.run(Request::new("import tools\ntools.ask()")).unwrap()
}

#[test]
fn outcomes_fit() {
    let runtime = Runtime::builder().environment().build().unwrap();
    let schema = closed_outcome();
    let mut kinds = BTreeSet::from([text(ErrorKind::Interrupted)]);
    let mut optional = BTreeSet::new();
    let mut outcomes = vec![(waiting(&runtime), Some(ErrorKind::Waiting))];
    for (mut request, kind) in requests() {
        if request.limits.timeout.is_none() {
            request = request.timeout(Duration::from_secs(30));
        }
        outcomes.push((runtime.blocking().run(request).unwrap().outcome, kind));
    }
    for (outcome, kind) in outcomes {
        let found = outcome.error_detail.as_ref().map(|d| d.kind);
        assert_eq!(found, kind, "{outcome:#?}");
        kinds.extend(found.map(text));

        let value = serde_json::to_value(&outcome).unwrap();
        fits(&schema, &value);
        names(&value, &mut optional);
        let again: Outcome = serde_json::from_value(value).unwrap();
        assert_eq!(again, outcome, "an outcome is read back as it was written");
    }
    // An interrupt comes from outside the run; it has the form of a time limit.
    let of_the_schema = &published("outcome.schema.json")["$defs"]["ErrorKind"]["oneOf"];
    let of_the_schema: BTreeSet<String> =
        of_the_schema.as_array().unwrap().iter().map(|k| name(&k["const"])).collect();
    assert_eq!(kinds, of_the_schema, "a kind of failure was not tried");
    let keys = [
        "symlink",
        "sha256",
        "media_type",
        "problem",
        "base64_uri",
        "table",
        "exit_status",
        "hint",
        "events",
    ];
    for key in keys {
        assert!(optional.contains(key), "no outcome has {key}");
    }
}

fn name(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}

fn text(kind: ErrorKind) -> String {
    name(&serde_json::to_value(kind).unwrap())
}

/// Collects the keys of an outcome, except those of its result.
fn names(value: &Value, keys: &mut BTreeSet<String>) {
    match value {
        Value::Object(object) => {
            for (key, value) in object.iter().filter(|(key, _)| *key != "result") {
                keys.insert(key.clone());
                names(value, keys);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| names(item, keys)),
        _ => {}
    }
}

/// Invalid outcomes are rejected, by the schema and by the type.
#[test]
fn outcomes_that_lack_something_do_not_fit() {
    let schema = validator(&published("outcome.schema.json"));
    let whole = json!({
        "success": true, "result": null, "stdout": "", "stderr": "", "files": [], "plots": [],
        "dataframes": [], "error": null, "error_detail": null, "code": "", "truncated": [],
        "usage": {"wall_ms": 0.5, "fuel": 1, "memory_peak_bytes": 0, "stdout_bytes": 0,
                  "stderr_bytes": 0, "workspace_bytes": 0},
    });
    fits(&schema, &whole);
    for key in whole.as_object().unwrap().keys() {
        let mut without = whole.clone();
        without.as_object_mut().unwrap().remove(key);
        assert!(!schema.is_valid(&without), "{key} may be missing");
        let mut other = whole.clone();
        other[key] = json!([1]);
        assert!(!schema.is_valid(&other) || key == "result", "{key} may be a list of numbers");
    }
    let mut later = whole;
    later["a_key_of_a_later_version"] = 1.into();
    fits(&schema, &later);
}

/// The schema of requests and the parser agree on what a request is.
#[test]
fn requests_fit_where_they_are_read() {
    let schema = validator(&published("request.schema.json"));
    let good = [
        json!({"code": "1"}),
        json!({"id": 7, "code": "1", "image": "data", "stdin": "in", "env": {"A": "b"},
               "run_env": {"C": "d"}, "aliases": ["/mnt/data"], "cwd": "/mnt/data",
               "files": {"t": "text", "b": {"base64": "AAE="}, "h": {"path": "x"}}, "args": ["-n"],
               "timeout": 0.5, "memory_mb": 64, "fuel": 9, "output_bytes": 7, "workspace_mb": 1,
               "max_files": 3, "policy": "strict", "echo": "last", "dialect": "ipython", "result_var": "r", "threads": "refuse",
               "deterministic": {"seed": 4}, "capture": {"figures": false}}),
        json!({"code": "", "policy": "open", "echo": "none", "deterministic": {}, "capture": {}}),
        json!({"code": "", "policy": {"custom": {"imports": ["os"], "forbidden_names": []}}}),
        json!({"id": null, "code": "", "image": null, "timeout": null, "capture": null}),
        json!({"id": {"a": [1]}, "code": "", "capture": {"figure_format": "svg", "figure_dpi": 72}}),
    ];
    let bad = [
        json!(null),
        json!(["1"]),
        json!({}),
        json!({"id": 1}),
        json!({"code": 1}),
        json!({"code": "", "timeuot": 1}),
        json!({"code": "", "files": {"a": 3}}),
        json!({"code": "", "files": {"a": {"url": "x"}}}),
        json!({"code": "", "files": {"a": {"base64": "", "path": ""}}}),
        json!({"code": "", "memory_mb": -1}),
        json!({"code": "", "memory_mb": 1.5}),
        json!({"code": "", "env": {"A": 1}}),
        json!({"code": "", "run_env": {"A": 1}}),
        json!({"code": "", "aliases": "/mnt/data"}),
        json!({"code": "", "cwd": 1}),
        json!({"code": "", "policy": "shut"}),
        json!({"code": "", "policy": {"custom": {"import": []}}}),
        json!({"code": "", "echo": "some"}),
        json!({"code": "", "dialect": "perl"}),
        json!({"code": "", "threads": "real"}),
        json!({"code": "", "deterministic": {"sead": 1}}),
        json!({"code": "", "deterministic": 7}),
        json!({"code": "", "capture": {"figure_format": "pdf"}}),
        json!({"code": "", "capture": {"figure_dpi": "72"}}),
    ];
    for value in good {
        fits(&schema, &value);
        serde_json::from_value::<RunRequest>(value).unwrap();
    }
    for value in bad {
        assert!(!schema.is_valid(&value), "the schema takes {value}");
        assert!(serde_json::from_value::<RunRequest>(value.clone()).is_err(), "{value} is read");
    }
}

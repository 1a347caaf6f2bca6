//! Finds overflows of numpy's 32-bit arithmetic in all test programs that use it.
//!
//! On Linux, the default integer has 64 bits, so a sum of 32-bit integers that overflows here may
//! be correct there. The module is compiled with additional code, so that numpy's loops write the
//! name of the operation and Python's traceback to stderr if a result overflows.
//! `tests/integers/overflows.txt` explains each place; any other place is a failure.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use belljar_passes::Tier;

use crate::api::request::Request;
use crate::engine::run::Run;
use crate::runtime::Runtime;

/// Start of a report in stderr.
const BEGINS: &str = "overflow in ";
/// Generated calls that are also tested.
const CALLS: [&str; 2] = ["repeatable", "draws"];
/// Place of an overflow in an expression of a corpus, instead of a program.
const EXPRESSION: &str = "an expression";
/// Path prefix of numpy's own code.
const NUMPY: &str = "/usr/local/lib/python315.zip/numpy/";
const ARCHIVE: &str = "/usr/local/lib/python315.zip/";

#[test]
fn every_overflow_is_explained() {
    let runtime = runtime();
    let wrong = wrong_controls(&runtime);

    let mut found: BTreeMap<Place, String> = BTreeMap::new();
    let mut note = |name: &str, run: &Run| {
        for (place, traceback) in places(name, &run.outcome.stderr) {
            // `tests/it/integers.rs` compares the results of the expression itself with Linux.
            if place.1 != EXPRESSION {
                found.entry(place).or_insert(traceback);
            }
        }
    };
    let corpora = ["expressions", "warnings", "libraries"];
    let corpora = corpora.map(|name| (name, read(&format!("tests/integers/{name}.txt"))));
    for (corpus, expressions) in corpora.into_iter().chain(CALLS.map(|name| (name, calls(name)))) {
        let request =
            request(&read("tests/programs/expressions.py")).file("expressions.txt", expressions);
        let run = run(&runtime, request);
        assert!(run.outcome.success, "{corpus}: {:#?}", run.outcome);
        note("", &run);
    }
    for path in programs() {
        let code = fs::read_to_string(&path).unwrap();
        let name = path.strip_prefix(env!("CARGO_MANIFEST_DIR")).unwrap_or(&path);
        note(&name.display().to_string(), &run(&runtime, request(&code)));
    }

    let explained = explained();
    let unexplained: Vec<_> =
        found.iter().filter(|(place, _)| !explained.contains(*place)).collect();
    let stale: Vec<_> = explained.iter().filter(|place| !found.contains_key(*place)).collect();
    let list: Vec<_> = unexplained
        .iter()
        .map(|((operation, place), traceback)| format!("{operation} | {place}\n{traceback}\n"))
        .collect();
    let list = list.concat();
    assert!(
        wrong.is_empty() && unexplained.is_empty() && stale.is_empty(),
        "controls that are wrong: {wrong:#?}\n{} not explained:\n{list}\n\
         explained, but not found: {stale:#?}",
        unexplained.len()
    );
}

/// Returns the generated calls of a library, one per line.
fn calls(library: &str) -> String {
    let answered = read(&format!("tests/integers/calls/{library}.tsv"));
    let calls = answered.lines().filter_map(|line| line.split('\t').next());
    calls.map(|call| call.trim_start_matches('~')).collect::<Vec<_>>().join("\n")
}

/// Tests the detection itself: overflows must be reported at their place, and correct results must
/// not.
fn wrong_controls(runtime: &Runtime) -> Vec<String> {
    let code = "
import numpy as np
def narrow(*values):
    return np.array(values, np.int32)
def added():
    return narrow(2**31 - 1) + narrow(1)
def fits():
    return narrow(2**31 - 1) + narrow(0) + np.array([2**62])
CODE
";
    let mut wrong = Vec::new();
    for (expression, operation) in CONTROLS {
        let run = run(runtime, request(&code.replace("CODE", expression)));
        let found = places("a", &run.outcome.stderr);
        let names: BTreeSet<_> = found.iter().map(|((name, _), _)| name.as_str()).collect();
        let is_traced = *expression != "added()" || found[0].1.contains("line 6 in added\n");
        if !run.outcome.success || names != operation.iter().copied().collect() || !is_traced {
            wrong.push(format!("{expression}: {}", run.outcome.stderr));
        }
    }
    wrong
}

const CONTROLS: &[(&str, Option<&str>)] = &[
    ("fits()", None),
    ("added()", Some("LONG_add")),
    ("narrow(-2**31) - narrow(1)", Some("LONG_subtract")),
    ("narrow(2**16) * narrow(2**16)", Some("LONG_multiply")),
    ("narrow(2**30) << narrow(1)", Some("LONG_left_shift")),
    ("np.square(narrow(2**16))", Some("LONG_square")),
    ("narrow(2**11, 3) ** narrow(3, 1)", Some("LONG_power")),
    ("-narrow(-2**31)", Some("LONG_negative")),
    ("abs(narrow(-2**31))", Some("LONG_absolute")),
    ("narrow(2**30, 2**30).sum(dtype=np.int32)", Some("LONG_add")),
    ("narrow(2**30, 2**30).cumsum(dtype=np.int32)", Some("LONG_add")),
    ("narrow(2**16, 2**16).prod(dtype=np.int32)", Some("LONG_multiply")),
    ("np.add.at(narrow(2**31 - 1), [0], narrow(1))", Some("LONG_add_indexed")),
    ("np.dot(narrow(2**16), narrow(2**16))", Some("LONG_dot")),
    ("np.array([[2**16]], np.int32) @ np.array([[2**16]], np.int32)", Some("LONG_dot")),
    ("np.einsum('i,i', narrow(2**16), narrow(2**16))", Some("long_sum_of_products_outstride0_two")),
    ("np.array([2**31]).astype(np.int32)", Some("longlong_to_long")),
    ("np.array([2.0**31]).astype(np.int32)", Some("double_to_long")),
    ("np.array([-1]).astype(np.uint32)", Some("longlong_to_ulong")),
    ("np.array([2**16], np.uint32) * np.array([2**16], np.uint32)", Some("ULONG_multiply")),
    ("np.array([2**16], 'i') * np.array([2**16], 'i')", Some("INT_multiply")),
    ("np.int32(2**31 - 1) + np.int32(1)", Some("long_add")),
    ("np.int32(2**11) ** np.int32(3)", Some("long_power")),
    ("np.arange(0, 2**31, 2**30, dtype=np.int32)", None),
];

/// An operation, and the innermost function outside numpy that called it.
type Place = (String, String);

/// Returns the places that a program reported on stderr, each with its traceback.
fn places(program: &str, stderr: &str) -> Vec<(Place, String)> {
    let mut found = Vec::new();
    for part in stderr.split(BEGINS).skip(1) {
        let mut lines = part.lines();
        let operation = lines.next().and_then(|line| line.split(':').next()).unwrap_or_default();
        let frames: Vec<_> = lines.take_while(|line| line.starts_with("  File ")).collect();
        let outside = frames.iter().copied().find(|line| !line.contains(NUMPY)).unwrap_or_default();
        let (file, rest) = outside
            .trim_start_matches("  File ")
            .trim_start_matches('"')
            .rsplit_once("\", line ")
            .unwrap_or_default();
        let function = rest.split_once(" in ").unwrap_or_default().1;
        let place = match file.strip_prefix(ARCHIVE) {
            Some(file) => format!("{file}: {function}"),
            None if program.is_empty() => EXPRESSION.to_owned(),
            None => format!("{program}: {function}"),
        };
        found.push(((operation.to_owned(), place), frames.join("\n")));
    }
    found
}

/// Returns all terminating programs of the repository that use numpy or a library based on it.
fn programs() -> Vec<PathBuf> {
    const LIBRARIES: [&str; 7] =
        ["numpy", "pandas", "scipy", "sklearn", "statsmodels", "matplotlib", "seaborn"];
    const ENDLESS: [&str; 2] = ["tests/programs/stops", "tests/programs/out_of_memory"];
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut left: Vec<_> = ["tests/programs", "examples", "benches/programs"]
        .iter()
        .map(|dir| root.join(dir))
        .collect();
    let mut found = Vec::new();
    while let Some(path) = left.pop() {
        if path.is_dir() {
            left.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        } else if path.extension().is_some_and(|extension| extension == "py")
            && !path.ends_with("expressions.py")
            && !ENDLESS.iter().any(|directory| path.starts_with(root.join(directory)))
            && fs::read_to_string(&path)
                .is_ok_and(|code| LIBRARIES.iter().any(|name| code.contains(name)))
        {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// Returns the explained places: `operation | place | why`.
fn explained() -> BTreeSet<Place> {
    let text = read("tests/integers/overflows.txt");
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let place = |line: &str| {
        let parts: Vec<_> = line.split(" | ").collect();
        let [operation, place, _why] = parts[..] else {
            panic!("{line}: an operation, a place and the reason, with ` | ` between them");
        };
        (operation.to_owned(), place.to_owned())
    };
    lines.map(place).collect()
}

fn runtime() -> Runtime {
    let runtime = Runtime::builder().telling_overflows().build().unwrap();
    runtime.compile(Tier::All).unwrap();
    runtime.images().prepare("science").unwrap();
    runtime
}

fn request(code: &str) -> Request {
    const STDERR: u64 = 64 << 20;
    let mut request =
        Request::new(code).image("science").memory_mib(1024).timeout(Duration::from_mins(2));
    request.limits.output = Some(STDERR);
    request
}

fn run(runtime: &Runtime, request: Request) -> Run {
    runtime.blocking().run(request).unwrap()
}

fn read(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

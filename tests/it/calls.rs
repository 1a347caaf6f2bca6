//! Thousands of generated calls of public functions, with integers whose sums and products pass
//! 2^31, give what they give on Linux, except for what the documentation names.
//!
//! `tests/integers/generator` made them. A line is a call, a tab and the answer; where it begins with
//! `~`, the last places of floats are those of the C library, the BLAS or the order of a sum.

use std::collections::BTreeMap;
use std::time::Duration;

use belljar::Request;
use serde_json::Value;

use crate::integers::{known_differences, read};
use crate::support::{program, run, succeeded};

/// How many calls a sandbox makes.
const TOGETHER: usize = 1_000;

/// How near floats are, where last places may differ: to the largest float of the answer.
const NEAR: f64 = 1e-7;

/// A library, the image that has it, and how many calls there are at least.
const LIBRARIES: [(&str, &str, usize); 7] = [
    ("numpy", "data", 1_500),
    ("pandas", "data", 1_500),
    ("scipy", "science", 2_000),
    ("sklearn", "science", 700),
    ("statsmodels", "science", 900),
    ("repeatable", "science", 650),
    ("draws", "science", 130),
];

#[test]
fn numpy_answers_generated_calls_as_on_linux() {
    answers_as_on_linux(LIBRARIES[0]);
}

#[test]
fn pandas_answers_generated_calls_as_on_linux() {
    answers_as_on_linux(LIBRARIES[1]);
}

#[test]
fn scipy_answers_generated_calls_as_on_linux() {
    answers_as_on_linux(LIBRARIES[2]);
}

#[test]
fn scikit_learn_answers_generated_calls_as_on_linux() {
    answers_as_on_linux(LIBRARIES[3]);
}

#[test]
fn statsmodels_answers_generated_calls_as_on_linux() {
    answers_as_on_linux(LIBRARIES[4]);
}

/// Draws with seeds, the order of ties and sets, transforms, decompositions and optimizers.
#[test]
fn seeds_orders_and_decompositions_are_those_of_linux() {
    answers_as_on_linux(LIBRARIES[5]);
}

/// The legacy generator draws C longs, which have 32 bits here.
#[test]
fn large_draws_are_those_of_linux() {
    answers_as_on_linux(LIBRARIES[6]);
}

struct Call {
    text: String,
    near: bool,
    linux: Value,
}

/// The calls of a library.
pub fn texts(library: &str) -> Vec<String> {
    calls(library).into_iter().map(|call| call.text).collect()
}

/// The libraries.
pub fn libraries() -> impl Iterator<Item = &'static str> {
    LIBRARIES.iter().map(|(library, ..)| *library)
}

fn calls(library: &str) -> Vec<Call> {
    let call = |line: &str| {
        let (text, answer) = line.split_once('\t').expect("a call, a tab and the answer");
        Call {
            text: text.trim_start_matches('~').to_owned(),
            near: text.starts_with('~'),
            linux: serde_json::from_str(answer).unwrap(),
        }
    };
    read(&format!("tests/integers/calls/{library}.tsv")).lines().map(call).collect()
}

fn answers_as_on_linux((library, image, least): (&str, &str, usize)) {
    let calls = calls(library);
    assert!(calls.len() >= least, "only {} calls", calls.len());
    let known = known_differences();
    let mut wrong = Vec::new();
    for some in calls.chunks(TOGETHER) {
        let found = found(some, image);
        for Call { text, near, linux } in some {
            let here = &found[text];
            let is_same = same(here, linux, if *near { NEAR * largest(linux) } else { 0.0 });
            match known.get(text) {
                Some(_) if is_same => wrong.push(format!("{text} is not different")),
                Some((said_linux, said_here)) => {
                    assert!(linux.to_string().contains(said_linux), "{text}: {linux}");
                    assert!(here.to_string().contains(said_here), "{text}: {here}");
                }
                None if is_same => {}
                None => wrong.push(format!("{text}\n  {here}\n  {linux}")),
            }
        }
    }
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}

/// What the calls give in one sandbox.
fn found(calls: &[Call], image: &str) -> BTreeMap<String, Value> {
    let lines: Vec<_> = calls.iter().map(|call| call.text.as_str()).collect();
    let request = Request::new(program("expressions"))
        .image(image)
        .file("expressions.txt", format!("# exact\n{}\n", lines.join("\n")))
        .memory_mib(1024)
        .timeout(Duration::from_mins(3));
    let run = run(request);
    succeeded(&run.outcome);
    serde_json::from_slice(&run.read("found.json").unwrap()).unwrap()
}

/// The largest finite float in an answer, without its sign.
fn largest(answer: &Value) -> f64 {
    match answer {
        Value::Array(parts) => parts.iter().map(largest).fold(0.0, f64::max),
        Value::Object(parts) => parts.values().map(largest).fold(0.0, f64::max),
        other => float(other).map_or(0.0, f64::abs),
    }
}

fn float(value: &Value) -> Option<f64> {
    value.as_str()?.parse().ok().filter(|number: &f64| number.is_finite())
}

/// Whether two answers are the same, floats within `near`.
fn same(one: &Value, other: &Value, near: f64) -> bool {
    match (one, other) {
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(a, b)| same(a, b, near))
        }
        (Value::Object(one), Value::Object(other)) => {
            one.len() == other.len()
                && one.iter().all(|(key, a)| other.get(key).is_some_and(|b| same(a, b, near)))
        }
        _ if one == other => true,
        _ => match (float(one), float(other)) {
            (Some(a), Some(b)) => (a - b).abs() <= near,
            _ => false,
        },
    }
}

//! IPython's input dialect, as sent by notebooks and their imitators.

use belljar::outcome::ErrorKind;
use belljar::request::{Capture, Dialect, Echo};
use belljar::{Outcome, Policy, Request, SessionOptions};

use crate::support::{check, failed, outcome, run, runtime, succeeded};

fn cell(code: &str) -> Outcome {
    run(Request::new(code).dialect(Dialect::Ipython)).outcome
}

#[test]
fn it_is_off_unless_it_is_asked_for() {
    failed(&outcome("!pip install pillow numpy"), ErrorKind::Syntax);
    let strict = Request::new("%time 1").dialect(Dialect::Ipython).policy(Policy::Strict);
    failed(&run(strict).outcome, ErrorKind::Syntax);
}

#[test]
fn packages_that_are_there_need_no_installation() {
    let outcome = cell("!pip install pillow numpy scikit-learn\nimport numpy\nresult = _exit_code");
    succeeded(&outcome);
    assert_eq!(outcome.stdout.matches("Requirement already satisfied").count(), 3, "{outcome:#?}");
    assert_eq!(outcome.result, 0);
    let outcome = cell("%pip install torch\nresult = _exit_code");
    assert!(outcome.stdout.contains("ERROR: No matching distribution found for torch"));
    assert!(outcome.stdout.contains("scikit-learn"), "the list of what is there");
    assert_eq!(outcome.result, 1);
}

#[test]
fn commands_and_magics_do_what_they_can() {
    let code = "%matplotlib inline\n!pwd\nopen('a.txt', 'w').write('x')\nnames = !ls\n\
                %time y = sum(range(10))\n!git status\nlen?\nresult = [names, y]";
    let outcome = cell(code);
    succeeded(&outcome);
    assert!(outcome.stdout.starts_with("/workspace\nCPU times"), "{}", outcome.stdout);
    assert!(outcome.stdout.contains("Docstring:"));
    assert!(outcome.stderr.contains("no processes"));
    assert_eq!(outcome.result, serde_json::json!([["a.txt"], 45]));
}

#[test]
fn a_session_remembers_values_and_numbers_its_cells() {
    let session = runtime().blocking().session(SessionOptions::default()).unwrap();
    let run = |code: &str| {
        let request = Request::new(code).dialect(Dialect::Ipython).echo(Echo::Last);
        let outcome = session.run(request).unwrap();
        check(&outcome);
        outcome
    };
    assert_eq!(run("def f(x):\n    return 1 / x\n41").stdout, "41\n");
    assert_eq!(run("_ + 1").stdout, "42\n");
    assert_eq!(run("(Out[1], _2, In[2])").stdout, "(41, 42, '_ + 1')\n");
    session.rewind(2).unwrap();
    let failure = run("f(0)");
    let detail = failure.error_detail.unwrap();
    let expected = "ZeroDivisionError                         Traceback (most recent call last)\n\
                    Cell In[3], line 1\n----> 1 f(0)\n\n\
                    Cell In[1], line 2, in f(x)\n      1 def f(x):\n----> 2     return 1 / x\n\n\
                    ZeroDivisionError: division by zero\n";
    let traceback = detail.traceback.unwrap();
    assert_eq!(traceback, format!("{}\n{expected}", "-".repeat(75)));
    assert_eq!(failure.stderr, traceback);
}

#[test]
fn an_interrupt_of_a_measurement_is_a_time_limit() {
    let code = "%timeit __import__('time').sleep(1)";
    let request = Request::new(code).timeout(std::time::Duration::from_millis(500));
    let outcome = run(request.dialect(Dialect::Ipython).capture(Capture::default())).outcome;
    failed(&outcome, ErrorKind::Timeout);
}

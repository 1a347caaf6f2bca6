//! The result contract, item by item, as far as programs alone cannot check it: those that can are
//! in `tests/programs/contract`. The numbers are those of the contract. Items 15, 18 and 19 are
//! about sessions, 10 is in `forge`, and 21 in `seeds`.

mod artifacts;
mod limits;
mod policy;
mod streams;

use std::time::Duration;

use crate::case;
use crate::support::{failed, outcome, program, run, succeeded};
use belljar::Request;
use belljar::outcome::ErrorKind;

#[test]
fn contract_01_no_code() {
    for code in ["", "  \n\t\n"] {
        let outcome = outcome(code);
        failed(&outcome, ErrorKind::Syntax);
        assert_eq!(outcome.error.as_deref(), Some("No code provided."));
        assert_eq!(outcome.code, code);
    }
}

#[test]
fn contract_01_the_code_is_given_back_as_it_was() {
    let code = "    x = 1\r\n    print(x)\r\n";
    let outcome = outcome(code);
    assert_eq!(outcome.code, code);
    assert_eq!(outcome.stdout, "1\n");
}

#[test]
fn contract_02_a_stack_overflow_is_a_crash() {
    let code = format!("print('before')\n{}", program("recursion/mapped"));
    let outcome = run(Request::new(code).timeout(Duration::from_mins(1))).outcome;
    failed(&outcome, ErrorKind::Crash);
    assert_eq!(outcome.stdout, "before\n");
}

#[test]
fn contract_08_runs_share_nothing() {
    for _ in 0..3 {
        run(Request::new(program("contract/contract_08_spoil")));
        case::check("contract/contract_08_unspoiled");
    }
}

#[test]
fn contract_08_the_same_runs_notice_each_other_in_one_interpreter() {
    // The check can fail: in one run, the second program finds the effects of the first.
    let both = program("contract/contract_08_spoil") + &program("contract/contract_08_unspoiled");
    let code =
        both.replace("builtins.len = lambda _: -1", "").replace("sys.stdout = open", "_ = open");
    let outcome = run(Request::new(code)).outcome;
    succeeded(&outcome);
    assert!(outcome.result.as_array().unwrap().len() >= 15, "{}", outcome.result);
}

#[test]
fn contract_09_standard_input_is_the_runs_own() {
    let echo = "import sys\nprint(sys.stdin.read())";
    let given = run(Request::new(echo).stdin("only once")).outcome;
    assert_eq!(given.stdout, "only once\n");
    assert_eq!(outcome(echo).stdout, "\n");
    let binary =
        run(Request::new("import sys\nprint(sys.stdin.buffer.read())").stdin([0, 255, 10]));
    assert_eq!(binary.outcome.stdout, "b'\\x00\\xff\\n'\n");
}

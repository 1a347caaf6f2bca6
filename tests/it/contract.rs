//! The result contract, item by item; the numbers are those of the contract. Items 15, 18 and 19
//! are about sessions, 10 is in `forge`, and 21 in `seeds`.

mod artifacts;
mod limits;
mod policy;
mod streams;

use std::time::Duration;

use crate::case::{self, cases};
use crate::support::{failed, outcome, program, run, succeeded};
use belljar::{ErrorKind, Request};

cases! { "contract":
    contract_01_chain_and_notes
    contract_01_custom_type
    contract_01_everything_so_far
    contract_01_group
    contract_01_indentation
    contract_01_interrupted_by_itself
    contract_01_long_recursion
    contract_01_missing_module
    contract_01_own_module
    contract_01_syntax
    contract_01_warning
    contract_02_abort
    contract_02_bad_pointer
    contract_02_exit_bare
    contract_02_exit_message
    contract_02_exit_none
    contract_02_exit_three
    contract_02_exit_true
    contract_02_exit_while_plotting
    contract_02_exit_zero
    contract_02_hard_exit
    contract_02_quit
    contract_02_system_exit
    contract_03_line_in_function
    contract_03_open_figure
    contract_03_swallowed
    contract_03_timeout_keeps
    contract_04_caught
    contract_04_default
    contract_04_too_large
    contract_05_after_exception
    contract_05_cannot_be_drawn
    contract_05_closed
    contract_05_not_overwritten
    contract_05_open_figures
    contract_05_pandas_plot
    contract_05_plots_is_a_file
    contract_05_saved
    contract_06_figure_object
    contract_06_nothing_to_show
    contract_06_pillow
    contract_06_seaborn
    contract_06_show_block
    contract_06_show_each
    contract_07_display_options
    contract_07_hostile
    contract_07_kinds
    contract_07_long
    contract_08_spoil
    contract_08_unspoiled
    contract_09_end_of_input
    contract_09_given_input
    contract_09_main_module
    contract_09_no_future
    contract_09_own_modules
    contract_11_artifacts
    contract_11_changed
    contract_12_absent
    contract_12_deep
    contract_12_hostile
    contract_12_long_text
    contract_12_many
    contract_12_not_evaluated
    contract_12_numbers
    contract_12_numpy
    contract_12_others
    contract_12_pandas
    contract_12_plain
    contract_12_standard_types
    contract_12_surrogates
    contract_13_allowed
    contract_13_at_run_time
    contract_13_open_policy
    contract_13_violations
    contract_14_output
    contract_16_all
    contract_16_last
    contract_16_last_statement
    contract_16_none
    contract_17_asyncio_run
    contract_17_await
    contract_17_dedent
    contract_17_dedent_tabs
    contract_17_dedent_text
    contract_17_missing_variable
    contract_17_variable_wins
}

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
    // The check can fail: both programs in one run find what the first one did.
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

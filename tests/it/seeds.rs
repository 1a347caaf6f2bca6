//! The examples of the tutorials that this project was made for, with the corrected answers.

use std::fs;

use crate::case::{Case, cases};
use crate::host;
use crate::support::programs_in;

cases! { "seeds":
    article_missing_values
    article_regression
    article_self_correction
    kagura_age
    kagura_aggregate
    kagura_average
    kagura_calculator
    kagura_datetime
    kagura_dumps
    kagura_evens
    kagura_executor
    kagura_factorial
    kagura_fibonacci
    kagura_json
    kagura_no_commands
    kagura_no_eval
    kagura_no_files
    kagura_no_network
    kagura_no_result
    kagura_pipeline
    kagura_power
    kagura_primes
    kagura_primes_list
    kagura_revenue
    kagura_reverse
    kagura_scores
    kagura_sqrt
    kagura_squares
    kagura_sum
    kagura_text
    kagura_timeout
    kagura_upper
    libraries
    pantheon_analysis
    pantheon_basic
    pantheon_echo
    pantheon_indented
    pantheon_learning
    pantheon_sine
    synapse_chart
    synapse_frames
    synapse_literal
    synapse_primes
    synapse_random
    synapse_save_then_show
}

/// Prints the program's result after what it prints itself, for comparison.
const REPORT: &str = "
import json as _json, sys as _sys
_sys.stdout.write('\\n=== ' + _json.dumps(globals().get('result')))
";

/// What these programs print and compute, they print and compute outside, too.
#[test]
fn the_host_agrees() {
    let mut compared = 0;
    for name in programs_in("seeds") {
        let name = format!("seeds/{name}");
        let case = Case::read(&name);
        let plain = case.expect.keys().all(|key| ["result", "stdout"].contains(&key.as_str()));
        // Dedenting, echoing and choosing the variable are the sandbox's own.
        let ordinary = !["pantheon_basic", "pantheon_echo", "pantheon_indented"]
            .iter()
            .any(|own| name.ends_with(own));
        if !plain || !ordinary || !host::has_modules_of(&name) {
            continue;
        }
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("program.py");
        fs::write(&path, case.code.clone() + REPORT).unwrap();
        let output = host::python().arg(&path).current_dir(dir.path()).output().unwrap();
        let printed = String::from_utf8(output.stdout).unwrap();
        let (stdout, result) = printed.split_once("\n=== ").unwrap_or_else(|| {
            panic!("{name}: {}", String::from_utf8_lossy(&output.stderr));
        });
        if let Some(expected) = case.expect.get("stdout") {
            assert_eq!(stdout, expected.as_str().unwrap(), "{name}");
        }
        if let Some(expected) = case.expect.get("result") {
            let found: serde_json::Value = serde_json::from_str(result).unwrap();
            assert_eq!(&found, expected, "{name}");
        }
        compared += 1;
    }
    assert!(compared >= 20, "only {compared} programs were compared");
}

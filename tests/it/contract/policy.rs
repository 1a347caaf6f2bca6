//! Item 13: the caller's policy for code.

use belljar::outcome::ErrorKind;
use belljar::request::Rules;
use belljar::{Policy, Request};

use crate::support::{failed, run, runtime, succeeded};

fn rules(imports: &[&str], names: &[&str], attributes: &[&str]) -> Policy {
    let own = |words: &[&str]| words.iter().map(|w| (*w).to_owned()).collect();
    Policy::Custom(
        Rules::default()
            .imports(own(imports))
            .forbidden_names(own(names))
            .forbidden_attributes(own(attributes)),
    )
}

#[test]
fn contract_13_the_callers_own_lists() {
    let policy = rules(&["math", "numpy"], &["print"], &["secret"]);
    let code = "import math, os\nimport numpy as np\nprint(1)\nnp.secret\neval('1')";
    let outcome = run(Request::new(code).policy(policy)).outcome;
    failed(&outcome, ErrorKind::Policy);
    assert_eq!(
        outcome.error.as_deref(),
        Some(
            "SecurityError: Forbidden import: os; Forbidden operation: print; Forbidden attribute: secret"
        )
    );
}

#[test]
fn contract_13_imports_at_run_time() {
    let policy = rules(&["random"], &[], &[]);
    let code = "import random\nnames = []\nfor name in ('os', 'socket', 'numpy', 'importlib'):\n    \
                try:\n        exec(f'import {name}')\n    except ImportError as error:\n        \
                names.append(str(error))\nresult = names";
    let outcome = run(Request::new(code).policy(policy)).outcome;
    succeeded(&outcome);
    let refused: Vec<String> = ["os", "socket", "numpy", "importlib"]
        .map(|name| format!("Import of '{name}' is not allowed"))
        .into();
    assert_eq!(outcome.result, serde_json::json!(refused));
}

#[test]
fn contract_13_an_allowed_module_imports_what_it_needs() {
    let policy = rules(&["pandas"], &[], &[]);
    let code = "import pandas as pd\nresult = int(pd.DataFrame({'a': [1, 2]})['a'].sum())";
    let outcome = run(Request::new(code).policy(policy)).outcome;
    succeeded(&outcome);
    assert_eq!(outcome.result, 3);
}

#[test]
fn contract_13_parts_of_an_allowed_package() {
    let code = "import collections.abc\nfrom collections import abc, OrderedDict\nresult = 1";
    succeeded(&run(Request::new(code).policy(Policy::Strict)).outcome);
    let policy = rules(&["xml.etree"], &[], &[]);
    let code = "import xml.etree.ElementTree as tree\nresult = tree.fromstring('<a/>').tag";
    let outcome = run(Request::new(code).policy(policy)).outcome;
    succeeded(&outcome);
    assert_eq!(outcome.result, "a");
}

#[test]
fn contract_13_each_violation_has_its_line() {
    let code = "import math\n\n\nimport os, sys\nx = (1)\\\n    .__class__\n";
    let outcome = run(Request::new(code).policy(Policy::Strict)).outcome;
    let detail = outcome.error_detail.unwrap();
    let found: Vec<_> = detail.violations.iter().map(|v| (v.message.as_str(), v.line)).collect();
    assert_eq!(found[0], ("Forbidden import: os", Some(4)));
    assert_eq!(found[1], ("Forbidden import: sys", Some(4)));
    assert_eq!(found[2].0, "Forbidden attribute: __class__");
    assert_eq!(detail.line, Some(4));
}

#[test]
fn contract_13_a_check_finds_what_its_policy_forbids() {
    let found = |code: &str, policy: &Policy| {
        let report = runtime().blocking().check(code, policy).unwrap();
        report.violations.into_iter().map(|v| v.message).collect::<Vec<_>>()
    };
    let code = "import os\nexec('1')";
    let expected = ["Forbidden import: os", "Forbidden operation: exec"];
    assert_eq!(found(code, &Policy::Strict), expected);
    assert_eq!(found(code, &rules(&["os"], &["exec"], &[])), expected[1..]);
    assert!(found(code, &Policy::Open).is_empty());
    assert_eq!(found("import os import sys", &Policy::Open).len(), 1);
}

#[test]
fn contract_13_code_that_is_no_python_is_a_syntax_error() {
    let outcome = run(Request::new("import os import sys").policy(Policy::Strict)).outcome;
    failed(&outcome, ErrorKind::Syntax);
}

#[test]
fn contract_13_figures_and_frames_under_a_policy() {
    let policy = rules(&["pandas", "matplotlib"], &["open", "exec", "eval"], &[]);
    let code = "import pandas as pd\nimport matplotlib.pyplot as plt\n\
                frame = pd.DataFrame({'a': [1, 3]})\nframe.plot()\nplt.show()\nresult = frame";
    let outcome = run(Request::new(code).policy(policy)).outcome;
    succeeded(&outcome);
    assert_eq!(outcome.plots.len(), 1);
    assert_eq!(outcome.dataframes.len(), 2, "{:?}", outcome.dataframes);
    assert_eq!(outcome.result, serde_json::json!([{"a": 1}, {"a": 3}]));
}

//! Questions about an idle interpreter.

use std::collections::BTreeMap;

use serde::Serialize;

/// A question, as the runner is asked it.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(crate) enum Question {
    /// The value of a variable.
    Get { name: String },
    /// Sets the variables that are given: no question, since it changes something.
    Set,
    /// The values of expressions.
    Evaluate {
        expressions: BTreeMap<String, String>,
    },
    /// What the name at a place in code may become.
    Complete { code: String, cursor: usize },
    /// What is known of the name at a place in code.
    Inspect {
        code: String,
        cursor: usize,
        detail: bool,
    },
    /// Whether code is ready to be run.
    IsComplete { code: String },
}

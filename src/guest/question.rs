//! Queries of an idle interpreter.

use std::collections::BTreeMap;

use serde::Serialize;

/// A query for the runner.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(crate) enum Question {
    /// Returns the value of a variable.
    Get { name: String },
    /// Sets variables. It is the only query that changes the session.
    Set,
    /// Returns the values of expressions.
    Evaluate {
        expressions: BTreeMap<String, String>,
    },
    /// Returns completions of the name at a position in code.
    Complete { code: String, cursor: usize },
    /// Returns properties of the name at a position in code.
    Inspect {
        code: String,
        cursor: usize,
        detail: bool,
    },
    /// Returns whether code is ready to run.
    IsComplete { code: String },
}

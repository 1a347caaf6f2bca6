//! Converts tool names to unique Python identifiers.

use std::collections::BTreeSet;

/// Maximum length of an identifier, which leaves room for a numeric suffix.
const MAX_NAME: usize = 56;

/// The identifiers in use.
#[derive(Default)]
pub(super) struct Names(BTreeSet<String>);

impl Names {
    /// Returns an unused Python identifier similar to `name`.
    pub(super) fn give(&mut self, name: &str) -> String {
        let plain = identifier(name);
        let mut given = plain.clone();
        let mut number = 1;
        while !self.0.insert(given.clone()) {
            number += 1;
            given = format!("{plain}_{number}");
        }
        given
    }
}

fn identifier(name: &str) -> String {
    let word = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
    let mut plain: String = name.chars().map(word).take(MAX_NAME).collect();
    if !plain.starts_with(|c: char| c.is_ascii_alphabetic()) {
        plain.insert_str(0, "tool_");
        plain.truncate(MAX_NAME);
    }
    if !belljar::Tool::is_name(&plain) {
        plain.push('_');
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_becomes_one_of_python() {
        let mut names = Names::default();
        for (name, given) in [
            ("create_issue", "create_issue"),
            ("create-issue", "create_issue_2"),
            ("create.issue", "create_issue_3"),
            ("2fa", "tool_2fa"),
            ("", "tool_"),
            ("_x", "tool__x"),
            ("import", "import_"),
            ("ToolError", "ToolError_"),
            ("naïve'); import os #", "na_ve____import_os__"),
        ] {
            assert_eq!(names.give(name), given);
        }
    }

    #[test]
    fn whatever_is_given_can_be_a_tool() {
        proptest::proptest!(|(all in proptest::collection::vec(".{0,80}", 1..20))| {
            let mut names = Names::default();
            let mut given = BTreeSet::new();
            for name in &all {
                let name = names.give(name);
                assert!(belljar::Tool::is_name(&name), "{name}");
                assert!(given.insert(name));
            }
        });
    }
}

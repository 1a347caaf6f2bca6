//! Checks of tools and of the arguments of calls.

use serde_json::Value;

use super::Tool;
use crate::limits::{MAX_TOOL_DESCRIPTION, MAX_TOOL_NAME};

impl Tool {
    /// Whether `name` is valid for a tool or a group of tools: a word of at most 64 ASCII letters,
    /// digits and `_` that starts with a letter and is not reserved by Python.
    ///
    /// ```
    /// # use belljar::Tool;
    /// assert!(Tool::is_name("price") && !Tool::is_name("class"));
    /// ```
    pub fn is_name(name: &str) -> bool {
        name.starts_with(|c: char| c.is_ascii_alphabetic())
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
            && name.len() <= MAX_TOOL_NAME
            && !RESERVED.contains(&name)
    }

    /// Returns why the tool is invalid, if it is.
    pub(crate) fn problem(&self) -> Option<String> {
        let name = &self.0.name;
        let (group, own) = match name.split_once('.') {
            Some((group, own)) => (Some(group), own),
            None => (None, name.as_str()),
        };
        if !Self::is_name(own) || !group.is_none_or(Self::is_name) {
            return Some(format!("{name:?} is not a name that a tool can have"));
        }
        if self.0.description.len() > MAX_TOOL_DESCRIPTION {
            return Some(format!("the description of {name} is too long"));
        }
        let error = self.0.checker.as_ref().err()?;
        Some(format!("the schema of {name} is none for arguments: {error}"))
    }

    /// Checks arguments against the schema. Returns the first mistake.
    pub(crate) fn check(&self, arguments: &Value) -> Result<(), String> {
        let checker = self.0.checker.as_ref().map_err(Clone::clone)?;
        checker(arguments)
    }
}

/// Names of the module `tools` itself, and keywords of Python.
const RESERVED: &[&str] = &[
    "ToolError",
    "and",
    "as",
    "assert",
    "async",
    "await",
    "break",
    "class",
    "continue",
    "def",
    "del",
    "elif",
    "else",
    "except",
    "finally",
    "for",
    "from",
    "global",
    "if",
    "import",
    "in",
    "is",
    "lambda",
    "nonlocal",
    "not",
    "or",
    "pass",
    "raise",
    "return",
    "try",
    "while",
    "with",
    "yield",
    "False",
    "None",
    "True",
];

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn tool(name: &str, schema: Value) -> Tool {
        Tool::new(name, schema, async |arguments: Value| Ok(arguments))
    }

    #[test]
    fn names_and_schemas_that_are_none_are_told() {
        let any = json!({"type": "object"});
        let long = "x".repeat(65);
        for name in
            ["", "_x", "1x", "a b", "é", "class", "ToolError", "a.b.c", ".a", "a.", "in.a", &long]
        {
            assert!(tool(name, any.clone()).problem().is_some(), "{name:?}");
        }
        assert_eq!(tool("price_2", any.clone()).problem(), None);
        assert_eq!(tool("shop.price_2", any).problem(), None);
        assert!(tool("x", json!({"type": "array"})).problem().is_some());
    }
}

//! Checks of tools and of the arguments of calls.

use std::sync::Arc;

use jsonschema::{PatternOptions, Validator};
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
        checker.validate(arguments).map_err(|error| {
            let place = error.instance_path().as_str();
            let text = error.masked_with("the value").to_string();
            match place.strip_prefix('/') {
                Some(place) => format!("{place}: {text}"),
                None => text,
            }
        })
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

pub(super) fn checker(schema: &Value) -> Result<Arc<Validator>, String> {
    let about_objects = match schema.get("type") {
        None => schema.is_object(),
        Some(kind) => kind == "object",
    };
    if !about_objects {
        return Err("it has to be of type object".into());
    }
    jsonschema::options()
        // Matches in linear time, because the text is untrusted.
        .with_pattern_options(PatternOptions::regex())
        .build(schema)
        .map(Arc::new)
        .map_err(|error| error.to_string())
}

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
        for schema in [
            json!(true),
            json!({"type": "array"}),
            json!({"type": "object", "properties": {"a": {"type": "no such type"}}}),
            json!({"properties": {"a": {"pattern": "("}}}),
            json!({"properties": {"a": {"pattern": "(a)\\1"}}}),
            json!({"$ref": "http://localhost/schema.json"}),
            json!({"$ref": "file:///etc/passwd"}),
        ] {
            assert!(tool("x", schema.clone()).problem().is_some(), "{schema}");
        }
    }

    #[test]
    fn what_is_wrong_with_arguments_is_said_where_and_without_repeating_them() {
        let tool = tool(
            "x",
            json!({"properties": {"a": {"type": "array", "items": {"type": "integer"}}},
                "required": ["a"], "additionalProperties": false}),
        );
        assert_eq!(tool.check(&json!({"a": [1, 2]})), Ok(()));
        let error = tool.check(&json!({"a": [1, "secret"]})).unwrap_err();
        assert!(error.starts_with("a/1: ") && !error.contains("secret"), "{error}");
        assert!(tool.check(&json!({})).unwrap_err().contains("\"a\""));
        assert!(tool.check(&json!({"a": [], "b": 1})).unwrap_err().contains("'b'"));
    }
}

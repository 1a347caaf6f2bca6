//! Tools as Python functions: valid identifiers, and schemas that can be checked.

use std::collections::HashSet;

use belljar::Tool;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// A tool of the client.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct AskedTool {
    pub name: String,
    #[serde(default)]
    pub description: Option<String>,
    #[serde(default)]
    pub parameters: Option<Value>,
}

/// A tool with all its names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Named {
    /// The client's name, which may be any text.
    pub original: String,
    /// The engine's name.
    pub tool: String,
    /// The name in Python code.
    pub identifier: String,
}

/// Converts a name to a Python identifier by the protocol's rule, which clients use in their
/// prompts.
pub(super) fn identifier(name: &str) -> String {
    let spaced = name.chars().map(|c| {
        if c == '-' || c.is_whitespace() {
            '_'
        } else {
            c
        }
    });
    let mut word: String = spaced.filter(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
    if word.starts_with(|c: char| c.is_ascii_digit()) {
        word.insert(0, '_');
    }
    if KEYWORDS.contains(&word.as_str()) {
        word.push_str("_tool");
    }
    word
}

const KEYWORDS: [&str; 35] = [
    "False", "None", "True", "and", "as", "assert", "async", "await", "break", "class", "continue",
    "def", "del", "elif", "else", "except", "finally", "for", "from", "global", "if", "import",
    "in", "is", "lambda", "nonlocal", "not", "or", "pass", "raise", "return", "try", "while",
    "with", "yield",
];

/// The names of all tools, or the first error.
pub(super) fn names(tools: &[AskedTool]) -> Result<Vec<Named>, String> {
    let mut taken = HashSet::new();
    tools
        .iter()
        .map(|AskedTool { name, .. }| {
            let identifier = identifier(name);
            if identifier.is_empty() {
                return Err(format!("the tool {name:?} has no name that is valid in Python"));
            }
            if !taken.insert(identifier.clone()) {
                return Err(format!(
                    "two tools have the name {identifier} in Python; the second is {name:?}"
                ));
            }
            // Names in the engine begin with a letter.
            let tool = match identifier.as_str() {
                "ToolError" => "tool_ToolError".to_owned(),
                word if word.starts_with('_') => format!("tool{word}"),
                word => word.to_owned(),
            };
            if !Tool::is_name(&tool) {
                return Err(format!("{identifier} is not a valid tool name"));
            }
            Ok(Named {
                original: name.clone(),
                tool,
                identifier,
            })
        })
        .collect()
}

/// The tools as deferred tools, answered by the client.
pub(super) fn deferred(tools: &[AskedTool], names: &[Named]) -> Vec<Tool> {
    let pairs = tools.iter().zip(names);
    pairs
        .map(|(asked, named)| {
            Tool::deferred(&named.tool, schema(asked.parameters.as_ref()))
                .description(asked.description.clone().unwrap_or_default())
        })
        .collect()
}

/// Placeholders of the same names for the setup code, which calls no tool.
pub(super) fn present(tools: &[AskedTool], names: &[Named]) -> Vec<Tool> {
    let pairs = tools.iter().zip(names);
    pairs
        .map(|(asked, named)| {
            Tool::new(&named.tool, schema(asked.parameters.as_ref()), async |_: Value| {
                Ok(Value::Null)
            })
            .description(asked.description.clone().unwrap_or_default())
        })
        .collect()
}

/// Setup code that defines the tools under their names, the imports of the protocol's own preamble,
/// and libraries that its examples use without importing them.
pub(super) fn preamble(names: &[Named], code: &str) -> String {
    let imports = names.iter().map(|named| match named {
        Named {
            tool, identifier, ..
        } if tool == identifier => tool.clone(),
        Named {
            tool, identifier, ..
        } => format!("{tool} as {identifier}"),
    });
    let imports: Vec<String> = imports.chain(["ToolError as ToolExecutionError".into()]).collect();
    let mut preamble = format!(
        "import asyncio, json, os, sys\nfrom typing import Any, Dict, List, Optional, Union\n\
         from tools import {}\n",
        imports.join(", ")
    );
    for (name, import) in [("pd", "import pandas as pd\n"), ("np", "import numpy as np\n")] {
        if uses(code, name) {
            preamble.push_str(import);
        }
    }
    preamble
}

/// Whether a program uses attributes of this name.
fn uses(code: &str, name: &str) -> bool {
    code.match_indices(name).any(|(at, _)| {
        let before = code[..at].chars().next_back();
        let is_whole = !before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == '.');
        is_whole && code[at + name.len()..].starts_with('.')
    })
}

/// The part of a schema that is checked here: names of parameters, required parameters and simple
/// types. Schemas are untrusted, and the client's tool validates its arguments anyway.
fn schema(given: Option<&Value>) -> Value {
    let properties = given.and_then(|schema| schema["properties"].as_object());
    let properties: Map<String, Value> = properties
        .into_iter()
        .flatten()
        .map(|(name, property)| {
            let mut kept = Map::new();
            let kind = match property["type"].as_str() {
                Some("float") => Some("number"),
                known @ Some("string" | "integer" | "number" | "boolean" | "array" | "object") => {
                    known
                }
                _ => None,
            };
            if let Some(kind) = kind {
                kept.insert("type".into(), kind.into());
            }
            if let Some(text) = property["description"].as_str() {
                kept.insert("description".into(), text.into());
            }
            (name.clone(), kept.into())
        })
        .collect();
    let required = given.and_then(|schema| schema["required"].as_array());
    let required: Vec<&Value> = required
        .into_iter()
        .flatten()
        .filter(|name| name.as_str().is_some_and(|name| properties.contains_key(name)))
        .collect();
    json!({"type": "object", "properties": properties, "required": required})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(name: &str) -> AskedTool {
        AskedTool {
            name: name.into(),
            description: None,
            parameters: None,
        }
    }

    #[test]
    fn names_become_words_of_python() {
        for (name, word) in [
            ("get_weather", "get_weather"),
            ("get-weather now", "get_weather_now"),
            ("2nd.try", "_2ndtry"),
            ("class", "class_tool"),
            ("π", ""),
        ] {
            assert_eq!(identifier(name), word, "{name}");
        }
    }

    #[test]
    fn a_name_that_no_tool_can_have_is_told() {
        let told = names(&[asked(&"x".repeat(100))]).unwrap_err();
        assert!(told.contains("not a valid tool name"), "{told}");
    }

    proptest::proptest! {
        #[test]
        fn a_name_is_a_word_or_nothing(name: String, code: String) {
            let word = identifier(&name);
            let is_word = word.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
            assert!(is_word && !word.starts_with(|c: char| c.is_ascii_digit()), "{word:?}");
            assert!(!KEYWORDS.contains(&word.as_str()));
            uses(&code, "pd");
        }
    }

    #[test]
    fn tools_that_code_could_not_tell_apart_are_refused() {
        assert!(names(&[asked("a-b"), asked("a_b")]).unwrap_err().contains("a_b"));
        assert!(names(&[asked("π")]).is_err());
        let names = names(&[asked("2x"), asked("ToolError"), asked("ok")]).unwrap();
        let last = "from tools import tool_2x as _2x, tool_ToolError as ToolError, ok, \
                    ToolError as ToolExecutionError";
        assert_eq!(preamble(&names, "").lines().last(), Some(last));
        assert!(preamble(&names, "x = pd.DataFrame()").ends_with("import pandas as pd\n"));
        assert!(!preamble(&names, "apd.x, a.pd.x, pd").contains("pandas"));
    }

    #[test]
    fn of_a_schema_is_kept_what_can_be_checked() {
        let given = json!({
            "type": "object",
            "properties": {
                "x": {"type": "float", "description": "a number", "minimum": 1},
                "y": {"type": "no such type"},
                "z": true,
                "s": {"type": "string", "pattern": "("},
            },
            "required": ["x", "gone", 3],
            "$ref": "http://localhost/",
        });
        assert_eq!(
            schema(Some(&given)),
            json!({
                "type": "object",
                "properties": {
                    "x": {"type": "number", "description": "a number"},
                    "y": {},
                    "z": {},
                    "s": {"type": "string"},
                },
                "required": ["x"],
            })
        );
        for none in [json!(null), json!([]), json!({"properties": 3}), json!("x")] {
            assert_eq!(schema(Some(&none))["properties"], json!({}));
        }
    }
}

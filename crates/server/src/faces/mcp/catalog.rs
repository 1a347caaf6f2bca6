//! The list of tools.

use std::sync::Arc;

use rmcp::model::{Tool, ToolAnnotations};
use serde_json::{Map, Value, json};

/// The tools in a fixed order. `about` describes packages, limits and functions in `run_python`.
/// `calls_others` means that code can reach other servers, and so the outside world.
pub(super) fn tools(about: &str, calls_others: bool) -> Vec<Tool> {
    let session = json!({"type": "string", "description": "The id of the session."});
    vec![
        tool(
            "run_python",
            "Run Python",
            &format!(
                "Run Python code in a sandbox and return its output, the value of its last expression, \
                 figures and files. Without session_id every call starts fresh; with it variables and files \
                 stay from call to call.\n{about}"
            ),
            json!({
                "code": {"type": "string", "description": "Python source. The value of the last expression is printed, as in a notebook."},
                "session_id": {"type": "string", "description": "The session to run in, from create_session. Omit it for an independent run."},
                "files": {
                    "type": "array",
                    "description": "Files to place in the working directory before the code runs.",
                    "items": {
                        "type": "object",
                        "properties": {
                            "path": {"type": "string", "description": "Path relative to the working directory."},
                            "text": {"type": "string", "description": "Content as text."},
                            "base64": {"type": "string", "description": "Content as base64, instead of text."},
                            "uri": {"type": "string", "description": "A belljar:// file of an earlier run, instead of text."},
                        },
                        "required": ["path"],
                        "additionalProperties": false,
                    },
                },
                "timeout": {"type": "number", "description": "Time limit in seconds."},
                "result_var": {"type": "string", "description": "Variable whose value to return as JSON; by default the variable named result."},
            }),
            &["code"],
            hints(false, calls_others, false).open_world(calls_others),
            run_output(),
        ),
        tool(
            "create_session",
            "Create a session",
            "Start a Python session, whose variables, imports and files persist from one run_python to the next. \
             Returns its session_id.",
            json!({
                "image": {"type": "string", "description": "Preimported packages: core (standard library), data (numpy, pandas, matplotlib; the default) or science (also scipy, sklearn, statsmodels, sympy)."},
            }),
            &[],
            hints(false, false, false),
            outputs(&["session_id", "image"], &json!({})),
        ),
        tool(
            "fork_session",
            "Fork a session",
            "Copy a session with its variables and files, to try something without changing it. Returns the \
             session_id of the copy.",
            json!({"session_id": session}),
            &["session_id"],
            hints(false, false, false),
            outputs(&["session_id", "forked_from"], &json!({})),
        ),
        tool(
            "rewind_session",
            "Rewind a session",
            "Return a session to its state after one of its runs. Later runs are discarded.",
            json!({
                "session_id": session,
                "to": {"type": "integer", "minimum": 0, "description": "The number of the run, from 1; 0 is the start. run_python returns it as execution."},
            }),
            &["session_id", "to"],
            hints(false, true, true),
            outputs(
                &["session_id"],
                &json!({"execution": {"type": "integer", "description": "The number of the run."}}),
            ),
        ),
        tool(
            "list_sessions",
            "List sessions",
            "List the existing sessions, oldest first.",
            json!({}),
            &[],
            hints(true, false, true),
            outputs(
                &[],
                &json!({"sessions": {"type": "array", "description": "The sessions.", "items":
                    Value::Object(outputs(&["session_id", "image", "status"], &json!({})))}}),
            ),
        ),
        tool(
            "delete_session",
            "Delete a session",
            "End a session and delete its files.",
            json!({"session_id": session}),
            &["session_id"],
            hints(false, true, true),
            outputs(&["session_id"], &json!({})),
        ),
        tool(
            "write_file",
            "Write a file",
            "Write a file into the working directory of a session.",
            json!({
                "session_id": session,
                "path": {"type": "string", "description": "Path relative to the working directory. An existing file is replaced."},
                "text": {"type": "string", "description": "Content as text."},
                "base64": {"type": "string", "description": "Content as base64, instead of text."},
            }),
            &["session_id", "path"],
            hints(false, true, true),
            outputs(
                &["path", "uri"],
                &json!({"size": {"type": "integer", "description": "Number of bytes written."}}),
            ),
        ),
    ]
}

fn tool(
    name: &'static str,
    title: &'static str,
    description: &str,
    properties: Value,
    required: &[&str],
    annotations: ToolAnnotations,
    output: Map<String, Value>,
) -> Tool {
    let mut schema = object(properties, required);
    schema.insert("additionalProperties".into(), false.into());
    let mut annotations = annotations;
    annotations.title = Some(title.into());
    Tool::new(name, description.trim_end().to_owned(), Arc::new(schema))
        .with_title(title)
        .with_annotations(annotations)
        .with_raw_output_schema(Arc::new(output))
}

fn object(properties: Value, required: &[&str]) -> Map<String, Value> {
    let entries = [
        ("type".to_owned(), Value::from("object")),
        ("properties".to_owned(), properties),
        ("required".to_owned(), json!(required)),
    ];
    Map::from_iter(entries)
}

/// Common structured content of a tool: the text fields `texts`, and `others`.
fn outputs(texts: &[&str], others: &Value) -> Map<String, Value> {
    let mut properties = Map::new();
    for &name in texts {
        let about = match name {
            "session_id" => "The id of the session.",
            "forked_from" => "The id of the copied session.",
            "image" => "The image of the session.",
            "status" => "Its status.",
            "path" => "The path relative to the working directory.",
            _ => "The file's URI.",
        };
        properties.insert(name.to_owned(), json!({"type": "string", "description": about}));
    }
    properties.extend(others.as_object().cloned().unwrap_or_default());
    let required: Vec<String> = properties.keys().cloned().collect();
    let required: Vec<&str> = required.iter().map(String::as_str).collect();
    object(Value::Object(properties), &required)
}

/// Stable fields of a run's structured content; the outcome has more.
fn run_output() -> Map<String, Value> {
    let text = |about: &str| json!({"type": "string", "description": about});
    let file =
        object(json!({"path": text("Its path."), "size": {"type": "integer"}}), &["path", "size"]);
    let files = |about: &str| json!({"type": "array", "description": about, "items": file});
    let frame =
        object(json!({"name": text("The variable."), "repr": text("Its text.")}), &["name"]);
    object(
        json!({
            "success": {"type": "boolean", "description": "Whether the code ran to completion."},
            "result": {"description": "The value of the requested variable as JSON."},
            "stdout": text("Standard output."),
            "stderr": text("Standard error."),
            "files": files("The written files."),
            "plots": files("The figures among them."),
            "dataframes": {"type": "array", "description": "The tables.", "items": frame},
            "error": {"type": ["string", "null"], "description": "The error in one line."},
        }),
        &["success", "result", "stdout", "stderr", "files", "plots", "dataframes", "error"],
    )
}

fn hints(reads_only: bool, is_destructive: bool, is_idempotent: bool) -> ToolAnnotations {
    ToolAnnotations::new()
        .read_only(reads_only)
        .destructive(is_destructive)
        .idempotent(is_idempotent)
        .open_world(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rejects what strict clients reject: schemas that accept anything, type unions, number
    /// formats unknown to JSON, and parameters without descriptions.
    fn check(place: &str, schema: &Value) {
        let Value::Object(map) = schema else {
            panic!("{place}: {schema}");
        };
        assert!(map.get("type").is_some_and(Value::is_string), "{place}: {schema}");
        for key in map.keys() {
            let known = [
                "type",
                "description",
                "properties",
                "required",
                "items",
                "minimum",
                "additionalProperties",
            ];
            assert!(known.contains(&key.as_str()), "{place}: {key}");
        }
        for (name, one) in map.get("properties").and_then(Value::as_object).into_iter().flatten() {
            assert!(one["description"].as_str().is_some_and(|text| text.ends_with('.')), "{name}");
            check(name, one);
        }
        if let Some(items) = map.get("items") {
            check(place, items);
        }
    }

    #[test]
    fn schemas_are_such_as_strict_clients_take() {
        for tool in tools("", false) {
            check(&tool.name, &Value::Object((*tool.input_schema).clone()));
            let hints = tool.annotations.unwrap();
            assert_eq!(hints.open_world_hint, Some(false), "{}", tool.name);
        }
    }

    #[test]
    fn every_tool_that_is_listed_can_be_called() {
        use crate::faces::mcp::arguments::{Call, Wrong};
        for tool in tools("", false) {
            let called = Call::of(&tool.name, None);
            assert!(!matches!(called, Err(Wrong::Tool)), "{}", tool.name);
        }
    }

    #[test]
    fn code_that_calls_other_servers_may_do_anything() {
        let hints = tools("", true)[0].annotations.clone().unwrap();
        assert_eq!((hints.open_world_hint, hints.destructive_hint), (Some(true), Some(true)));
    }
}

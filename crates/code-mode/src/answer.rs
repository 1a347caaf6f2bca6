//! Converts a server's answer to a value for the code.

use belljar::tool::ToolError;
use rmcp::model::{CallToolResult, ContentBlock, ResourceContents};
use serde_json::{Map, Value, json};

use belljar_text::lines_of;

/// Maximum length of an error text, in characters.
const MAX_ERROR: usize = 10_000;

/// Returns the value of a result: the structured content if present, otherwise the text, or a list
/// if there are several pieces of content. With `is_wrapped`, the value is under the key `result`.
pub(super) fn value_of(result: CallToolResult, is_wrapped: bool) -> Result<Value, ToolError> {
    if result.is_error == Some(true) {
        return Err(ToolError::message(error_of(&result.content)));
    }
    if let Some(structured) = result.structured_content {
        return Ok(match structured {
            Value::Object(mut map)
                if is_wrapped && map.len() == 1 && map.contains_key("result") =>
            {
                map.remove("result").unwrap_or_default()
            }
            other => other,
        });
    }
    let mut pieces: Vec<Value> = result.content.into_iter().map(piece).collect();
    Ok(match pieces.len() {
        0 => Value::Null,
        1 => pieces.remove(0),
        _ => Value::Array(pieces),
    })
}

fn piece(block: ContentBlock) -> Value {
    match block {
        ContentBlock::Text(text) => Value::String(text.text),
        ContentBlock::Resource(embedded) => match embedded.resource {
            ResourceContents::TextResourceContents { text, .. } => Value::String(text),
            other => plain(&other),
        },
        other => plain(&other),
    }
}

/// Content as JSON, without metadata and annotations.
fn plain(block: &impl serde::Serialize) -> Value {
    let mut value = serde_json::to_value(block).unwrap_or_default();
    if let Some(map) = value.as_object_mut() {
        map.retain(|key, value| key != "_meta" && key != "annotations" && !value.is_null());
    }
    value
}

fn error_of(content: &[ContentBlock]) -> String {
    let texts: Vec<&str> = content
        .iter()
        .filter_map(|block| match block {
            ContentBlock::Text(text) => Some(text.text.as_str()),
            _ => None,
        })
        .collect();
    let text = lines_of(&texts.join("\n"), MAX_ERROR);
    if text.is_empty() {
        "the tool failed without an error message".to_owned()
    } else {
        text
    }
}

/// The arguments of a call. Null values of optional parameters are omitted unless the schema allows
/// null.
pub(super) fn arguments_of(arguments: Value) -> Map<String, Value> {
    match arguments {
        Value::Object(map) => map,
        other => Map::from_iter([("value".to_owned(), json!(other))]),
    }
}

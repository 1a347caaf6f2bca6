//! Deferred tools: declared without a function and answered later. All types have a JSON form.

use std::collections::BTreeMap;

use belljar_value::Value as Typed;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Value, json};

use super::Tool;

/// A tool without a function, as declared in JSON. `Tool::from` converts it to a tool.
///
/// ```
/// use belljar::Tool;
/// use belljar::tool::DeferredTool;
///
/// let text = r#"{"name": "approve", "description": "Asks a person.",
///     "schema": {"type": "object", "properties": {"amount": {"type": "integer"}}}}"#;
/// let tool = Tool::from(serde_json::from_str::<DeferredTool>(text)?);
/// assert!(tool.is_deferred());
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct DeferredTool {
    /// Name of the tool: a word of ASCII letters, digits and `_` that starts with a letter.
    pub name: String,
    /// Description of the tool, for `help(tools.NAME)`.
    #[serde(default)]
    pub description: String,
    /// JSON Schema of the arguments, an object. Its properties are the parameters. Default: any
    /// object.
    #[serde(default = "any_object")]
    pub schema: Value,
    /// Whether the tool takes and returns typed values, in the tagged form of
    /// `docs/reference/values.md`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub typed: bool,
}

fn any_object() -> Value {
    json!({"type": "object"})
}

impl From<DeferredTool> for Tool {
    fn from(tool: DeferredTool) -> Self {
        let typed = tool.typed;
        Self::deferred(tool.name, tool.schema).description(tool.description).with_values(typed)
    }
}

/// Keeps everything except the function.
impl From<&Tool> for DeferredTool {
    fn from(tool: &Tool) -> Self {
        Self {
            name: tool.name().to_owned(),
            description: tool.describe().to_owned(),
            schema: tool.schema().clone(),
            typed: tool.takes_values(),
        }
    }
}

/// An unanswered call of a deferred tool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct WaitingCall {
    /// Number of the call in the run.
    pub id: u64,
    /// Name of the tool.
    pub name: String,
    /// All arguments of the call. Typed values are in their tagged form.
    pub arguments: Value,
    /// Whether the tool takes and returns typed values.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub typed: bool,
}

impl WaitingCall {
    /// Returns the arguments as values, also for a tool without typed values; `None` if they are
    /// not valid typed values.
    pub fn values(&self) -> Option<BTreeMap<String, Typed>> {
        super::arguments_of(self.arguments.clone()).ok()
    }
}

/// The answer to a deferred tool call. In JSON `{"id": 2, "answer": VALUE}`, or `{"id": 2, "error":
/// MESSAGE}` for a failed call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "AnswerForm", into = "AnswerForm")]
#[non_exhaustive]
pub struct ToolAnswer {
    /// Number of the answered call, as in the outcome's `tool_calls`.
    pub id: u64,
    /// The answer, with typed values in their tagged form; or the error message to raise in the
    /// code.
    pub answer: Result<Value, String>,
}

impl ToolAnswer {
    /// Answers the call `id` with `value`.
    pub fn new(id: u64, value: impl Into<Value>) -> Self {
        Self {
            id,
            answer: Ok(value.into()),
        }
    }

    /// Answers the call `id` of a tool with typed values.
    ///
    /// ```
    /// use belljar::tool::ToolAnswer;
    /// use belljar::value::Value;
    ///
    /// let answer = ToolAnswer::value(1, &Value::Tuple(vec![1.into(), 2.5.into()]));
    /// assert_eq!(answer.answer.unwrap()["$"], "tuple");
    /// ```
    pub fn value(id: u64, value: &Typed) -> Self {
        let answer = serde_json::to_value(value).map_err(|error| error.to_string());
        Self { id, answer }
    }

    /// Fails the call `id` with `message`.
    pub fn failed(id: u64, message: impl Into<String>) -> Self {
        Self {
            id,
            answer: Err(message.into()),
        }
    }
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename = "ToolAnswer")]
struct AnswerForm {
    /// Number of the answered call.
    id: u64,
    /// The answer. Typed values are in their tagged form.
    #[serde(
        default,
        deserialize_with = "present",
        skip_serializing_if = "Option::is_none"
    )]
    answer: Option<Value>,
    /// Instead of an answer: the error message to raise in the code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

/// Keeps an explicit null as a value.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

impl TryFrom<AnswerForm> for ToolAnswer {
    type Error = &'static str;

    fn try_from(form: AnswerForm) -> Result<Self, Self::Error> {
        let answer = match (form.answer, form.error) {
            (Some(answer), None) => Ok(answer),
            (None, Some(error)) => Err(error),
            _ => return Err("a call is answered with either `answer` or `error`"),
        };
        let id = form.id;
        Ok(Self { id, answer })
    }
}

impl From<ToolAnswer> for AnswerForm {
    fn from(ToolAnswer { id, answer }: ToolAnswer) -> Self {
        let (answer, error) = match answer {
            Ok(answer) => (Some(answer), None),
            Err(error) => (None, Some(error)),
        };
        Self { id, answer, error }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_one_thing_or_the_other() {
        let read = |text: &str| serde_json::from_str::<ToolAnswer>(text);
        for (text, expected) in [
            (r#"{"id":2,"answer":{"a":[1]}}"#, ToolAnswer::new(2, json!({"a": [1]}))),
            (r#"{"id":2,"answer":null}"#, ToolAnswer::new(2, Value::Null)),
            (r#"{"id":3,"error":"no"}"#, ToolAnswer::failed(3, "no")),
        ] {
            assert_eq!(read(text).unwrap(), expected);
            assert_eq!(serde_json::to_string(&expected).unwrap(), text);
        }
        for text in [
            r#"{"id":2}"#,
            r#"{"id":2,"answer":1,"error":"no"}"#,
            r#"{"id":2,"error":null}"#,
            r#"{"answer":1}"#,
            r#"{"id":2,"answer":1,"ok":true}"#,
        ] {
            assert!(read(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_tool_is_declared_in_json() {
        let declared: DeferredTool = serde_json::from_str(r#"{"name": "a"}"#).unwrap();
        let tool = Tool::from(declared.clone());
        assert_eq!((tool.schema(), tool.takes_values()), (&json!({"type": "object"}), false));
        assert_eq!(DeferredTool::from(&tool), declared);
        let typed = DeferredTool {
            typed: true,
            ..declared
        };
        assert!(Tool::from(typed).takes_values());
    }
}

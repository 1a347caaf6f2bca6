//! Tools without a function: declared, waited for, answered later. All of it has a form in JSON.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Value, json};

use super::Tool;
use crate::value::Value as Typed;

/// A tool without a function, as JSON declares it: `Tool::from` makes the tool of it.
///
/// ```
/// use belljar::{DeferredTool, Tool};
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
    /// Its name: a word of ASCII letters, digits and `_` that begins with a letter.
    pub name: String,
    /// What it does, for the code's `help(tools.NAME)`.
    #[serde(default)]
    pub description: String,
    /// The JSON Schema of its arguments, an object; its properties are the parameters. Default: any
    /// object.
    #[serde(default = "any_object")]
    pub schema: Value,
    /// It takes and gives typed values, in the tagged form of `docs/reference/values.md`.
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

/// What is left of a tool without its function.
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

/// A call of a deferred tool that nobody has answered yet.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct WaitingCall {
    /// Which of the run's calls it is.
    pub id: u64,
    /// The tool.
    pub name: String,
    /// The arguments, all of them; of a tool with typed values in their tagged form.
    pub arguments: Value,
    /// The tool takes and gives typed values.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub typed: bool,
}

impl WaitingCall {
    /// The arguments as values, which those of a tool without typed values are too; `None` when they
    /// are none.
    pub fn values(&self) -> Option<BTreeMap<String, Typed>> {
        super::arguments_of(self.arguments.clone()).ok()
    }
}

/// An answer to a call of a deferred tool. In JSON `{"id": 2, "answer": VALUE}`, or `{"id": 2, "error":
/// MESSAGE}` for a call that failed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "AnswerForm", into = "AnswerForm")]
#[non_exhaustive]
pub struct ToolAnswer {
    /// Which of the run's calls it answers, as the outcome's `tool_calls` numbers them.
    pub id: u64,
    /// The answer, to a tool with typed values in their tagged form; or why there is none, which the
    /// code is told.
    pub answer: Result<Value, String>,
}

impl ToolAnswer {
    /// The call `id` is answered with this.
    pub fn new(id: u64, value: impl Into<Value>) -> Self {
        Self {
            id,
            answer: Ok(value.into()),
        }
    }

    /// The call `id` of a tool with typed values is answered with this.
    ///
    /// ```
    /// use belljar::ToolAnswer;
    /// use belljar::value::Value;
    ///
    /// let answer = ToolAnswer::value(1, &Value::Tuple(vec![1.into(), 2.5.into()]));
    /// assert_eq!(answer.answer.unwrap()["$"], "tuple");
    /// ```
    pub fn value(id: u64, value: &Typed) -> Self {
        let answer = serde_json::to_value(value).map_err(|error| error.to_string());
        Self { id, answer }
    }

    /// The call `id` has failed, for this reason.
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
    /// Which of the run's calls it answers.
    id: u64,
    /// The answer; of a tool with typed values in their tagged form.
    #[serde(
        default,
        deserialize_with = "present",
        skip_serializing_if = "Option::is_none"
    )]
    answer: Option<Value>,
    /// In place of the answer: the call failed, and this is what the code is told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

/// What is there, null included.
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

//! Tools: functions of the caller that the code can call.

use std::collections::BTreeMap;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use jsonschema::{PatternOptions, Validator};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::api::outcome::ToolErrorKind;
use crate::api::setters::setters;
use crate::limits::{MAX_TOOL_DESCRIPTION, MAX_TOOL_NAME};
use crate::value::Value as Typed;

/// A function of the caller that the code can call: `tools.NAME(...)` after `import tools`.
///
/// Its arguments are one JSON object, checked against a JSON Schema before the function runs. The
/// function runs on the caller's side, as part of the future of the run: with that it is dropped.
///
/// ```
/// use belljar::{Request, Tool, ToolError};
/// use serde_json::json;
///
/// #[derive(serde::Deserialize)]
/// struct Asked {
///     symbol: String,
/// }
///
/// let schema = json!({
///     "type": "object",
///     "properties": {"symbol": {"type": "string", "description": "such as ACME"}},
///     "required": ["symbol"],
/// });
/// let price = Tool::new("price", schema, async |asked: Asked| match asked.symbol.as_str() {
///     "ACME" => Ok(42.5),
///     other => Err(ToolError::message(format!("there is no {other}"))),
/// })
/// .description("The latest price of a share.");
/// let request = Request::new("import tools\nprint(tools.price('ACME'))").tool(price);
/// ```
#[derive(Clone)]
pub struct Tool(Arc<Inner>);

#[derive(Clone)]
struct Inner {
    name: String,
    description: String,
    schema: Value,
    timeout: Option<Duration>,
    checker: Result<Arc<Validator>, String>,
    function: Option<Arc<Function>>,
    /// Its arguments and its answer are typed values, written here in their tagged form.
    takes_values: bool,
}

type Function = dyn Fn(Value) -> Answering + Send + Sync;

/// A call that is being answered.
pub(crate) type Answering = Pin<Box<dyn Future<Output = Result<Value, ToolError>> + Send>>;

impl Tool {
    /// A tool that is answered by `function`. It is given the arguments as whatever it takes: a
    /// type of the caller's, or `serde_json::Value`.
    ///
    /// `schema` is a JSON Schema of the arguments, which are an object; its properties, in their
    /// order, are the parameters that the code sees. A name is a word of ASCII letters, digits and
    /// `_` that begins with a letter. A request with a tool whose name or schema is none is refused.
    pub fn new<A, R, F, Fut>(name: impl Into<String>, schema: Value, function: F) -> Self
    where
        A: DeserializeOwned,
        R: Serialize,
        F: Fn(A) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<R, ToolError>> + Send + 'static,
    {
        let function = Arc::new(function);
        let function = move |arguments: Value| -> Answering {
            let function = Arc::clone(&function);
            Box::pin(async move {
                let asked = serde_json::from_value(arguments)
                    .map_err(|e| ToolError::of(ToolErrorKind::InvalidArguments, e.to_string()))?;
                let answer = function(asked).await?;
                Ok(serde_json::to_value(answer)?)
            })
        };
        Self::of(name.into(), schema, Some(Arc::new(function)))
    }

    /// A tool whose parameters are the fields of `A`, described by their documentation.
    pub fn typed<A, R, F, Fut>(name: impl Into<String>, function: F) -> Self
    where
        A: DeserializeOwned + JsonSchema,
        R: Serialize,
        F: Fn(A) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<R, ToolError>> + Send + 'static,
    {
        Self::new(name, schemars::schema_for!(A).to_value(), function)
    }

    /// A tool that takes and gives [typed values](crate::value::Value): numpy arrays, tables, dates,
    /// tuples and integers of any size arrive as themselves, both ways.
    ///
    /// `schema` names the parameters, as in [`new`](Self::new). It is checked against the
    /// arguments in their tagged form, in which plain values stand for themselves: leave the type
    /// of any other open.
    ///
    /// ```
    /// use belljar::value::Value;
    /// use belljar::{Tool, ToolError};
    /// use serde_json::json;
    ///
    /// let schema = json!({"type": "object", "properties": {"values": {}}, "required": ["values"]});
    /// let pair = Tool::values("pair", schema, async |mut arguments| {
    ///     let values = arguments.remove("values").unwrap_or_default();
    ///     Ok(Value::Tuple(vec![values, Value::None]))
    /// });
    /// ```
    pub fn values<F, Fut>(name: impl Into<String>, schema: Value, function: F) -> Self
    where
        F: Fn(BTreeMap<String, Typed>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Typed, ToolError>> + Send + 'static,
    {
        let function = Arc::new(function);
        let function = move |arguments: Value| -> Answering {
            let function = Arc::clone(&function);
            Box::pin(async move {
                let answer = function(arguments_of(arguments)?).await?;
                Ok(serde_json::to_value(answer)?)
            })
        };
        Self::of(name.into(), schema, Some(Arc::new(function))).with_values(true)
    }

    /// The same with typed values, or with JSON.
    pub(crate) fn with_values(mut self, takes_values: bool) -> Self {
        Arc::make_mut(&mut self.0).takes_values = takes_values;
        self
    }

    fn of(name: String, schema: Value, function: Option<Arc<Function>>) -> Self {
        Self(Arc::new(Inner {
            checker: checker(&schema),
            name,
            description: String::new(),
            schema,
            timeout: None,
            function,
            takes_values: false,
        }))
    }

    /// A tool that has no function: code that waits for it ends its run with an outcome of kind
    /// `waiting`, and [`Session::answer`](crate::Session::answer) goes on with it, later, and in
    /// another process if need be. Only runs of a session can have one.
    pub fn deferred(name: impl Into<String>, schema: Value) -> Self {
        Self::of(name.into(), schema, None)
    }

    /// Says what it does, to the code in `help(tools.NAME)` and to models.
    #[must_use]
    pub fn description(mut self, description: impl Into<String>) -> Self {
        Arc::make_mut(&mut self.0).description = description.into();
        self
    }

    /// Limits the time of one call, in place of [`ToolLimits::timeout`].
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        Arc::make_mut(&mut self.0).timeout = Some(timeout);
        self
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// The JSON Schema of its arguments.
    pub fn schema(&self) -> &Value {
        &self.0.schema
    }

    /// The tool as the chat interface of OpenAI and those like it take it.
    ///
    /// ```
    /// # use belljar::{Tool, ToolError};
    /// # use serde_json::{Value, json};
    /// let now = Tool::new("now", json!({"type": "object"}), async |_: Value| Ok("noon"));
    /// assert_eq!(now.to_openai()["function"]["name"], "now");
    /// assert_eq!(now.to_anthropic()["input_schema"], *now.schema());
    /// assert_eq!(now.to_mcp()["inputSchema"], *now.schema());
    /// ```
    pub fn to_openai(&self) -> Value {
        let Inner {
            name,
            description,
            schema,
            ..
        } = &*self.0;
        json!({
            "type": "function",
            "function": {"name": name, "description": description, "parameters": schema},
        })
    }

    /// The tool as the messages interface of Anthropic takes it.
    pub fn to_anthropic(&self) -> Value {
        let Inner {
            name,
            description,
            schema,
            ..
        } = &*self.0;
        json!({"name": name, "description": description, "input_schema": schema})
    }

    /// The tool as an MCP server lists it.
    pub fn to_mcp(&self) -> Value {
        let Inner {
            name,
            description,
            schema,
            ..
        } = &*self.0;
        json!({"name": name, "description": description, "inputSchema": schema})
    }

    pub(crate) fn describe(&self) -> &str {
        &self.0.description
    }

    /// Whether it takes and gives typed values.
    pub(crate) fn takes_values(&self) -> bool {
        self.0.takes_values
    }

    /// How long one call may take, if it says so itself.
    pub(crate) fn own_timeout(&self) -> Option<Duration> {
        self.0.timeout
    }

    /// Why it cannot be had, if it cannot.
    pub(crate) fn problem(&self) -> Option<String> {
        let name = &self.0.name;
        let is_word = name.starts_with(|c: char| c.is_ascii_alphabetic())
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        if !is_word || name.len() > MAX_TOOL_NAME || RESERVED.contains(&name.as_str()) {
            return Some(format!("{name:?} is not a name that a tool can have"));
        }
        if self.0.description.len() > MAX_TOOL_DESCRIPTION {
            return Some(format!("the description of {name} is too long"));
        }
        let error = self.0.checker.as_ref().err()?;
        Some(format!("the schema of {name} is none for arguments: {error}"))
    }

    /// Checks arguments against the schema; the first thing that is wrong with them.
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

    /// A call. Nothing of the caller's runs before what this returns is polled.
    /// `None` for one that is deferred.
    pub(crate) fn call(&self, arguments: Value) -> Option<Answering> {
        self.0.function.as_ref().map(|function| function(arguments))
    }

    /// Whether nobody answers it while the run goes on.
    pub fn is_deferred(&self) -> bool {
        self.0.function.is_none()
    }
}

/// Names of the module `tools` itself, and words of Python.
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

/// Named values from their tagged form.
fn arguments_of(tagged: Value) -> Result<BTreeMap<String, Typed>, ToolError> {
    let invalid = |why: String| ToolError::of(ToolErrorKind::InvalidArguments, why);
    let Typed::Dict(pairs) = serde_json::from_value(tagged).map_err(|e| invalid(e.to_string()))?
    else {
        return Err(invalid("the arguments have no names".into()));
    };
    let named = pairs.into_iter().map(|(name, value)| match name {
        Typed::Str(name) => Ok((name, value)),
        _ => Err(invalid("an argument's name is no text".into())),
    });
    named.collect()
}

fn checker(schema: &Value) -> Result<Arc<Validator>, String> {
    let about_objects = match schema.get("type") {
        None => schema.is_object(),
        Some(kind) => kind == "object",
    };
    if !about_objects {
        return Err("it has to be of type object".into());
    }
    jsonschema::options()
        // In time that is linear in the text, which is a stranger's.
        .with_pattern_options(PatternOptions::regex())
        .build(schema)
        .map(Arc::new)
        .map_err(|error| error.to_string())
}

impl fmt::Debug for Tool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Tool").field(&self.0.name).finish()
    }
}

/// Two are equal when they are the same one.
impl PartialEq for Tool {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// Why a tool has no answer for the code.
///
/// What the code is told is what was said on purpose: [`message`](Self::message) and
/// [`denied`](Self::denied). Any other error, brought in with `?`, is an `internal error` to it, and
/// its text goes to the log (`tracing`) and nowhere else.
#[derive(Debug)]
pub struct ToolError {
    kind: ToolErrorKind,
    message: String,
}

impl ToolError {
    /// A failure of which the code is told this.
    pub fn message(message: impl Into<String>) -> Self {
        Self::of(ToolErrorKind::ToolError, message)
    }

    /// The call is not allowed, for this reason, which the code is told.
    pub fn denied(message: impl Into<String>) -> Self {
        Self::of(ToolErrorKind::Denied, message)
    }

    pub(crate) fn of(kind: ToolErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
        }
    }

    pub(crate) fn internal() -> Self {
        Self::message("internal error")
    }

    pub(crate) fn parts(&self) -> (ToolErrorKind, &str) {
        (self.kind, &self.message)
    }

    pub(crate) fn into_parts(self) -> (ToolErrorKind, String) {
        (self.kind, self.message)
    }
}

impl<E: std::error::Error> From<E> for ToolError {
    fn from(error: E) -> Self {
        tracing::warn!(%error, "a tool failed");
        Self::internal()
    }
}

/// A call of a deferred tool that nobody has answered yet.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct WaitingCall {
    /// Which of the run's calls it is.
    pub id: u64,
    /// The tool.
    pub name: String,
    /// The arguments.
    pub arguments: Value,
}

/// An answer to a call of a deferred tool.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ToolAnswer {
    /// Which of the run's calls it answers, as the outcome's `tool_calls` numbers them.
    pub id: u64,
    /// The answer, or why there is none, which the code is told.
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

    /// The call `id` has failed, for this reason.
    pub fn failed(id: u64, message: impl Into<String>) -> Self {
        Self {
            id,
            answer: Err(message.into()),
        }
    }
}

/// How far the tools of one run may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct ToolLimits {
    /// Calls of all tools together. Default 1,000, at most 100,000.
    pub calls: u32,
    /// Bytes of one call's arguments, as JSON. Default 1 MiB, at most 16 MiB.
    pub argument_bytes: u32,
    /// Bytes of one call's answer, as JSON. Default 4 MiB, at most 64 MiB.
    pub answer_bytes: u32,
    /// Bytes of the arguments and answers of all calls together. Default 64 MiB, at most 4 GiB.
    pub total_bytes: u64,
    /// How long one call may take. The run's own time counts on. Default 30 s.
    pub timeout: Duration,
}

impl Default for ToolLimits {
    fn default() -> Self {
        Self {
            calls: 1_000,
            argument_bytes: 1 << 20,
            answer_bytes: 4 << 20,
            total_bytes: 64 << 20,
            timeout: Duration::from_secs(30),
        }
    }
}

setters!(ToolLimits {
    /// Limits the calls of all tools together.
    calls: u32;
    /// Limits the bytes of one call's arguments.
    argument_bytes: u32;
    /// Limits the bytes of one call's answer.
    answer_bytes: u32;
    /// Limits the bytes of all calls together.
    total_bytes: u64;
    /// Limits the time of one call.
    timeout: Duration;
});

/// Answers `input()`.
#[derive(Clone)]
pub struct Answerer(Arc<Asked>);

type Asked = dyn Fn(String) -> Pin<Box<dyn Future<Output = Option<String>> + Send>> + Send + Sync;

impl Answerer {
    /// `function` is given the prompt, and answers with a line without its end, or with `None` for
    /// the end of the input.
    pub fn new<F, Fut>(function: F) -> Self
    where
        F: Fn(String) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Option<String>> + Send + 'static,
    {
        Self(Arc::new(move |prompt| Box::pin(function(prompt))))
    }

    /// Nothing of the caller's runs before what this returns is polled.
    pub(crate) fn ask(&self, prompt: String) -> Answering {
        let asked = Arc::clone(&self.0);
        Box::pin(async move { Ok(asked(prompt).await.map_or(Value::Null, Value::String)) })
    }
}

impl fmt::Debug for Answerer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Answerer")
    }
}

/// Two are equal when they are the same one.
impl PartialEq for Answerer {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tool(name: &str, schema: Value) -> Tool {
        Tool::new(name, schema, async |arguments: Value| Ok(arguments))
    }

    #[test]
    fn names_and_schemas_that_are_none_are_told() {
        let any = json!({"type": "object"});
        for name in ["", "_x", "1x", "a b", "é", "class", "ToolError", "a.b", &"x".repeat(65)] {
            assert!(tool(name, any.clone()).problem().is_some(), "{name:?}");
        }
        assert_eq!(tool("price_2", any).problem(), None);
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

    #[test]
    fn an_error_that_was_not_meant_for_the_code_is_internal() {
        fn fails() -> Result<u8, ToolError> {
            Ok("x".parse::<u8>()?)
        }
        let (kind, message) = fails().unwrap_err().into_parts();
        assert_eq!((kind, message.as_str()), (ToolErrorKind::ToolError, "internal error"));
    }
}

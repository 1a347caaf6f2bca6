//! Tools: functions of the caller that the code can call.

mod answerer;
mod call;
mod check;
mod deferred;
mod error;
mod limits;
mod models;

use std::collections::BTreeMap;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use belljar_schema::{Checker, checker};
use belljar_value::Value as Typed;
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

pub use self::answerer::Answerer;
pub use self::call::{Call, Question};
pub use self::deferred::{DeferredTool, ToolAnswer, WaitingCall};
pub use self::error::ToolError;
pub use self::limits::ToolLimits;
use crate::api::outcome::ToolErrorKind;

/// A function of the caller that the code can call: `tools.NAME(...)` after `import tools`.
///
/// The arguments are one JSON object, checked against a JSON Schema before the function runs. The
/// function runs on the caller's side as part of the run's future and is dropped with it.
///
/// ```
/// use belljar::{Request, Tool};
/// use belljar::tool::ToolError;
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
    checker: Result<Checker, String>,
    function: Option<Arc<Function>>,
    /// Whether arguments and answer are typed values, here in their tagged form.
    takes_values: bool,
}

/// A function of the number and the arguments of a call.
type Function = dyn Fn(u64, Value) -> Answering + Send + Sync;

/// The future of a tool call.
pub(crate) type Answering = Pin<Box<dyn Future<Output = Result<Value, ToolError>> + Send>>;

impl Tool {
    /// Creates a tool that `function` answers. The function takes the arguments as any
    /// deserializable type, or as `serde_json::Value`.
    ///
    /// `schema` is the JSON Schema of the arguments object; its properties, in order, are the
    /// parameters that the code sees. A name is a word of ASCII letters, digits and `_` that starts
    /// with a letter, or two words, `group.name`, for a tool in the module `tools.group`. Requests
    /// that contain a tool with an invalid name or schema are rejected.
    pub fn new<A, R, F, Fut>(name: impl Into<String>, schema: Value, function: F) -> Self
    where
        A: DeserializeOwned,
        R: Serialize,
        F: Fn(A) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<R, ToolError>> + Send + 'static,
    {
        let function = Arc::new(function);
        let function = move |_, arguments: Value| -> Answering {
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

    /// Creates a tool whose parameters are the fields of `A`, described by their doc comments.
    pub fn typed<A, R, F, Fut>(name: impl Into<String>, function: F) -> Self
    where
        A: DeserializeOwned + JsonSchema,
        R: Serialize,
        F: Fn(A) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<R, ToolError>> + Send + 'static,
    {
        Self::new(name, schemars::schema_for!(A).to_value(), function)
    }

    /// Creates a tool that takes and returns [typed values](crate::value::Value). Numpy arrays,
    /// tables, dates, tuples and integers of any size keep their types in both directions.
    ///
    /// `schema` names the parameters, as in [`new`](Self::new). It is checked against the arguments
    /// in their tagged form. Plain values represent themselves there; leave the type of all other
    /// parameters open.
    ///
    /// ```
    /// use belljar::value::Value;
    /// use belljar::Tool;
    /// use belljar::tool::ToolError;
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
        let function = move |_, arguments: Value| -> Answering {
            let function = Arc::clone(&function);
            Box::pin(async move {
                let answer = function(arguments_of(arguments)?).await?;
                Ok(serde_json::to_value(answer)?)
            })
        };
        Self::of(name.into(), schema, Some(Arc::new(function))).with_values(true)
    }

    /// Switches between typed values and JSON.
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

    /// Creates a tool without a function. Code that waits for its answer ends the run with an
    /// outcome of kind `waiting`. [`Session::answer`](crate::Session::answer) continues the run
    /// later, in another process if needed. Only runs in sessions can use deferred tools, and
    /// deterministic runs, which get their answers in advance
    /// ([`Request::answer`](crate::Request::answer)). In a run that was
    /// [started](crate::Runtime::start), the caller answers the calls as turns.
    pub fn deferred(name: impl Into<String>, schema: Value) -> Self {
        Self::of(name.into(), schema, None)
    }

    /// Creates a deferred tool that takes and returns [typed values](crate::value::Value), like
    /// [`values`](Self::values). Read the arguments with [`WaitingCall::values`] and answer with
    /// [`ToolAnswer::value`].
    pub fn deferred_values(name: impl Into<String>, schema: Value) -> Self {
        Self::deferred(name, schema).with_values(true)
    }

    /// Describes the tool, for `help(tools.NAME)` and for models.
    #[must_use]
    pub fn description(mut self, description: impl Into<String>) -> Self {
        Arc::make_mut(&mut self.0).description = description.into();
        self
    }

    /// Limits the time of one call, instead of [`ToolLimits::timeout`].
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        Arc::make_mut(&mut self.0).timeout = Some(timeout);
        self
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Returns the JSON Schema of the arguments.
    pub fn schema(&self) -> &Value {
        &self.0.schema
    }

    pub(crate) fn describe(&self) -> &str {
        &self.0.description
    }

    /// Whether the tool takes and returns typed values.
    pub(crate) fn takes_values(&self) -> bool {
        self.0.takes_values
    }

    /// Returns the tool's own time limit of one call, if set.
    pub(crate) fn own_timeout(&self) -> Option<Duration> {
        self.0.timeout
    }

    /// Returns the tool with `function` instead of its own.
    pub(crate) fn answered_by<Fut>(
        mut self,
        function: impl Fn(u64, Value) -> Fut + Send + Sync + 'static,
    ) -> Self
    where
        Fut: Future<Output = Result<Value, ToolError>> + Send + 'static,
    {
        let function = move |id, arguments| -> Answering { Box::pin(function(id, arguments)) };
        Arc::make_mut(&mut self.0).function = Some(Arc::new(function));
        self
    }

    /// Calls the tool. The function starts when the returned future is first polled. Returns `None`
    /// for a deferred tool.
    pub(crate) fn call(&self, id: u64, arguments: Value) -> Option<Answering> {
        self.0.function.as_ref().map(|function| function(id, arguments))
    }

    /// Returns whether the tool is deferred: not answered during the run.
    pub fn is_deferred(&self) -> bool {
        self.0.function.is_none()
    }
}

/// Converts named values from their tagged form.
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

impl fmt::Debug for Tool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Tool").field(&self.0.name).finish()
    }
}

/// Two tools are equal if they are the same tool.
impl PartialEq for Tool {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

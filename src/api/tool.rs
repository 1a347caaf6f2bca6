//! Tools: functions of the caller that the code can call.

mod answerer;
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

use jsonschema::Validator;
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

pub use self::answerer::Answerer;
use self::check::checker;
pub use self::deferred::{DeferredTool, ToolAnswer, WaitingCall};
pub use self::error::ToolError;
pub use self::limits::ToolLimits;
use crate::api::outcome::ToolErrorKind;
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
    /// `_` that begins with a letter, or two of them, `group.name`: the code finds that one in the
    /// module `tools.group`. A request with a tool whose name or schema is none is refused.
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
    /// another process if need be. Only runs of a session can have one, and deterministic runs, which
    /// are given their answers beforehand ([`Request::answer`](crate::Request::answer)).
    pub fn deferred(name: impl Into<String>, schema: Value) -> Self {
        Self::of(name.into(), schema, None)
    }

    /// The same with [typed values](crate::value::Value), as [`values`](Self::values) takes and gives
    /// them: [`WaitingCall::values`] are its arguments, [`ToolAnswer::value`] answers it.
    pub fn deferred_values(name: impl Into<String>, schema: Value) -> Self {
        Self::deferred(name, schema).with_values(true)
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

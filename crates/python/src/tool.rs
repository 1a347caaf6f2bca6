//! Functions of the caller that guests can call.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use belljar::tool::ToolError;
use belljar::value::Value;
use belljar_schema::{Checker, checker};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use tokio::sync::oneshot;

use crate::error::class_of;
use crate::promise::HOME;
use crate::{json, value};

/// A tool. Calling it starts the function on its thread or loop, and returns at once.
#[pyclass(frozen, module = "belljar._belljar")]
pub(crate) struct Tool {
    pub(crate) tool: belljar::Tool,
    start: Option<Arc<Py<PyAny>>>,
    timeout: Option<f64>,
    /// Compiled when it is first needed; the engine has its own.
    checker: OnceLock<Result<Checker, String>>,
}

#[pymethods]
impl Tool {
    /// `start(arguments, reply, loop)` starts a call, and returns what cancels it. Without it the
    /// tool is deferred.
    #[new]
    fn new(
        name: &str,
        description: &str,
        schema: &Bound<'_, PyAny>,
        start: Option<Py<PyAny>>,
        timeout: Option<f64>,
    ) -> PyResult<Self> {
        let schema = json::from_py(schema)?;
        let start = start.map(Arc::new);
        let tool = match start.clone() {
            None => belljar::Tool::deferred(name, schema),
            Some(start) => belljar::Tool::values(name, schema, move |arguments| {
                let start = Arc::clone(&start);
                async move { called(&start, arguments).await }
            }),
        };
        let tool = tool.description(description);
        let tool = match timeout.map(Duration::try_from_secs_f64) {
            None => tool,
            Some(Ok(timeout)) => tool.timeout(timeout),
            Some(Err(_)) => {
                return Err(PyValueError::new_err("timeout is not a number of seconds"));
            }
        };
        Ok(Self {
            tool,
            start,
            timeout,
            checker: OnceLock::new(),
        })
    }

    #[getter]
    fn name(&self) -> &str {
        self.tool.name()
    }

    /// What starts a call; None for a deferred tool.
    #[getter]
    fn start(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        self.start.as_ref().map(|start| start.clone_ref(py))
    }

    /// Seconds for one call, if the tool has its own limit.
    #[getter]
    fn timeout(&self) -> Option<f64> {
        self.timeout
    }

    /// The definition for `openai`, `anthropic` or `mcp`.
    fn described<'py>(&self, py: Python<'py>, form: &str) -> PyResult<Bound<'py, PyAny>> {
        let described = match form {
            "openai" => self.tool.to_openai(),
            "anthropic" => self.tool.to_anthropic(),
            _ => self.tool.to_mcp(),
        };
        json::to_py(py, &described)
    }
}

impl Tool {
    /// Checks arguments in their tagged form against the schema. Returns the first mistake.
    pub(crate) fn check(&self, arguments: &serde_json::Value) -> Result<(), String> {
        let checker = self.checker.get_or_init(|| checker(self.tool.schema()));
        checker.as_ref().map_err(Clone::clone)?(arguments)
    }
}

async fn called(
    start: &Py<PyAny>,
    arguments: impl IntoIterator<Item = (String, Value)>,
) -> Result<Value, ToolError> {
    let home = HOME.try_with(Arc::clone).ok();
    let (sender, receiver) = oneshot::channel();
    // Only starts the call: this thread may run guests.
    let begun = Python::try_attach(|py| -> PyResult<Py<PyAny>> {
        let named = PyDict::new(py);
        for (name, argument) in arguments {
            named.set_item(name, value::to_py(py, argument)?)?;
        }
        let reply = Reply(Mutex::new(Some(sender)));
        let home = home.map(|home| home.event_loop(py));
        start.call1(py, (named, reply, home))
    });
    let cancel = match begun {
        Some(Ok(cancel)) => Cancel(Some(cancel)),
        Some(Err(error)) => {
            return Err(ToolError::message(Python::attach(|py| class_of(py, &error))));
        }
        None => return Err(ToolError::message("the host's interpreter exits")),
    };
    let answer = receiver.await;
    cancel.disarm();
    answer.unwrap_or_else(|_| Err(ToolError::message("the tool gave no answer")))
}

/// Cancels a call that is dropped before it has ended.
struct Cancel(Option<Py<PyAny>>);

impl Cancel {
    fn disarm(mut self) {
        self.0 = None;
    }
}

impl Drop for Cancel {
    fn drop(&mut self) {
        if let Some(cancel) = self.0.take() {
            Python::try_attach(|py| {
                if let Err(error) = cancel.call0(py) {
                    error.write_unraisable(py, None);
                }
            });
        }
    }
}

/// Receives the answer to a call, once.
#[pyclass(frozen, module = "belljar._belljar")]
pub(crate) struct Reply(Mutex<Option<oneshot::Sender<Result<Value, ToolError>>>>);

impl Reply {
    fn give(&self, answer: Result<Value, ToolError>) {
        let sender = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(sender) = sender {
            // The receiver may be gone.
            let _ = sender.send(answer);
        }
    }
}

#[pymethods]
impl Reply {
    /// Answers with a value. Raises if the value cannot be converted.
    fn answer(&self, value: &Bound<'_, PyAny>) -> PyResult<()> {
        let value = value::from_py(value)?;
        self.give(Ok(value));
        Ok(())
    }

    /// Reports that the call failed; the code sees the message.
    fn fail(&self, message: String) {
        self.give(Err(ToolError::message(message)));
    }

    /// Reports that the call is not allowed; the code sees the message.
    fn deny(&self, message: String) {
        self.give(Err(ToolError::denied(message)));
    }
}

/// Asks a function of the caller for a line of input.
pub(crate) async fn ask(start: Arc<Py<PyAny>>, prompt: String) -> Option<String> {
    match called(&start, [("prompt".to_owned(), Value::Str(prompt))]).await {
        Ok(Value::Str(line)) => Some(line),
        _ => None,
    }
}

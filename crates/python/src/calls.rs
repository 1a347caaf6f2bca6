//! Checks of the tool calls that come from another process.

use std::sync::{Mutex, PoisonError};

use belljar::tool::ToolLimits;
use belljar::value::Value;
use belljar_value::wire;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::tool::Tool;
use crate::{options, value};

/// The calls of one run elsewhere. Its engine has checked and counted them, but code that has
/// broken out decides what arrives here, so they are checked and counted again.
#[pyclass(frozen, module = "belljar._belljar")]
pub(crate) struct Calls {
    limits: ToolLimits,
    spent: Mutex<Spent>,
}

#[derive(Default)]
struct Spent {
    calls: u32,
    bytes: u64,
}

#[pymethods]
impl Calls {
    #[new]
    fn new(limits: Option<&Bound<'_, PyDict>>) -> PyResult<Self> {
        Ok(Self {
            limits: limits.map(options::tool_limits).transpose()?.unwrap_or_default(),
            spent: Mutex::default(),
        })
    }

    /// Counts a call, and converts its arguments from their tagged form. Raises `ValueError` if a
    /// limit forbids the call, or the arguments do not match the tool's schema.
    fn arguments<'py>(
        &self,
        py: Python<'py>,
        tool: &Tool,
        tagged: &str,
    ) -> PyResult<Bound<'py, PyAny>> {
        let arguments = py.detach(|| {
            let tagged = serde_json::from_str(tagged).map_err(|error| error.to_string())?;
            tool.check(&tagged)?;
            let arguments: Value =
                serde_json::from_value(tagged).map_err(|error| error.to_string())?;
            let bytes = wire::write(&arguments).map_err(|error| error.to_string())?.len();
            self.admit(bytes).map(|()| arguments)
        });
        value::to_py(py, arguments.map_err(PyValueError::new_err)?)
    }

    /// Counts a call of `input()`. Raises `ValueError` if a limit forbids it.
    fn prompted(&self, prompt: &str) -> PyResult<()> {
        self.admit(prompt.len()).map_err(PyValueError::new_err)
    }

    /// Counts an answer, and returns its tagged form, as JSON.
    fn answer(&self, answer: &Bound<'_, PyAny>) -> PyResult<String> {
        let value = value::from_py(answer)?;
        let tagged = value::tagged(&value)?;
        // The engine reports an answer that is no value for a guest.
        let bytes = wire::write(&value).map_or(tagged.len(), |wire| wire.len());
        let mut spent = self.spent.lock().unwrap_or_else(PoisonError::into_inner);
        spent.bytes = spent.bytes.saturating_add(bytes as u64);
        Ok(tagged)
    }
}

impl Calls {
    fn admit(&self, bytes: usize) -> Result<(), String> {
        let ToolLimits {
            calls,
            argument_bytes,
            total_bytes,
            ..
        } = self.limits;
        let mut spent = self.spent.lock().unwrap_or_else(PoisonError::into_inner);
        let total = spent.bytes.saturating_add(bytes as u64);
        if spent.calls >= calls {
            return Err(format!("the run has used up its {calls} calls"));
        }
        if bytes > argument_bytes as usize {
            return Err(format!(
                "the arguments have {bytes} bytes, at most {argument_bytes} are taken"
            ));
        }
        if total > total_bytes {
            return Err(format!("the run has used up its {total_bytes} bytes for calls"));
        }
        *spent = Spent {
            calls: spent.calls + 1,
            bytes: total,
        };
        Ok(())
    }
}

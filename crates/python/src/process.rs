//! The process that runs the guests of a runtime, and its own side.

use std::ffi::OsString;
use std::os::fd::IntoRawFd;
use std::process::Command;
use std::time::Duration;

use belljar_server::front::WorkerProcess;
use belljar_server::serve_worker;
use pyo3::exceptions::PySystemExit;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use serde_json::Value;

use crate::json;
use crate::runtime::configured;

/// Variable that tells some interpreters where their library is.
const LIBRARIES: &str = "LD_LIBRARY_PATH";

/// A process that runs guests. It ends with this object.
#[pyclass(frozen, module = "belljar._belljar")]
pub(crate) struct Process(WorkerProcess);

#[pymethods]
impl Process {
    /// Starts a program that calls `work`.
    #[new]
    fn start(
        py: Python<'_>,
        program: OsString,
        arguments: Vec<OsString>,
        settings: &Bound<'_, PyAny>,
    ) -> PyResult<Self> {
        let settings = json::from_py(settings)?;
        let mut command = Command::new(program);
        command.args(arguments);
        if let Some(libraries) = std::env::var_os(LIBRARIES) {
            command.env(LIBRARIES, libraries);
        }
        Ok(Self(py.detach(|| WorkerProcess::start(command, &settings))?))
    }

    #[getter]
    fn pid(&self) -> u32 {
        self.0.id()
    }

    #[getter]
    fn authorization(&self) -> &str {
        self.0.authorization()
    }

    /// Opens a connection, and returns its descriptor.
    fn connect(&self) -> PyResult<i32> {
        Ok(self.0.connect()?.into_raw_fd())
    }

    /// How it ended, if it ends within so many seconds.
    fn ended(&self, py: Python<'_>, seconds: f64) -> Option<String> {
        py.detach(|| self.0.ended(Duration::from_secs_f64(seconds)))
    }

    /// Kills it, and waits until nothing of it is left.
    fn stop(&self, py: Python<'_>) {
        py.detach(|| self.0.stop());
    }
}

impl Drop for Process {
    /// Lets other threads of Python run meanwhile. The garbage collector may drop it.
    fn drop(&mut self) {
        Python::try_attach(|py| self.stop(py));
    }
}

/// Runs guests for the process that started this one, until that ends.
#[pyfunction]
pub(crate) fn work(py: Python<'_>) -> PyResult<()> {
    let served = py.detach(|| {
        serve_worker(|settings: Value| {
            let builder = Python::attach(|py| {
                let settings = json::to_py(py, &settings)?;
                configured(settings.cast::<PyDict>()?)
            })?;
            Ok::<_, Box<dyn std::error::Error + Send + Sync>>(builder.build()?)
        })
    });
    served.map_err(|error| PySystemExit::new_err(error.to_string()))
}

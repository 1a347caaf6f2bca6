//! Runs: started, awaited in one of two ways, and converted for Python.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use belljar::{Interrupt, Outcome, Request};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyBytes;

use crate::error::Failure;
use crate::event::Watched;
use crate::home::Home;
use crate::options::Asked;
use crate::promise::promise;
use crate::reactor::Reactor;
use crate::wait::wait;
use crate::{json, value};

/// The files of a run. Dropping this removes them.
#[pyclass(frozen, module = "belljar._belljar")]
pub(crate) struct Run(Mutex<Option<belljar::Run>>);

#[pymethods]
impl Run {
    /// Returns the bytes of a file.
    fn read<'py>(&self, py: Python<'py>, path: &str) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = py.detach(|| Ok::<_, Failure>(of(self.lock().as_ref())?.read(path)?))?;
        Ok(PyBytes::new(py, &bytes))
    }

    /// Copies all files to a directory. Returns their paths.
    #[expect(clippy::needless_pass_by_value, reason = "what Python gives is owned")]
    fn copy_to(&self, py: Python<'_>, dir: PathBuf) -> PyResult<Vec<PathBuf>> {
        Ok(py.detach(|| Ok::<_, Failure>(of(self.lock().as_ref())?.copy_to(&dir)?))?)
    }

    /// Removes the workspace.
    fn close(&self, py: Python<'_>) {
        let run = self.lock().take();
        py.detach(|| drop(run));
    }
}

impl Run {
    fn lock(&self) -> MutexGuard<'_, Option<belljar::Run>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn of(run: Option<&belljar::Run>) -> Result<&belljar::Run, Failure> {
    let gone = || Failure::Python(PyValueError::new_err("the files of this run were removed"));
    run.ok_or_else(gone)
}

/// Runs a request. Ctrl-C, or an exception in the function for events, interrupts it.
pub(crate) fn launch<T, E, F>(
    py: Python<'_>,
    reactor: &Arc<Reactor>,
    asked: Asked,
    later: bool,
    begin: impl FnOnce(Request) -> F,
    answer: impl FnOnce(Python<'_>, T) -> PyResult<Py<PyAny>> + Send + 'static,
) -> PyResult<Py<PyAny>>
where
    T: Send + 'static,
    E: Into<Failure> + 'static,
    F: Future<Output = Result<T, E>> + Send + 'static,
{
    let switch = Interrupt::new();
    let request = asked.request.interrupt(&switch);
    let home = if later { Some(Home::here(py)?) } else { None };
    let engine = |begun: F| async { begun.await.map_err(Into::into) };
    match (asked.on_event, home) {
        (None, None) => {
            let value = wait(py, reactor, Some(&switch), engine(begin(request)))?;
            answer(py, value)
        }
        (None, Some(home)) => promise(py, reactor, home, engine(begin(request)), answer),
        (Some(callback), home) => {
            let (request, watched) = Watched::new(request, callback, &switch);
            let run = engine(begin(request));
            match home {
                None => answer(py, watched.wait(py, reactor, run)?),
                Some(home) => watched.promise(py, reactor, home, run, answer),
            }
        }
    }
}

/// A finished run.
pub(crate) enum Finished {
    WithFiles(Box<belljar::Run>),
    /// Its workspace is already reused for the next run.
    Without(Box<Outcome>),
}

impl From<belljar::Run> for Finished {
    fn from(run: belljar::Run) -> Self {
        if run.outcome.files.is_empty() {
            return Self::Without(Box::new(run.outcome));
        }
        Self::WithFiles(Box::new(run))
    }
}

/// The outcome of a run. Its document is made on first use.
#[pyclass(frozen, module = "belljar._belljar")]
pub(crate) struct Report {
    /// `None` once the document is made.
    outcome: Mutex<Option<Arc<Outcome>>>,
    document: PyOnceLock<Py<PyAny>>,
}

#[pymethods]
impl Report {
    /// Returns the outcome as a dictionary, like its JSON.
    fn document<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        // Without the lock: creating objects may run the garbage collector, and with it any code.
        let outcome = self.lock().clone();
        if let Some(outcome) = outcome {
            let document = serde_json::to_value(&*outcome)
                .map_err(|error| PyValueError::new_err(error.to_string()))?;
            let document = json::to_py(py, &document)?.unbind();
            let _ = self.document.set(py, document);
            self.lock().take();
        }
        let made = self.document.get(py).map(|made| made.bind(py).clone());
        made.ok_or_else(|| PyValueError::new_err("there is no outcome"))
    }
}

impl Report {
    fn lock(&self) -> MutexGuard<'_, Option<Arc<Outcome>>> {
        self.outcome.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A run for Python: the outcome, the typed result in a tuple if present, the files if present.
pub(crate) fn run_to_py(py: Python<'_>, run: Finished) -> PyResult<Py<PyAny>> {
    match run {
        Finished::WithFiles(mut run) => {
            let typed = run.outcome.typed.take();
            let mut outcome = run.outcome.clone();
            outcome.typed = typed;
            let (report, typed) = parts(py, outcome)?;
            let files = Run(Mutex::new(Some(*run)));
            Ok((report, typed, files).into_pyobject(py)?.into_any().unbind())
        }
        Finished::Without(outcome) => outcome_to_py(py, *outcome),
    }
}

/// The outcome of a session's run, in the same form.
pub(crate) fn outcome_to_py(py: Python<'_>, outcome: Outcome) -> PyResult<Py<PyAny>> {
    let (report, typed) = parts(py, outcome)?;
    Ok((report, typed, py.None()).into_pyobject(py)?.into_any().unbind())
}

type Parts<'py> = (Report, Option<(Bound<'py, PyAny>,)>);

fn parts(py: Python<'_>, mut outcome: Outcome) -> PyResult<Parts<'_>> {
    let typed = outcome.typed.take().map(|value| value::to_py(py, value)).transpose()?;
    let report = Report {
        outcome: Mutex::new(Some(Arc::new(outcome))),
        document: PyOnceLock::new(),
    };
    Ok((report, typed.map(|value| (value,))))
}

//! Runs: begun, awaited in one of two ways, and given to Python.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use belljar::{Error, Interrupt, Outcome, Request};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::error::Failure;
use crate::event::Watched;
use crate::options::Asked;
use crate::promise::{Home, promise};
use crate::reactor::Reactor;
use crate::wait::wait;
use crate::{json, value};

/// What a run left in its workspace, which is removed with this.
#[pyclass(frozen, module = "belljar._belljar")]
pub(crate) struct Run(Mutex<Option<belljar::Run>>);

#[pymethods]
impl Run {
    /// The bytes of a file.
    fn read<'py>(&self, py: Python<'py>, path: &str) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = py.detach(|| Ok::<_, Failure>(of(self.lock().as_ref())?.read(path)?))?;
        Ok(PyBytes::new(py, &bytes))
    }

    /// Copies all files to a directory; their paths there.
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
    let gone = || Failure::Python(PyValueError::new_err("the files of this run were given up"));
    run.ok_or_else(gone)
}

/// Runs what was asked for. Ctrl-C, and a function for events that raises, interrupt it.
pub(crate) fn launch<T, F>(
    py: Python<'_>,
    reactor: &Arc<Reactor>,
    asked: Asked,
    later: bool,
    begin: impl FnOnce(Request) -> F,
    answer: impl FnOnce(Python<'_>, T) -> PyResult<Py<PyAny>> + Send + 'static,
) -> PyResult<Py<PyAny>>
where
    T: Send + 'static,
    F: Future<Output = Result<T, Error>> + Send + 'static,
{
    let switch = Interrupt::new();
    let request = asked.request.interrupt(&switch);
    let home = if later { Some(Home::here(py)?) } else { None };
    let engine = |begun: F| async { begun.await.map_err(Failure::from) };
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
    /// Its workspace is for the next run already.
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

/// A run as Python takes it: the outcome, the typed result in a tuple if there is one, the files if
/// there are some.
pub(crate) fn run_to_py(py: Python<'_>, run: Finished) -> PyResult<Py<PyAny>> {
    match run {
        Finished::WithFiles(mut run) => {
            let (outcome, typed) = parts(py, &mut run.outcome)?;
            let files = Run(Mutex::new(Some(*run)));
            Ok((outcome, typed, files).into_pyobject(py)?.into_any().unbind())
        }
        Finished::Without(outcome) => outcome_to_py(py, *outcome),
    }
}

/// The outcome of a session's run, in the same way.
pub(crate) fn outcome_to_py(py: Python<'_>, mut outcome: Outcome) -> PyResult<Py<PyAny>> {
    let (outcome, typed) = parts(py, &mut outcome)?;
    Ok((outcome, typed, py.None()).into_pyobject(py)?.into_any().unbind())
}

type Parts<'py> = (Bound<'py, PyAny>, Option<(Bound<'py, PyAny>,)>);

fn parts<'py>(py: Python<'py>, outcome: &mut Outcome) -> PyResult<Parts<'py>> {
    let typed = outcome.typed.take().map(|value| value::to_py(py, value)).transpose()?;
    let document = serde_json::to_value(&*outcome)
        .map_err(|error| PyValueError::new_err(error.to_string()))?;
    Ok((json::to_py(py, &document)?, typed.map(|value| (value,))))
}

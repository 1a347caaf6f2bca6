//! Errors of the engine as Python's exceptions.

use belljar::{Error, Refusal};
use belljar_stores::StoreUrlError;
use pyo3::exceptions::{PyException, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyList};

/// Why a call has no answer.
#[derive(Debug)]
pub(crate) enum Failure {
    Engine(Box<Error>),
    /// The interpreter exits, or the runtime was closed.
    Closed,
    /// Something of Python's went wrong, a callback of the caller's say.
    Python(PyErr),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Engine(Box::new(error))
    }
}

impl From<PyErr> for Failure {
    fn from(error: PyErr) -> Self {
        Self::Python(error)
    }
}

impl From<Failure> for PyErr {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Engine(error) => Python::attach(|py| raised(py, &error)),
            Failure::Closed => Python::attach(closed),
            Failure::Python(error) => error,
        }
    }
}

impl From<StoreUrlError> for Failure {
    fn from(error: StoreUrlError) -> Self {
        match error {
            StoreUrlError::Store(error) => Error::from(error).into(),
            other => Self::Python(PyValueError::new_err(other.to_string())),
        }
    }
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        Error::from(refusal).into()
    }
}

/// The exception of `belljar._errors` that stands for an error.
fn raised(py: Python<'_>, error: &Error) -> PyErr {
    let made = || -> PyResult<PyErr> {
        let parts = PyDict::new(py);
        parts.set_item("message", error.with_causes())?;
        parts.set_item("code", error.code())?;
        parts.set_item("blame", error.blame().as_str())?;
        parts.set_item("hint", error.hint())?;
        let reasons = PyList::empty(py);
        if let Error::Refused(refusal) = error {
            for reason in &refusal.reasons {
                reasons.append((reason.field.as_str(), reason.kind.code(), &reason.message))?;
            }
        }
        parts.set_item("reasons", reasons)?;
        Ok(PyErr::from_value(maker(py)?.call((), Some(&parts))?))
    };
    made().unwrap_or_else(|error| error)
}

fn closed(py: Python<'_>) -> PyErr {
    let made = || -> PyResult<PyErr> {
        let parts = PyDict::new(py);
        parts.set_item("message", "the runtime was closed, or the interpreter exits")?;
        parts.set_item("code", "closed")?;
        Ok(PyErr::from_value(maker(py)?.call((), Some(&parts))?))
    };
    made().unwrap_or_else(|_| PyRuntimeError::new_err("the interpreter exits"))
}

fn maker(py: Python<'_>) -> PyResult<&Bound<'_, PyAny>> {
    static MAKE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    MAKE.import(py, "belljar._errors", "make")
}

/// The name of an exception's class, which is all that a stranger is told of it.
pub(crate) fn class_of(py: Python<'_>, error: &PyErr) -> String {
    error.get_type(py).name().map_or_else(|_| "Exception".into(), |name| name.to_string())
}

/// Whether it is an `Exception`, rather than something that is to end the program.
pub(crate) fn is_exception(py: Python<'_>, error: &PyErr) -> bool {
    error.is_instance_of::<PyException>(py)
}

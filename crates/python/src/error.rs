//! Converts errors of the engine to Python exceptions.

use belljar::Error;
use belljar::request::Refusal;
use belljar_stores::StoreUrlError;
use pyo3::exceptions::{PyException, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyList};

/// Why a call failed.
#[derive(Debug)]
pub(crate) enum Failure {
    Engine(Box<Error>),
    /// The interpreter is exiting, or the runtime was closed.
    Closed,
    /// A Python exception, for example from a callback of the caller.
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

/// Makes the exception of `belljar._errors` for an error.
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

/// The class name of an exception, which is all that a guest may learn about it.
pub(crate) fn class_of(py: Python<'_>, error: &PyErr) -> String {
    error.get_type(py).name().map_or_else(|_| "Exception".into(), |name| name.to_string())
}

/// Whether it is an `Exception`. Other exceptions are meant to end the program.
pub(crate) fn is_exception(py: Python<'_>, error: &PyErr) -> bool {
    error.is_instance_of::<PyException>(py)
}

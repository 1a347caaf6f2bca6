//! Conversion of typed values.
//!
//! Built-in types are converted here. Types of libraries are converted by `belljar._values`, via
//! dictionaries with the key `$`: the tagged form of `docs/reference/values.md`, with a
//! [`Buffer`](crate::buffer::Buffer) in place of base64.

mod from;
mod to;

use belljar::value::Value;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

pub(crate) use from::from_py;
pub(crate) use to::to_py;

/// Returns the tagged form of an object, as JSON.
#[pyfunction]
pub(crate) fn to_tagged(object: &Bound<'_, PyAny>) -> PyResult<String> {
    tagged(&from_py(object)?)
}

pub(crate) fn tagged(value: &Value) -> PyResult<String> {
    serde_json::to_string(value).map_err(|error| PyValueError::new_err(error.to_string()))
}

/// Converts a value from its tagged form, as JSON.
#[pyfunction]
pub(crate) fn from_tagged<'py>(py: Python<'py>, json: &str) -> PyResult<Bound<'py, PyAny>> {
    let value: Value =
        serde_json::from_str(json).map_err(|error| PyValueError::new_err(error.to_string()))?;
    to_py(py, value)
}

//! Array data that numpy uses without a copy.

use std::sync::{Mutex, PoisonError};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

/// Array data in memory that does not move until it is taken. With `__array_interface__`, numpy
/// makes an array of it without a copy, and keeps it alive.
#[pyclass(frozen, module = "belljar._belljar")]
pub(crate) struct Buffer {
    bytes: Mutex<Vec<u8>>,
    address: usize,
    length: usize,
}

impl Buffer {
    pub(crate) fn of(mut bytes: Vec<u8>) -> Self {
        Self {
            address: bytes.as_mut_ptr().expose_provenance(),
            length: bytes.len(),
            bytes: Mutex::new(bytes),
        }
    }

    /// Takes the bytes, so that their creator can fill them. Later accesses fail.
    pub(crate) fn take(&self) -> PyResult<Vec<u8>> {
        let bytes = std::mem::take(&mut *self.bytes.lock().unwrap_or_else(PoisonError::into_inner));
        if bytes.len() != self.length {
            return Err(PyValueError::new_err("the bytes of this buffer were already taken"));
        }
        Ok(bytes)
    }
}

#[pymethods]
impl Buffer {
    /// A zeroed buffer of this length.
    #[new]
    fn new(length: usize) -> Self {
        Self::of(vec![0; length])
    }

    fn __len__(&self) -> usize {
        self.length
    }

    /// Returns a copy.
    fn tobytes<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.bytes.lock().unwrap_or_else(PoisonError::into_inner))
    }

    #[getter]
    fn __array_interface__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let interface = PyDict::new(py);
        interface.set_item("version", 3)?;
        interface.set_item("typestr", "|u1")?;
        interface.set_item("shape", (self.length,))?;
        interface.set_item("data", (self.address, false))?;
        Ok(interface)
    }
}

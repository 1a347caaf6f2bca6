//! Restricts the module to one interpreter of the process.
#![expect(
    unsafe_code,
    reason = "only the interpreter's own functions tell which one it is"
)]

use pyo3::exceptions::PyImportError;
use pyo3::prelude::*;

/// Fails in a subinterpreter: the module's process-wide state belongs to the main one.
pub(crate) fn refuse_others(_py: Python<'_>) -> PyResult<()> {
    // SAFETY: `_py` proves that the thread is attached to an interpreter, so there is a current
    // one. Asking its state for its id has no other effect.
    let number =
        unsafe { pyo3::ffi::PyInterpreterState_GetID(pyo3::ffi::PyInterpreterState_Get()) };
    if number == 0 {
        return Ok(());
    }
    Err(PyImportError::new_err(
        "belljar cannot be imported in a subinterpreter: import it in the main one",
    ))
}

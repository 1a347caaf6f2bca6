//! The one interpreter of a process that may have the module.
#![expect(
    unsafe_code,
    reason = "only the interpreter's own functions tell which one it is"
)]

use pyo3::exceptions::PyImportError;
use pyo3::prelude::*;

/// Fails in a subinterpreter: what the module keeps for the process belongs to the main one.
pub(crate) fn refuse_others(_py: Python<'_>) -> PyResult<()> {
    // SAFETY: the thread is attached to an interpreter, which `_py` proves; then there is a current
    // one, and its state may be asked for its number, which has no other effect.
    let number =
        unsafe { pyo3::ffi::PyInterpreterState_GetID(pyo3::ffi::PyInterpreterState_Get()) };
    if number == 0 {
        return Ok(());
    }
    Err(PyImportError::new_err(
        "belljar cannot be imported in a subinterpreter: import it in the main one",
    ))
}

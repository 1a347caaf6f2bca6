//! belljar in a Python process: the native half of the package `belljar`.

use pyo3::prelude::*;

#[pymodule(gil_used = false)]
mod _belljar {
    use super::*;

    #[pymodule_init]
    fn init(_module: &Bound<'_, PyModule>) -> PyResult<()> {
        Ok(())
    }
}

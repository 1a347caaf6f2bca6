//! The native half of the Python package `belljar`.
//!
//! It contains what must be native: runs on their own threads, conversion of values, and futures
//! for threads and event loops. The public interface is written in Python, in `python/belljar`.
#![deny(unsafe_code)]
#![warn(clippy::unwrap_used)]

mod buffer;
mod calls;
mod error;
mod event;
mod files;
mod hold;
mod home;
mod images;
mod interpreter;
mod json;
#[cfg(feature = "measure")]
mod measure;
mod options;
#[cfg(unix)]
mod process;
mod progress;
mod promise;
mod reactor;
mod run;
mod runtime;
mod session;
mod stored;
mod tool;
mod value;
mod wait;

use pyo3::prelude::*;

#[pymodule(gil_used = false)]
mod _belljar {
    #[pymodule_export]
    use crate::buffer::Buffer;
    #[pymodule_export]
    use crate::calls::Calls;
    #[pymodule_export]
    use crate::files::Files;
    #[pymodule_export]
    use crate::hold::Hold;
    #[pymodule_export]
    use crate::images::Images;
    #[cfg(unix)]
    #[pymodule_export]
    use crate::process::{Process, work};
    #[pymodule_export]
    use crate::run::{Report, Run};
    #[pymodule_export]
    use crate::runtime::Runtime;
    #[pymodule_export]
    use crate::session::Session;
    #[pymodule_export]
    use crate::stored::Stored;
    #[pymodule_export]
    use crate::tool::{Reply, Tool};
    #[pymodule_export]
    use crate::value::{from_tagged, to_tagged};

    use super::{Bound, PyModule, PyModuleMethods, PyResult};

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        crate::interpreter::refuse_others(module.py())?;
        #[cfg(feature = "measure")]
        {
            use pyo3::wrap_pyfunction;
            module.add_function(wrap_pyfunction!(crate::measure::measure_calls, module)?)?;
            module.add_function(wrap_pyfunction!(crate::measure::measure_threads, module)?)?;
            module.add_function(wrap_pyfunction!(crate::measure::measure_tasks, module)?)?;
        }
        module.add("VERSION", env!("CARGO_PKG_VERSION"))
    }
}

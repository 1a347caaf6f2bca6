//! Reports the progress of setup to a function of the caller.

use std::sync::Arc;

use belljar::progress::{Progress, Stage};
use pyo3::prelude::*;

/// Calls a function with `(begins, text, subject, seconds)`.
pub(crate) struct Told(pub(crate) Arc<Py<PyAny>>);

impl Told {
    fn tell(&self, begins: bool, stage: Stage, subject: &str) {
        // Not called while the interpreter is exiting.
        Python::try_attach(|py| {
            let usually = stage.usually().as_secs();
            let arguments = (begins, stage.describe(), subject, usually);
            if let Err(error) = self.0.call1(py, arguments) {
                error.write_unraisable(py, None);
            }
        });
    }
}

impl Progress for Told {
    fn begin(&self, stage: Stage, subject: &str) {
        self.tell(true, stage, subject);
    }

    fn end(&self, stage: Stage) {
        self.tell(false, stage, "");
    }
}

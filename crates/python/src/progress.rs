//! What takes long while the engine is set up, told to a function of the caller's.

use std::sync::Arc;

use belljar::progress::{Progress, Stage};
use pyo3::prelude::*;

/// Calls a function with `(begins, text, subject, seconds)`.
pub(crate) struct Told(pub(crate) Arc<Py<PyAny>>);

impl Told {
    fn tell(&self, begins: bool, stage: Stage, subject: &str) {
        // At the interpreter's exit nobody wants to know.
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

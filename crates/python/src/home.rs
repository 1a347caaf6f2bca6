//! An event loop, and how other threads wake it.

#[cfg_attr(windows, path = "home/no_mailbox.rs")]
mod mailbox;

use std::sync::{Arc, Mutex, PoisonError};

use pyo3::exceptions::PyRuntimeError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

use mailbox::Mailbox;

/// Something to do on the thread of an event loop.
pub(crate) type Letter = Box<dyn FnOnce(Python<'_>) + Send>;

/// An event loop.
pub(crate) struct Home {
    event_loop: Py<PyAny>,
    mailbox: Option<Arc<Mailbox>>,
}

/// A pending answer.
pub(crate) struct Expected(Option<Arc<Mailbox>>);

impl Drop for Expected {
    fn drop(&mut self) {
        if let Some(mailbox) = &self.0 {
            mailbox.answered();
        }
    }
}

impl Home {
    /// The loop that runs on this thread.
    pub(crate) fn here(py: Python<'_>) -> PyResult<Arc<Self>> {
        let running = running_loop(py)?;
        if running.is_none() {
            return Err(PyRuntimeError::new_err(
                "no event loop runs on this thread: await this inside a coroutine, or call the \
                 method without the `a`",
            ));
        }
        let mailbox = Mailbox::of(&running)?;
        Ok(Arc::new(Self {
            event_loop: running.unbind(),
            mailbox,
        }))
    }

    pub(crate) fn event_loop(&self, py: Python<'_>) -> Py<PyAny> {
        self.event_loop.clone_ref(py)
    }

    /// Creates a future of the loop.
    pub(crate) fn create_future(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.event_loop.call_method0(py, intern!(py, "create_future"))
    }

    /// Registers a pending answer until the returned guard is dropped.
    pub(crate) fn expect(&self) -> Expected {
        let mailbox = self.mailbox.clone();
        if let Some(mailbox) = &mailbox {
            mailbox.expect();
        }
        Expected(mailbox)
    }

    pub(crate) fn post(&self, letter: Letter) {
        if let Some(mailbox) = &self.mailbox {
            return mailbox.put(letter);
        }
        // A loop that watches no sockets, as on Windows.
        Python::try_attach(|py| {
            let letter = OneLetter(Mutex::new(Some(letter)));
            // A closed loop accepts no letters.
            let _ = self.event_loop.call_method1(py, "call_soon_threadsafe", (letter,));
        });
    }
}

fn running_loop(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    static RUNNING: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    RUNNING.import(py, "asyncio", "_get_running_loop")?.call0()
}

/// A letter for a loop to call.
#[pyclass(frozen, module = "belljar._belljar")]
struct OneLetter(Mutex<Option<Letter>>);

#[pymethods]
impl OneLetter {
    fn __call__(&self, py: Python<'_>) {
        let letter = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(letter) = letter {
            letter(py);
        }
    }
}

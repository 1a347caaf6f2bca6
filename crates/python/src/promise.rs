//! Asyncio futures that complete with futures of the engine.

use std::sync::Arc;

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use tokio::task::AbortHandle;

use crate::error::Failure;
use crate::home::Home;
use crate::reactor::Reactor;
use crate::wait::wait;

tokio::task_local! {
    /// The event loop of the task that awaits the current run.
    pub(crate) static HOME: Arc<Home>;
}

/// Drops the engine's future when the asyncio future is cancelled.
#[pyclass(frozen, module = "belljar._belljar")]
struct Abandon(AbortHandle);

#[pymethods]
impl Abandon {
    fn __call__(&self, future: &Bound<'_, PyAny>) -> PyResult<()> {
        if future.call_method0(intern!(future.py(), "cancelled"))?.is_truthy()? {
            self.0.abort();
        }
        Ok(())
    }
}

/// An asyncio future for the loop of this thread. Cancelling it drops `future`.
pub(crate) fn promise<T: Send + 'static>(
    py: Python<'_>,
    reactor: &Arc<Reactor>,
    home: Arc<Home>,
    future: impl Future<Output = Result<T, Failure>> + Send + 'static,
    answer: impl FnOnce(Python<'_>, T) -> PyResult<Py<PyAny>> + Send + 'static,
) -> PyResult<Py<PyAny>> {
    let call = reactor.enter()?;
    let waiter = home.create_future(py)?;
    let waiting = waiter.clone_ref(py);
    let closing = Arc::clone(reactor);
    let expected = home.expect();
    let task = reactor.handle().spawn(async move {
        let result = tokio::select! {
            biased;
            result = HOME.scope(Arc::clone(&home), future) => result,
            () = closing.closed() => Err(Failure::Closed),
        };
        let letter = move |py: Python<'_>| {
            let result = result.map_err(PyErr::from).and_then(|value| answer(py, value));
            if let Err(error) = deliver(waiting.bind(py), result) {
                error.write_unraisable(py, None);
            }
        };
        // The answer is no longer pending when its letter is posted.
        drop(expected);
        home.post(Box::new(letter));
        drop(call);
    });
    let abandon = Abandon(task.abort_handle());
    let arguments = PyTuple::new(py, [Py::new(py, abandon)?])?;
    waiter.call_method1(py, intern!(py, "add_done_callback"), arguments)?;
    Ok(waiter)
}

fn deliver(waiter: &Bound<'_, PyAny>, result: PyResult<Py<PyAny>>) -> PyResult<()> {
    let py = waiter.py();
    // It may have been cancelled.
    if waiter.call_method0(intern!(py, "done"))?.is_truthy()? {
        return Ok(());
    }
    match result {
        Ok(value) => waiter.call_method1(intern!(py, "set_result"), (value,))?,
        Err(error) => waiter.call_method1(intern!(py, "set_exception"), (error,))?,
    };
    Ok(())
}

/// Returns the result, or an asyncio future of it.
pub(crate) fn call<T: Send + 'static>(
    py: Python<'_>,
    reactor: &Arc<Reactor>,
    later: bool,
    future: impl Future<Output = Result<T, Failure>> + Send + 'static,
    answer: impl FnOnce(Python<'_>, T) -> PyResult<Py<PyAny>> + Send + 'static,
) -> PyResult<Py<PyAny>> {
    if later {
        return promise(py, reactor, Home::here(py)?, future, answer);
    }
    let value = wait(py, reactor, None, future)?;
    answer(py, value)
}

//! Answers for event loops: a future of asyncio's that is done when a future of ours is.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyTuple;
use tokio::task::AbortHandle;

use crate::error::Failure;
use crate::reactor::Reactor;
use crate::wait::wait;

tokio::task_local! {
    /// The event loop of whoever awaits what is running.
    pub(crate) static HOME: Arc<Py<PyAny>>;
}

/// Something to be done on a thread of Python's.
pub(crate) type Letter = Box<dyn FnOnce(Python<'_>) + Send>;

/// Brings letters to event loops, many at a time, on a thread of its own: no thread that runs a guest
/// waits for the interpreter.
#[derive(Clone)]
pub(crate) struct Postman(Sender<(Arc<Py<PyAny>>, Letter)>);

impl Postman {
    pub(crate) fn start() -> std::io::Result<Self> {
        let (sender, receiver) = channel();
        std::thread::Builder::new()
            .name("belljar-postman".into())
            .spawn(move || carry(&receiver))?;
        Ok(Self(sender))
    }

    pub(crate) fn post(&self, home: Arc<Py<PyAny>>, letter: Letter) {
        // It ends with the interpreter only, and then nobody reads.
        let _ = self.0.send((home, letter));
    }
}

fn carry(letters: &Receiver<(Arc<Py<PyAny>>, Letter)>) {
    while let Ok(first) = letters.recv() {
        let mut bags: Vec<(Arc<Py<PyAny>>, Vec<Letter>)> = Vec::new();
        for (home, letter) in std::iter::once(first).chain(letters.try_iter()) {
            match bags.iter_mut().find(|(known, _)| known.is(&*home)) {
                Some((_, bag)) => bag.push(letter),
                None => bags.push((home, vec![letter])),
            }
        }
        let delivered = Python::try_attach(|py| {
            for (home, letters) in bags {
                let bag = Bag(std::sync::Mutex::new(letters));
                // A loop that was closed wants nothing any more.
                let _ = home.call_method1(py, "call_soon_threadsafe", (bag,));
            }
        });
        if delivered.is_none() {
            return;
        }
    }
}

/// Letters for one loop, which are read when it is called there.
#[pyclass(frozen, module = "belljar._belljar")]
struct Bag(std::sync::Mutex<Vec<Letter>>);

#[pymethods]
impl Bag {
    fn __call__(&self, py: Python<'_>) {
        let letters =
            std::mem::take(&mut *self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner));
        for letter in letters {
            letter(py);
        }
    }
}

/// Drops what a future of asyncio's stands for when it is cancelled.
#[pyclass(frozen, module = "belljar._belljar")]
struct Abandon(AbortHandle);

#[pymethods]
impl Abandon {
    fn __call__(&self, future: &Bound<'_, PyAny>) -> PyResult<()> {
        if future.call_method0("cancelled")?.is_truthy()? {
            self.0.abort();
        }
        Ok(())
    }
}

/// The loop that runs on this thread.
pub(crate) fn running_loop(py: Python<'_>) -> PyResult<Py<PyAny>> {
    static RUNNING: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let running = RUNNING.import(py, "asyncio", "_get_running_loop")?.call0()?;
    if running.is_none() {
        return Err(PyRuntimeError::new_err(
            "no event loop runs on this thread: await this inside a coroutine, or call the method \
             without the `a`",
        ));
    }
    Ok(running.unbind())
}

/// A future of asyncio's, for the loop of this thread. Cancelled, it drops `future`.
pub(crate) fn promise<T: Send + 'static>(
    py: Python<'_>,
    reactor: &Arc<Reactor>,
    home: Py<PyAny>,
    future: impl Future<Output = Result<T, Failure>> + Send + 'static,
    answer: impl FnOnce(Python<'_>, T) -> PyResult<Py<PyAny>> + Send + 'static,
) -> PyResult<Py<PyAny>> {
    let call = reactor.enter()?;
    let postman = reactor.postman()?;
    let waiter = home.call_method0(py, "create_future")?;
    let (home, waiting) = (Arc::new(home), waiter.clone_ref(py));
    let closing = Arc::clone(reactor);
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
        postman.post(home, Box::new(letter));
        drop(call);
    });
    let abandon = Abandon(task.abort_handle());
    waiter.call_method1(py, "add_done_callback", PyTuple::new(py, [Py::new(py, abandon)?])?)?;
    Ok(waiter)
}

fn deliver(waiter: &Bound<'_, PyAny>, result: PyResult<Py<PyAny>>) -> PyResult<()> {
    // It may have been cancelled.
    if waiter.call_method0("done")?.is_truthy()? {
        return Ok(());
    }
    match result {
        Ok(value) => waiter.call_method1("set_result", (value,))?,
        Err(error) => waiter.call_method1("set_exception", (error,))?,
    };
    Ok(())
}

/// An answer now, or a future of asyncio's that will be the answer.
pub(crate) fn call<T: Send + 'static>(
    py: Python<'_>,
    reactor: &Arc<Reactor>,
    later: bool,
    future: impl Future<Output = Result<T, Failure>> + Send + 'static,
    answer: impl FnOnce(Python<'_>, T) -> PyResult<Py<PyAny>> + Send + 'static,
) -> PyResult<Py<PyAny>> {
    if later {
        return promise(py, reactor, running_loop(py)?, future, answer);
    }
    let value = wait(py, reactor, None, future)?;
    answer(py, value)
}

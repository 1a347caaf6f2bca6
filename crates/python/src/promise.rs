//! Answers for event loops: a future of asyncio's that is done when a future of ours is.

use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, PoisonError};

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
    pub(crate) static HOME: Arc<Home>;
}

/// Something to be done on the thread of an event loop.
pub(crate) type Letter = Box<dyn FnOnce(Python<'_>) + Send>;

/// An event loop, and how it is reached. A thread that runs guests puts a letter down and rings: it
/// never waits for the interpreter, and the loop reads all that came at once.
pub(crate) struct Home {
    event_loop: Py<PyAny>,
    mailbox: Option<Arc<Mailbox>>,
}

struct Mailbox {
    letters: Mutex<Vec<Letter>>,
    bell: UnixStream,
}

impl Home {
    /// The loop that runs on this thread.
    pub(crate) fn here(py: Python<'_>) -> PyResult<Arc<Self>> {
        static RUNNING: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        let running = RUNNING.import(py, "asyncio", "_get_running_loop")?.call0()?;
        if running.is_none() {
            return Err(PyRuntimeError::new_err(
                "no event loop runs on this thread: await this inside a coroutine, or call the \
                 method without the `a`",
            ));
        }
        let known = homes(py)?.call_method1("get", (&running,))?;
        if let Ok(known) = known.cast::<Reader>() {
            return Ok(Arc::new(Self {
                mailbox: Some(Arc::clone(&known.get().mailbox)),
                event_loop: running.unbind(),
            }));
        }
        Ok(Arc::new(Self {
            mailbox: Mailbox::open(&running)?,
            event_loop: running.unbind(),
        }))
    }

    pub(crate) fn event_loop(&self, py: Python<'_>) -> Py<PyAny> {
        self.event_loop.clone_ref(py)
    }

    pub(crate) fn post(&self, letter: Letter) {
        if let Some(mailbox) = &self.mailbox {
            return mailbox.put(letter);
        }
        // A loop that watches no sockets: those of Windows.
        Python::try_attach(|py| {
            let letter = OneLetter(Mutex::new(Some(letter)));
            // One that was closed wants nothing any more.
            let _ = self.event_loop.call_method1(py, "call_soon_threadsafe", (letter,));
        });
    }
}

/// The mailboxes of loops, which go with them.
fn homes(py: Python<'_>) -> PyResult<&Bound<'_, PyAny>> {
    static HOMES: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let made = HOMES.get_or_try_init(py, || {
        let kind = py.import("weakref")?.getattr("WeakKeyDictionary")?;
        Ok::<_, PyErr>(kind.call0()?.unbind())
    })?;
    Ok(made.bind(py))
}

impl Mailbox {
    /// One that the loop watches; none if it watches no sockets.
    fn open(event_loop: &Bound<'_, PyAny>) -> PyResult<Option<Arc<Self>>> {
        let (bell, heard) = UnixStream::pair()?;
        bell.set_nonblocking(true)?;
        heard.set_nonblocking(true)?;
        let mailbox = Arc::new(Self {
            letters: Mutex::default(),
            bell,
        });
        let number = heard.as_raw_fd();
        let reader = Reader {
            mailbox: Arc::clone(&mailbox),
            heard,
        };
        let reader = Bound::new(event_loop.py(), reader)?;
        if event_loop.call_method1("add_reader", (number, &reader)).is_err() {
            return Ok(None);
        }
        homes(event_loop.py())?.set_item(event_loop, reader)?;
        Ok(Some(mailbox))
    }

    fn put(&self, letter: Letter) {
        let mut letters = self.letters.lock().unwrap_or_else(PoisonError::into_inner);
        letters.push(letter);
        if letters.len() == 1 {
            // Where it is full the loop wakes anyway.
            let _ = (&self.bell).write(&[0]);
        }
    }
}

/// Reads the letters of a loop, when it is called there.
#[pyclass(frozen, module = "belljar._belljar")]
struct Reader {
    mailbox: Arc<Mailbox>,
    heard: UnixStream,
}

#[pymethods]
impl Reader {
    fn __call__(&self, py: Python<'_>) {
        // What is put down after this rings again.
        let _ = (&self.heard).read(&mut [0; 64]);
        let letters = std::mem::take(
            &mut *self.mailbox.letters.lock().unwrap_or_else(PoisonError::into_inner),
        );
        for letter in letters {
            letter(py);
        }
    }
}

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

/// A future of asyncio's, for the loop of this thread. Cancelled, it drops `future`.
pub(crate) fn promise<T: Send + 'static>(
    py: Python<'_>,
    reactor: &Arc<Reactor>,
    home: Arc<Home>,
    future: impl Future<Output = Result<T, Failure>> + Send + 'static,
    answer: impl FnOnce(Python<'_>, T) -> PyResult<Py<PyAny>> + Send + 'static,
) -> PyResult<Py<PyAny>> {
    let call = reactor.enter()?;
    let waiter = home.event_loop.call_method0(py, "create_future")?;
    let waiting = waiter.clone_ref(py);
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
        home.post(Box::new(letter));
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
        return promise(py, reactor, Home::here(py)?, future, answer);
    }
    let value = wait(py, reactor, None, future)?;
    answer(py, value)
}

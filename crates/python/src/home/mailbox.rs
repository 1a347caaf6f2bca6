//! Letters for an event loop.
//!
//! A thread that runs guests posts a letter and wakes the loop; it never waits for the interpreter.
//! Waking a sleeping loop costs the loop, and the run that has to give up its processor, more than
//! reading a letter. So while letters keep coming and there are more active runs than processors,
//! the loop is not woken but polls every millisecond, until it finds no letters.

use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

use super::{Letter, running_loop};

/// Interval of polling in seconds.
const LOOK_AFTER: f64 = 0.001;
/// Number of letters at which the loop is woken although it is polling.
const MANY: usize = 32;

pub(super) struct Mailbox {
    letters: Mutex<Letters>,
    bell: UnixStream,
    /// Number of pending answers.
    expected: AtomicUsize,
    /// With more pending answers than this, all processors are busy.
    enough: usize,
}

#[derive(Default)]
struct Letters {
    held: Vec<Letter>,
    /// The loop was woken, and has not yet read its letters.
    is_rung: bool,
    /// The loop will poll.
    is_watched: bool,
}

/// Mailboxes by loop, removed with the loop.
fn homes(py: Python<'_>) -> PyResult<&Bound<'_, PyAny>> {
    static HOMES: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let made = HOMES.get_or_try_init(py, || {
        let kind = py.import("weakref")?.getattr("WeakKeyDictionary")?;
        Ok::<_, PyErr>(kind.call0()?.unbind())
    })?;
    Ok(made.bind(py))
}

impl Mailbox {
    /// The mailbox of a loop; `None` if the loop watches no sockets.
    pub(super) fn of(event_loop: &Bound<'_, PyAny>) -> PyResult<Option<Arc<Self>>> {
        let py = event_loop.py();
        let known = homes(py)?.call_method1(intern!(py, "get"), (event_loop,))?;
        match known.cast::<Reader>() {
            Ok(known) => Ok(Some(Arc::clone(&known.get().mailbox))),
            Err(_) => Self::open(event_loop),
        }
    }

    /// A socket that the loop watches; `None` if it watches no sockets.
    fn open(event_loop: &Bound<'_, PyAny>) -> PyResult<Option<Arc<Self>>> {
        let (bell, heard) = UnixStream::pair()?;
        bell.set_nonblocking(true)?;
        heard.set_nonblocking(true)?;
        let mailbox = Arc::new(Self {
            letters: Mutex::default(),
            bell,
            expected: AtomicUsize::new(0),
            enough: 2 * std::thread::available_parallelism().map_or(1, usize::from),
        });
        let number = heard.as_raw_fd();
        let reader = Reader {
            mailbox: Arc::clone(&mailbox),
            heard,
            is_awaited: AtomicBool::new(false),
        };
        let reader = Bound::new(event_loop.py(), reader)?;
        if event_loop.call_method1("add_reader", (number, &reader)).is_err() {
            return Ok(None);
        }
        homes(event_loop.py())?.set_item(event_loop, reader)?;
        Ok(Some(mailbox))
    }

    fn lock(&self) -> MutexGuard<'_, Letters> {
        self.letters.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether all processors stay busy until the loop reads these.
    fn is_busy(&self) -> bool {
        self.expected.load(Ordering::Acquire) > self.enough
    }

    /// Registers a pending answer, until [`answered`](Self::answered).
    pub(super) fn expect(&self) {
        self.expected.fetch_add(1, Ordering::AcqRel);
    }

    pub(super) fn answered(&self) {
        self.expected.fetch_sub(1, Ordering::AcqRel);
    }

    pub(super) fn put(&self, letter: Letter) {
        let mut letters = self.lock();
        letters.held.push(letter);
        let may_wait = letters.is_watched && letters.held.len() < MANY && self.is_busy();
        if !letters.is_rung && !may_wait {
            letters.is_rung = true;
            // If the socket's buffer is full, the loop wakes up anyway.
            let _ = (&self.bell).write(&[0]);
        }
    }

    /// Takes all letters. Also returns whether the loop should poll again.
    fn take(&self) -> (Vec<Letter>, bool) {
        let mut letters = self.lock();
        letters.is_rung = false;
        letters.is_watched = !letters.held.is_empty() && self.is_busy();
        (std::mem::take(&mut letters.held), letters.is_watched)
    }
}

/// Reads the letters of a loop; called by the loop.
#[pyclass(frozen, module = "belljar._belljar")]
struct Reader {
    mailbox: Arc<Mailbox>,
    heard: UnixStream,
    /// The loop will call it at the next poll.
    is_awaited: AtomicBool,
}

#[pymethods]
impl Reader {
    /// Called by the loop after a wakeup or poll.
    #[pyo3(signature = (by_itself = false))]
    fn __call__(slf: &Bound<'_, Self>, by_itself: bool) -> PyResult<()> {
        let (py, own) = (slf.py(), slf.get());
        if by_itself {
            own.is_awaited.store(false, Ordering::Relaxed);
        }
        // Letters posted after this wake the loop again.
        let _ = (&own.heard).read(&mut [0; 64]);
        let (letters, is_watched) = own.mailbox.take();
        // Before reading, which takes time.
        if is_watched && !own.is_awaited.swap(true, Ordering::Relaxed) {
            let arguments = (LOOK_AFTER, slf, true);
            let looking = running_loop(py)?.call_method1(intern!(py, "call_later"), arguments);
            if looking.is_err() {
                own.is_awaited.store(false, Ordering::Relaxed);
                own.mailbox.lock().is_watched = false;
            }
        }
        for letter in letters {
            letter(py);
        }
        Ok(())
    }
}

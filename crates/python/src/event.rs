//! Passes events of a run to a function of the caller.

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use belljar::event::{Event, EventReader, event_channel};
use belljar::{Interrupt, Request};
use pyo3::prelude::*;
use tokio::sync::Semaphore;
use tokio::task::AbortHandle;

use crate::error::Failure;
use crate::home::{Home, Letter};
use crate::json;
use crate::promise::{HOME, promise};
use crate::reactor::Reactor;

/// Maximum number of pending events; the guest waits while there are more.
const MAX_ON_THE_WAY: usize = 256;
/// Interval between checks for signals while waiting.
const TICK: Duration = Duration::from_millis(50);

/// The events of a request, and their receiver.
pub(crate) struct Watched {
    events: EventReader,
    callback: Arc<Py<PyAny>>,
    switch: Interrupt,
    failed: Failed,
}

/// The first exception that the function raised.
type Failed = Arc<Mutex<Option<PyErr>>>;

impl Watched {
    /// Calls `callback` with the events of a request.
    pub(crate) fn new(
        request: Request,
        callback: Py<PyAny>,
        switch: &Interrupt,
    ) -> (Request, Self) {
        let (watcher, events) = event_channel();
        let own = Self {
            events,
            callback: Arc::new(callback),
            switch: switch.clone(),
            failed: Failed::default(),
        };
        (request.watch(watcher), own)
    }

    /// Waits on this thread, and calls the function on it.
    pub(crate) fn wait<T: Send + 'static>(
        self,
        py: Python<'_>,
        reactor: &Arc<Reactor>,
        run: impl Future<Output = Result<T, Failure>> + Send + 'static,
    ) -> PyResult<T> {
        let call = reactor.enter()?;
        let (sender, receiver) = channel();
        let (outbox, closing) = (Outbox::thread(sender.clone()), Arc::clone(reactor));
        let (failed, switch) = (Arc::clone(&self.failed), self.switch.clone());
        let task = reactor.handle().spawn(async move {
            let result = tokio::select! {
                biased;
                result = self.pump(run, outbox) => result,
                () = closing.closed() => Err(Failure::Closed),
            };
            let _ = sender.send(Mail::Ended(result));
        });
        let _task = AbortOnDrop(task.abort_handle());
        let receiver = Mutex::new(receiver);
        let result = loop {
            let mail = py.detach(|| {
                receiver.lock().unwrap_or_else(PoisonError::into_inner).recv_timeout(TICK)
            });
            match mail {
                Ok(Mail::Letter(letter)) => letter(py),
                Ok(Mail::Ended(result)) => break result,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break Err(Failure::Closed),
            }
            if let Err(error) = py.check_signals() {
                if fail(&failed, error.clone_ref(py)) {
                    return Err(error);
                }
                switch.interrupt();
            }
        };
        drop(call);
        finish(&failed, result).map_err(PyErr::from)
    }

    /// Returns an asyncio future; calls the function on its loop.
    pub(crate) fn promise<T: Send + 'static>(
        self,
        py: Python<'_>,
        reactor: &Arc<Reactor>,
        home: Arc<Home>,
        run: impl Future<Output = Result<T, Failure>> + Send + 'static,
        answer: impl FnOnce(Python<'_>, T) -> PyResult<Py<PyAny>> + Send + 'static,
    ) -> PyResult<Py<PyAny>> {
        let failed = Arc::clone(&self.failed);
        let pumped = async move {
            let home = HOME.with(Arc::clone);
            self.pump(run, Outbox::Loop(home)).await
        };
        let answer = move |py: Python<'_>, value: T| match take(&failed) {
            Some(error) => Err(error),
            None => answer(py, value),
        };
        promise(py, reactor, home, pumped, answer)
    }

    /// Runs, and posts events as they come.
    async fn pump<T>(mut self, run: impl Future<Output = T>, outbox: Outbox) -> T {
        let mut run = std::pin::pin!(run);
        let room = Arc::new(Semaphore::new(MAX_ON_THE_WAY));
        let result = loop {
            let next = tokio::select! {
                event = self.events.next() => event,
                result = run.as_mut() => break result,
            };
            let Some(event) = next else {
                break run.await;
            };
            // Both continue: the run may end, or be interrupted, while the queue is full.
            let mut post = std::pin::pin!(self.post(&room, &outbox, event));
            tokio::select! {
                () = post.as_mut() => {}
                result = run.as_mut() => {
                    post.await;
                    break result;
                }
            }
        };
        // Other senders may exist, but all remaining events are already queued.
        while let Ok(Some(event)) = tokio::time::timeout(Duration::ZERO, self.events.next()).await {
            self.post(&room, &outbox, event).await;
        }
        // All events are delivered before the answer.
        result
    }

    async fn post(&self, room: &Arc<Semaphore>, outbox: &Outbox, event: Event) {
        let permit = Arc::clone(room).acquire_owned().await;
        let (callback, failed) = (Arc::clone(&self.callback), Arc::clone(&self.failed));
        let switch = self.switch.clone();
        outbox.post(Box::new(move |py| {
            let _permit = permit;
            if failed.lock().unwrap_or_else(PoisonError::into_inner).is_some() {
                return;
            }
            if let Err(error) = tell(py, &callback, &event) {
                fail(&failed, error);
                switch.interrupt();
            }
        }));
    }
}

fn tell(py: Python<'_>, callback: &Py<PyAny>, event: &Event) -> PyResult<()> {
    let event = serde_json::to_value(event).unwrap_or_default();
    callback.call1(py, (json::to_py(py, &event)?,))?;
    Ok(())
}

/// Records an exception. Returns whether it is not the first.
fn fail(failed: &Failed, error: PyErr) -> bool {
    let mut failed = failed.lock().unwrap_or_else(PoisonError::into_inner);
    let before = failed.is_some();
    failed.get_or_insert(error);
    before
}

fn take(failed: &Failed) -> Option<PyErr> {
    failed.lock().unwrap_or_else(PoisonError::into_inner).take()
}

fn finish<T>(failed: &Failed, result: Result<T, Failure>) -> Result<T, Failure> {
    match take(failed) {
        Some(error) => Err(Failure::Python(error)),
        None => result,
    }
}

enum Mail<T> {
    Letter(Letter),
    Ended(Result<T, Failure>),
}

/// The receiver of letters.
enum Outbox {
    /// A waiting thread.
    Thread(Box<dyn Fn(Letter) + Send + Sync>),
    /// An event loop.
    Loop(Arc<Home>),
}

impl Outbox {
    fn thread<T: Send + 'static>(sender: Sender<Mail<T>>) -> Self {
        Self::Thread(Box::new(move |letter| {
            // If the thread has given up, the letter is lost.
            let _ = sender.send(Mail::Letter(letter));
        }))
    }

    fn post(&self, letter: Letter) {
        match self {
            Self::Thread(send) => send(letter),
            Self::Loop(home) => home.post(letter),
        }
    }
}

struct AbortOnDrop(AbortHandle);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

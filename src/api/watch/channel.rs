//! Passes events to a reader that may be slower than the guest.

use std::collections::VecDeque;
use std::mem;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::timeout;

use super::{OutputWatcher, Room, Stream};
use crate::api::outcome::event::{Event, EventKind};
use crate::limits::{MAX_EVENT_WAIT, MAX_WAITING_EVENT_BYTES, MAX_WAITING_EVENTS};

/// Creates a watcher and a reader of its events.
///
/// The guest cannot run far ahead of its reader. While 1,024 events or 8 MiB are unread, the guest
/// waits, at most one second, and its thread runs other work. After that second the guest continues
/// and events are dropped. An event in their place says how many ([`EventKind::Dropped`]). `Error`
/// and `Ended` are never dropped.
///
/// ```no_run
/// # async fn example(runtime: belljar::Runtime) -> Result<(), belljar::Error> {
/// use belljar::Request;
/// use belljar::event::EventKind;
///
/// let (watcher, mut events) = belljar::event::event_channel();
/// let request = Request::new("for n in range(3):\n    print(n)").watch(watcher);
/// let run = tokio::spawn(async move { runtime.run(request).await });
/// while let Some(event) = events.next().await {
///     if let EventKind::Stdout { text } = event.kind {
///         print!("{text}");
///     }
/// }
/// let run = run.await.expect("no panic")?;
/// # Ok(())
/// # }
/// ```
pub fn event_channel() -> (Arc<dyn OutputWatcher>, EventReader) {
    let shared = Arc::new(Shared::default());
    (Arc::new(Sender(Arc::clone(&shared))), EventReader(shared))
}

/// The receiver of an [`event_channel`]. After it is dropped, the guest runs without waiting for
/// it.
#[derive(Debug)]
pub struct EventReader(Arc<Shared>);

struct Sender(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    queue: Mutex<Queue>,
    /// Wakes an asynchronous reader.
    arrived: Notify,
    /// Wakes a blocking reader.
    unblocked: Condvar,
    /// Wakes a guest that waits for room.
    taken: Notify,
}

#[derive(Debug, Default)]
struct Queue {
    events: VecDeque<Event>,
    bytes: usize,
    /// Number and bytes of dropped events.
    dropped: (u64, u64),
    /// Whether a reader waits for an event.
    reader_waits: bool,
    /// Whether a reader was woken and has not run yet.
    reader_woken: bool,
    /// Whether the guest waited its full time and the reader has read nothing since.
    stalled: bool,
    sender_gone: bool,
    reader_gone: bool,
}

impl EventReader {
    /// Waits for the next event. Returns `None` when the request and its clones are dropped, after
    /// the last event of the run.
    pub async fn next(&mut self) -> Option<Event> {
        loop {
            if let Poll::Ready(next) = self.0.lock().take(&self.0.taken) {
                return next;
            }
            self.0.arrived.notified().await;
        }
    }

    /// Like [`next`](Self::next), but blocks the thread.
    pub fn next_blocking(&mut self) -> Option<Event> {
        let mut queue = self.0.lock();
        loop {
            if let Poll::Ready(next) = queue.take(&self.0.taken) {
                return next;
            }
            queue = self.0.unblocked.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Returns the next event, if one is available.
    pub fn try_next(&mut self) -> Option<Event> {
        match self.0.lock().take(&self.0.taken) {
            Poll::Ready(next) => next,
            Poll::Pending => None,
        }
    }
}

impl Drop for EventReader {
    fn drop(&mut self) {
        let mut queue = self.0.lock();
        queue.reader_gone = true;
        queue.events.clear();
        drop(queue);
        self.0.taken.notify_one();
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        self.0.lock().sender_gone = true;
        self.0.wake_reader();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wake_reader(&self) {
        self.arrived.notify_one();
        self.unblocked.notify_one();
    }
}

impl OutputWatcher for Sender {
    fn write(&self, _: Stream, _: &[u8]) {}

    fn wants_events(&self) -> bool {
        true
    }

    fn event(&self, event: &Event) {
        let wakes = self.0.lock().put(event);
        if wakes {
            self.0.wake_reader();
        }
    }

    fn room(&self) -> Option<Room<'_>> {
        let mut queue = self.0.lock();
        if queue.is_full() && !queue.stalled && !queue.reader_gone {
            return Some(Box::pin(self.wait_for_room()));
        }
        // A reader that this thread has woken may run next on this thread.
        mem::take(&mut queue.reader_woken)
            .then(|| -> Room<'_> { Box::pin(tokio::task::yield_now()) })
    }
}

impl Sender {
    async fn wait_for_room(&self) {
        let read = async {
            loop {
                self.0.taken.notified().await;
                let queue = self.0.lock();
                if !queue.is_full() || queue.reader_gone {
                    return;
                }
            }
        };
        if timeout(MAX_EVENT_WAIT, read).await.is_err() {
            let mut queue = self.0.lock();
            queue.stalled = queue.is_full();
        }
    }
}

impl Queue {
    /// Takes the next event. Records that a reader waits if there is no event but more may come.
    fn take(&mut self, taken: &Notify) -> Poll<Option<Event>> {
        match self.events.pop_front() {
            Some(event) => {
                self.bytes -= event.kind.size();
                self.stalled = false;
                taken.notify_one();
                Poll::Ready(Some(event))
            }
            None if self.sender_gone => Poll::Ready(None),
            None => {
                self.reader_waits = true;
                Poll::Pending
            }
        }
    }

    /// Adds an event. Returns whether a waiting reader must be woken.
    fn put(&mut self, event: &Event) -> bool {
        if self.reader_gone {
            return false;
        }
        let size = event.kind.size();
        let is_last = matches!(event.kind, EventKind::Error { .. } | EventKind::Ended { .. });
        let fits = self.events.is_empty()
            || (!self.is_full() && self.bytes + size <= MAX_WAITING_EVENT_BYTES);
        if !is_last && !fits {
            self.dropped = (self.dropped.0 + 1, self.dropped.1 + size as u64);
            return false;
        }
        self.tell_dropped(event.at);
        if self.events.back_mut().is_some_and(|last| last.kind.join(&event.kind)) {
            self.bytes += size - EventKind::LEAST;
        } else {
            self.bytes += size;
            self.events.push_back(event.clone());
        }
        self.reader_woken |= self.reader_waits;
        mem::take(&mut self.reader_waits)
    }

    fn tell_dropped(&mut self, at: Duration) {
        let (events, bytes) = mem::take(&mut self.dropped);
        if events > 0 {
            let kind = EventKind::Dropped { events, bytes };
            self.bytes += kind.size();
            self.events.push_back(Event { at, kind });
        }
    }

    fn is_full(&self) -> bool {
        self.events.len() >= MAX_WAITING_EVENTS || self.bytes >= MAX_WAITING_EVENT_BYTES
    }
}

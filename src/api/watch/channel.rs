//! Events for a reader elsewhere, which may be slower than the guest.

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

/// Makes a watcher, and the reader of the events that it sees.
///
/// The guest does not run far ahead of its reader. When 1,024 events or 8 MiB of them wait to be
/// read, the guest waits too, and others have its thread: until something is read, but never longer
/// than a second. After that it goes on, what happens is dropped, and an event in its place says
/// how much ([`EventKind::Dropped`]); `Error` and `Ended` are never dropped.
///
/// ```no_run
/// # async fn example(runtime: belljar::Runtime) -> Result<(), belljar::Error> {
/// use belljar::{EventKind, Request};
///
/// let (watcher, mut events) = belljar::event_channel();
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

/// The reading end of an [`event_channel`]. When it is dropped, the guest goes on without it.
#[derive(Debug)]
pub struct EventReader(Arc<Shared>);

struct Sender(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    queue: Mutex<Queue>,
    /// Wakes a reader that awaits.
    arrived: Notify,
    /// Wakes a reader that blocks its thread.
    unblocked: Condvar,
    /// Wakes a guest that waits for room.
    taken: Notify,
}

#[derive(Debug, Default)]
struct Queue {
    events: VecDeque<Event>,
    bytes: usize,
    /// Events and bytes that there was no room for.
    dropped: (u64, u64),
    /// A reader waits for an event.
    reader_waits: bool,
    /// A reader was woken, and has yet to be given a turn.
    reader_woken: bool,
    /// Nothing was read for as long as a guest waits, nor since.
    stalled: bool,
    sender_gone: bool,
    reader_gone: bool,
}

impl EventReader {
    /// The next event, waited for; `None` when the request and all its copies are gone, which is
    /// after the last event of a run.
    pub async fn next(&mut self) -> Option<Event> {
        loop {
            if let Poll::Ready(next) = self.0.lock().take(&self.0.taken) {
                return next;
            }
            self.0.arrived.notified().await;
        }
    }

    /// The same, blocking this thread.
    pub fn next_blocking(&mut self) -> Option<Event> {
        let mut queue = self.0.lock();
        loop {
            if let Poll::Ready(next) = queue.take(&self.0.taken) {
                return next;
            }
            queue = self.0.unblocked.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// The next event, if there is one.
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
        // A reader that this thread has woken may be next on this very thread.
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
    /// Takes the next event; a reader that finds none and could still get one is noted.
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

    /// Takes an event in; whether a reader that waits has to be woken.
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

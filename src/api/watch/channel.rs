//! Passes the turns of a run, mostly events, to a reader that may be slower than the guest.

use std::collections::VecDeque;
use std::mem;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::Duration;

use tokio::sync::{Notify, oneshot};
use tokio::time::timeout;

use super::{OutputWatcher, Room, Stream, Turn};
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
    let reader = TurnReader::default();
    (reader.watcher(), EventReader(reader))
}

/// The receiver of an [`event_channel`]. After it is dropped, the guest runs without waiting for
/// it.
#[derive(Debug)]
pub struct EventReader(TurnReader);

/// The receiver of all turns.
#[derive(Debug, Default)]
pub(crate) struct TurnReader(Arc<Shared>);

/// The sender of calls and questions.
#[derive(Clone)]
pub(crate) struct Asker(Arc<Shared>);

/// The sender of events. Nothing is sent after it is dropped.
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
    turns: VecDeque<Turn>,
    /// Size of the events. Limits on tools bound the size of the calls.
    bytes: usize,
    /// Number and bytes of dropped events.
    dropped: (u64, u64),
    /// Whether a reader waits for a turn.
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
        self.0.next().await.and_then(event)
    }

    /// Like [`next`](Self::next), but blocks the thread.
    pub fn next_blocking(&mut self) -> Option<Event> {
        let shared = &self.0.0;
        let mut queue = shared.lock();
        loop {
            if let Poll::Ready(next) = queue.take(&shared.taken) {
                return next.and_then(event);
            }
            queue = shared.unblocked.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Returns the next event, if one is available.
    pub fn try_next(&mut self) -> Option<Event> {
        let shared = &self.0.0;
        match shared.lock().take(&shared.taken) {
            Poll::Ready(next) => next.and_then(event),
            Poll::Pending => None,
        }
    }
}

/// Returns the event of a turn. A channel without an [`Asker`] has no other turns.
fn event(turn: Turn) -> Option<Event> {
    match turn {
        Turn::Event(event) => Some(event),
        Turn::Call(_) | Turn::Question(_) => None,
    }
}

impl TurnReader {
    /// Waits for the next turn. Returns `None` after the last.
    pub(crate) async fn next(&mut self) -> Option<Turn> {
        loop {
            if let Poll::Ready(next) = self.0.lock().take(&self.0.taken) {
                return next;
            }
            self.0.arrived.notified().await;
        }
    }

    /// Returns a watcher whose events are turns.
    pub(crate) fn watcher(&self) -> Arc<dyn OutputWatcher> {
        Arc::new(Sender(Arc::clone(&self.0)))
    }

    pub(crate) fn asker(&self) -> Asker {
        Asker(Arc::clone(&self.0))
    }
}

impl Drop for TurnReader {
    fn drop(&mut self) {
        let mut queue = self.0.lock();
        queue.reader_gone = true;
        let left = mem::take(&mut queue.turns);
        drop(queue);
        self.0.taken.notify_one();
        // Without the lock: unanswered calls wake their run.
        drop(left);
    }
}

impl Asker {
    /// Adds a turn and waits for its answer. Returns `None` if the turn is dropped without one.
    pub(crate) async fn ask<T>(self, turn: impl FnOnce(oneshot::Sender<T>) -> Turn) -> Option<T> {
        // The event of a call comes first, and is noted when this future is first pending.
        tokio::task::yield_now().await;
        let (answer, answered) = oneshot::channel();
        let wakes = self.0.lock().put_turn(turn(answer));
        if wakes {
            self.0.wake_reader();
        }
        answered.await.ok()
    }

    /// Ends the turns.
    pub(crate) fn close(&self) {
        self.0.lock().sender_gone = true;
        self.0.wake_reader();
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        Asker(Arc::clone(&self.0)).close();
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
    /// Takes the next turn. Records that a reader waits if the queue is empty but more may come.
    fn take(&mut self, taken: &Notify) -> Poll<Option<Turn>> {
        while let Some(turn) = self.turns.pop_front() {
            if let Turn::Event(event) = &turn {
                self.bytes -= event.kind.size();
            }
            self.stalled = false;
            taken.notify_one();
            if !turn.is_over() {
                return Poll::Ready(Some(turn));
            }
        }
        if self.sender_gone {
            return Poll::Ready(None);
        }
        self.reader_waits = true;
        Poll::Pending
    }

    /// Adds a turn that waits for an answer. Returns whether a waiting reader must be woken.
    fn put_turn(&mut self, turn: Turn) -> bool {
        if self.reader_gone {
            return false;
        }
        // Otherwise a guest that cancels its calls would fill the queue.
        self.turns.retain(|turn| !turn.is_over());
        self.turns.push_back(turn);
        mem::take(&mut self.reader_waits)
    }

    /// Adds an event. Returns whether a waiting reader must be woken.
    fn put(&mut self, event: &Event) -> bool {
        if self.reader_gone {
            return false;
        }
        let size = event.kind.size();
        let is_last = matches!(event.kind, EventKind::Error { .. } | EventKind::Ended { .. });
        let fits = self.turns.is_empty()
            || (!self.is_full() && self.bytes + size <= MAX_WAITING_EVENT_BYTES);
        if !is_last && !fits {
            self.dropped = (self.dropped.0 + 1, self.dropped.1 + size as u64);
            return false;
        }
        self.tell_dropped(event.at);
        let last = self.turns.back_mut();
        if let Some(Turn::Event(last)) = last
            && last.kind.join(&event.kind)
        {
            self.bytes += size - EventKind::LEAST;
        } else {
            self.bytes += size;
            self.turns.push_back(Turn::Event(event.clone()));
        }
        self.reader_woken |= self.reader_waits;
        mem::take(&mut self.reader_waits)
    }

    fn tell_dropped(&mut self, at: Duration) {
        let (events, bytes) = mem::take(&mut self.dropped);
        if events > 0 {
            let kind = EventKind::Dropped { events, bytes };
            self.bytes += kind.size();
            self.turns.push_back(Turn::Event(Event { at, kind }));
        }
    }

    fn is_full(&self) -> bool {
        self.turns.len() >= MAX_WAITING_EVENTS || self.bytes >= MAX_WAITING_EVENT_BYTES
    }
}

//! Records the events of a run in order, for its watcher and its outcome.
//!
//! Writes to the output streams and frames through the door come from the guest's thread, one after
//! another, and are recorded as they come, so the order is exact.

use std::mem;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use belljar_text::unfinished;

use super::clock::SteppingClock;
use super::control::StopReason;
use crate::api::outcome::ErrorKind;
use crate::api::outcome::event::{Event, EventKind};
use crate::api::watch::{OutputWatcher, Stream};
use crate::limits::{MAX_EVENT_BYTES, MAX_EVENTS};

/// The receivers of a run's events.
#[derive(Clone, Default)]
pub(crate) struct Audience {
    pub watcher: Option<Arc<dyn OutputWatcher>>,
    /// Whether the outcome lists events.
    pub lists: bool,
    /// Whether the watcher already knows that the run has started.
    pub knows: bool,
}

/// Records the events of consecutive runs.
#[derive(Default)]
pub(crate) struct Recorder {
    /// Whether there is any receiver.
    on: AtomicBool,
    /// Whether any event after the start was sent.
    told: AtomicBool,
    open: Mutex<Open>,
}

/// A run.
struct Open {
    audience: Audience,
    /// Whether events are wanted, or only output.
    takes_events: bool,
    started: Instant,
    clock: Option<(SteppingClock, Duration)>,
    /// Incomplete UTF-8 characters at the end of each stream.
    partial: [Vec<u8>; 2],
    /// Whether standard error currently receives the traceback of the error that ends the code.
    reports_error: bool,
    list: List,
}

/// The events of an outcome.
#[derive(Debug, Default)]
pub(crate) struct List {
    pub events: Vec<Event>,
    /// Whether events were omitted.
    pub cut: bool,
    bytes: usize,
}

impl Default for Open {
    fn default() -> Self {
        Self {
            audience: Audience::default(),
            takes_events: false,
            started: Instant::now(),
            clock: None,
            partial: Default::default(),
            reports_error: false,
            list: List::default(),
        }
    }
}

impl Recorder {
    /// Starts a run. Times count from `started`, or from now on `clock`.
    pub(crate) fn begin(
        &self,
        audience: Audience,
        started: Instant,
        clock: Option<&SteppingClock>,
    ) {
        let wants_events = audience.watcher.as_ref().is_some_and(|w| w.wants_events());
        let takes_events = audience.lists || wants_events;
        self.on.store(takes_events || audience.watcher.is_some(), Ordering::Release);
        *self.lock() = Open {
            audience,
            takes_events,
            started,
            clock: clock.map(|clock| (clock.clone(), clock.elapsed())),
            ..Open::default()
        };
        self.told.store(false, Ordering::Release);
        self.note(EventKind::Started);
    }

    /// Whether any event after the start was sent: the run then cannot be restarted unnoticed.
    pub(crate) fn has_told(&self) -> bool {
        self.told.load(Ordering::Acquire)
    }

    /// Whether there is any receiver.
    pub(super) fn is_on(&self) -> bool {
        self.on.load(Ordering::Acquire)
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records an event.
    pub(crate) fn note(&self, kind: EventKind) {
        if !self.is_on() {
            return;
        }
        let mut open = self.lock();
        if !open.takes_events {
            return;
        }
        let begins = matches!(kind, EventKind::Started);
        let event = open.event(kind);
        let watcher = open.audience.watcher.clone().filter(|w| w.wants_events());
        let told = watcher.filter(|_| !(begins && open.audience.knows));
        match told {
            Some(watcher) => {
                self.told.fetch_or(!begins, Ordering::AcqRel);
                open.list_copy(&event);
                drop(open);
                watcher.event(&event);
            }
            None => open.list(event),
        }
    }

    /// Records output to a stream. `is_cut` means that no further output of it is shown.
    pub(super) fn wrote(&self, stream: Stream, bytes: &[u8], is_cut: bool) {
        if !self.is_on() {
            return;
        }
        let mut open = self.lock();
        let watcher = open.audience.watcher.clone().filter(|_| !bytes.is_empty());
        let text = open.text(stream, bytes, is_cut);
        drop(open);
        if let Some(watcher) = watcher {
            self.told.store(true, Ordering::Release);
            watcher.write(stream, bytes);
        }
        if let Some(text) = text {
            self.note(written(stream, text));
        }
    }

    /// Until the next call, standard error receives the traceback of the error that ends the code,
    /// which has its own event.
    pub(crate) fn report_error(&self, begins: bool) {
        self.lock().reports_error = begins;
    }

    /// Returns the watcher that the guest must wait for.
    pub(crate) fn watcher(&self) -> Option<Arc<dyn OutputWatcher>> {
        if !self.is_on() {
            return None;
        }
        self.lock().audience.watcher.clone().filter(|w| w.wants_events())
    }

    /// Returns the receivers of events.
    pub(crate) fn audience(&self) -> Option<Audience> {
        let open = self.lock();
        open.takes_events.then(|| {
            let watcher = open.audience.watcher.clone().filter(|w| w.wants_events());
            Audience {
                watcher,
                ..open.audience
            }
        })
    }

    /// Records incomplete characters at the end of the output.
    pub(crate) fn end_text(&self) {
        if !self.is_on() {
            return;
        }
        let partial = mem::take(&mut self.lock().partial);
        for (stream, bytes) in [Stream::Stdout, Stream::Stderr].into_iter().zip(partial) {
            if !bytes.is_empty() {
                self.note(written(stream, String::from_utf8_lossy(&bytes).into_owned()));
            }
        }
    }

    /// Ends the run and takes its list of events.
    pub(crate) fn end(&self) -> Option<List> {
        if !self.on.swap(false, Ordering::AcqRel) {
            return None;
        }
        let open = mem::take(&mut *self.lock());
        open.audience.lists.then_some(open.list)
    }
}

fn written(stream: Stream, text: String) -> EventKind {
    match stream {
        Stream::Stdout => EventKind::Stdout { text },
        Stream::Stderr => EventKind::Stderr { text },
    }
}

impl Open {
    fn event(&self, kind: EventKind) -> Event {
        let at = match &self.clock {
            Some((clock, was)) => clock.elapsed().saturating_sub(*was),
            None => self.started.elapsed(),
        };
        // Rounded to the precision of the output format.
        let at = Duration::from_micros(at.as_micros().try_into().unwrap_or(u64::MAX));
        Event { at, kind }
    }

    /// Returns the text that is complete with these bytes, if events are wanted and there is any.
    fn text(&mut self, stream: Stream, bytes: &[u8], is_cut: bool) -> Option<String> {
        if !self.takes_events || (stream == Stream::Stderr && self.reports_error) {
            return None;
        }
        let partial = &mut self.partial[usize::from(stream == Stream::Stderr)];
        partial.extend_from_slice(bytes);
        let whole = partial.len() - unfinished(partial);
        let text = String::from_utf8_lossy(&partial[..whole]).into_owned();
        partial.drain(..whole);
        if is_cut {
            partial.clear();
        }
        Some(text).filter(|text| !text.is_empty())
    }

    fn list(&mut self, event: Event) {
        if !self.audience.lists || self.list.join(&event) {
            return;
        }
        self.list.push(event);
    }

    fn list_copy(&mut self, event: &Event) {
        if self.audience.lists && !self.list.join(event) {
            self.list.push(event.clone());
        }
    }
}

impl List {
    /// Appends text to the previous event of the same stream. Returns whether it did.
    fn join(&mut self, event: &Event) -> bool {
        let more = event.kind.size() - EventKind::LEAST;
        if self.cut || self.bytes + more > MAX_EVENT_BYTES {
            return false;
        }
        let is_joined = self.events.last_mut().is_some_and(|last| last.kind.join(&event.kind));
        self.bytes += if is_joined { more } else { 0 };
        is_joined
    }

    fn push(&mut self, event: Event) {
        let is_last = matches!(event.kind, EventKind::Error { .. } | EventKind::Ended { .. });
        let size = event.kind.size();
        self.cut |=
            !is_last && (self.events.len() >= MAX_EVENTS || self.bytes + size > MAX_EVENT_BYTES);
        if is_last || !self.cut {
            self.bytes += size;
            self.events.push(event);
        }
    }
}

impl From<StopReason> for ErrorKind {
    fn from(reason: StopReason) -> Self {
        match reason {
            StopReason::Timeout => Self::Timeout,
            StopReason::Fuel => Self::Fuel,
            StopReason::Output => Self::Output,
            StopReason::Interrupted => Self::Interrupted,
            StopReason::Waiting => Self::Waiting,
        }
    }
}

//! Watching output and events during a run.

mod channel;

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

pub(crate) use self::channel::{Asker, TurnReader};
pub use self::channel::{EventReader, event_channel};
use crate::api::outcome::event::Event;
use crate::api::tool::{Call, Question};

/// One of the two output streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// A future that resolves when a watcher has room.
pub type Room<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

/// Receives output and events during a run. The methods are called on the thread that runs the
/// guest, so they must not block for long. A slow reader should use an
/// [`event_channel`](crate::event::event_channel) instead.
pub trait OutputWatcher: Send + Sync {
    /// Called after `bytes` were written to `stream`. The bytes may end inside a character. Output
    /// past the limit is not passed on.
    fn write(&self, stream: Stream, bytes: &[u8]);

    /// Whether [`event`](Self::event) should be called. Default: no. If so, displayed values arrive
    /// as events and are not printed.
    fn wants_events(&self) -> bool {
        false
    }

    /// Called for each event. Output also arrives here, as text.
    fn event(&self, event: &Event) {
        let _ = event;
    }

    /// Called after an event. The guest waits for the returned future before it continues, and its
    /// thread runs other work. The wait counts towards the run's time limit, and an interrupt ends
    /// it.
    fn room(&self) -> Option<Room<'_>> {
        None
    }
}

/// One step of a [started](crate::event::Running) run, for its caller.
#[derive(Debug)]
#[non_exhaustive]
pub enum Turn {
    /// An event.
    Event(Event),
    /// A call of a tool without a function. Its event `tool_call` is an earlier turn.
    Call(Call),
    /// A call of `input()`.
    Question(Question),
}

impl Turn {
    /// Whether the turn concerns a call that has ended.
    fn is_over(&self) -> bool {
        match self {
            Self::Event(_) => false,
            Self::Call(call) => !call.is_open(),
            Self::Question(question) => !question.is_open(),
        }
    }
}

/// The watcher of a request. Two watchers are equal if they are the same object.
#[derive(Clone)]
pub struct Watcher(pub(crate) Arc<dyn OutputWatcher>);

impl fmt::Debug for Watcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Watcher")
    }
}

impl PartialEq for Watcher {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

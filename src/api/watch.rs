//! Who sees what happens while it does.

mod channel;

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

pub use self::channel::{EventReader, event_channel};
use crate::api::outcome::event::Event;

/// One of the two output streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// The time until a watcher has room.
pub type Room<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

/// Sees what happens as it does. It is called on the thread that runs the guest, so it must not
/// block for long. Whoever cannot keep up with that reads from an
/// [`event_channel`](crate::event_channel) instead.
pub trait OutputWatcher: Send + Sync {
    /// `bytes` were written to `stream`; they may end within a character. What is past the limit is
    /// not shown.
    fn write(&self, stream: Stream, bytes: &[u8]);

    /// Whether [`event`](Self::event) is to be called, which by default it is not. If so, what the
    /// code displays comes as events, and is not printed.
    fn wants_events(&self) -> bool {
        false
    }

    /// Something happened. Output comes here too, as text.
    fn event(&self, event: &Event) {
        let _ = event;
    }

    /// After an event: something for the guest to wait for, with its thread given to others, before
    /// it goes on. The time counts against its limit, and an interrupt ends the wait.
    fn room(&self) -> Option<Room<'_>> {
        None
    }
}

/// The watcher of a request. Two are equal when they are the same one.
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

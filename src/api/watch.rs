//! Who sees output as it is written.

use std::fmt;
use std::sync::Arc;

/// One of the two output streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// Sees output as it is written. It is called on the thread that runs the guest, so it must not
/// block for long; what is past the limit is not shown.
pub trait OutputWatcher: Send + Sync {
    /// `bytes` were written to `stream`; they may end within a character.
    fn write(&self, stream: Stream, bytes: &[u8]);
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

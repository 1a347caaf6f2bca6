//! Progress notifications: the last line that a run has printed.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use belljar::event::{OutputWatcher, Stream};
use rmcp::model::{ProgressNotificationParam, ProgressToken};
use rmcp::{Peer, RoleServer};
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use belljar_text::line_of;

use crate::lock::lock;

/// Minimum interval between notifications.
const PAUSE: Duration = Duration::from_millis(100);
/// Maximum length of a line, in bytes and in characters.
const MAX_LINE: usize = 4 << 10;
const MAX_MESSAGE: usize = 200;

/// Sends one run's progress to one client until it is dropped.
pub(super) struct Teller {
    printed: Arc<Printed>,
    telling: JoinHandle<()>,
}

/// The latest output.
#[derive(Default)]
struct Printed {
    lines: Mutex<Lines>,
    changed: Notify,
}

#[derive(Default)]
struct Lines {
    /// Number of complete lines.
    count: u64,
    last: Vec<u8>,
    /// The incomplete line.
    open: Vec<u8>,
}

impl Teller {
    pub(super) fn begin(peer: Peer<RoleServer>, token: ProgressToken) -> Self {
        let printed = Arc::new(Printed::default());
        let telling = tokio::spawn(tell(Arc::clone(&printed), peer, token));
        Self { printed, telling }
    }

    /// The watcher of the run's output.
    pub(super) fn watcher(&self) -> Arc<dyn OutputWatcher> {
        Arc::clone(&self.printed) as _
    }
}

impl Drop for Teller {
    fn drop(&mut self) {
        self.telling.abort();
    }
}

impl OutputWatcher for Printed {
    fn write(&self, _: Stream, bytes: &[u8]) {
        let mut lines = lock(&self.lines);
        if lines.take(bytes) {
            self.changed.notify_one();
        }
    }
}

impl Lines {
    /// Returns whether a line was completed.
    fn take(&mut self, bytes: &[u8]) -> bool {
        let mut has_ended = false;
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            let (text, ends) = match piece.strip_suffix(b"\n") {
                Some(text) => (text, true),
                None => (piece, false),
            };
            let room = MAX_LINE.saturating_sub(self.open.len());
            self.open.extend_from_slice(&text[..text.len().min(room)]);
            if ends {
                self.count += 1;
                has_ended = true;
                self.last = std::mem::take(&mut self.open);
            }
        }
        has_ended
    }
}

async fn tell(printed: Arc<Printed>, peer: Peer<RoleServer>, token: ProgressToken) {
    loop {
        printed.changed.notified().await;
        let (count, line) = {
            let lines = lock(&printed.lines);
            (lines.count, String::from_utf8_lossy(&lines.last).into_owned())
        };
        let told = ProgressNotificationParam::new(token.clone(), count as f64)
            .with_message(line_of(&line, MAX_MESSAGE));
        if peer.notify_progress(told).await.is_err() {
            return;
        }
        tokio::time::sleep(PAUSE).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_counted_however_they_are_written() {
        let mut lines = Lines::default();
        assert!(!lines.take(b"a"));
        assert!(lines.take(b"b\nc"));
        assert_eq!((lines.count, lines.last.as_slice()), (1, &b"ab"[..]));
        assert!(lines.take(b"\n\n\nd\n"));
        assert_eq!((lines.count, lines.last.as_slice()), (5, &b"d"[..]));
        lines.take(&vec![b'x'; 1 << 20]);
        assert!(lines.open.len() <= MAX_LINE);
    }
}

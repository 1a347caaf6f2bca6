//! What a server may send, some of it at once and more with every call, and how long it may take to be ready.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

/// How long a server has to be ready: some download themselves first.
pub(super) const READY_TIME: Duration = Duration::from_mins(1);
/// The longest message that a server may send, in bytes.
pub(super) const MAX_MESSAGE: usize = 16 << 20;
/// Bytes and lines that a server may send before it was asked for anything.
const FIRST_BYTES: i64 = 8 << 20;
const FIRST_LINES: i64 = 10_000;
/// How many more each call allows.
const CALL_BYTES: i64 = 16 << 20;
const CALL_LINES: i64 = 10_000;
/// The most that is allowed at once.
const MAX_BYTES: i64 = 64 << 20;
const MAX_LINES: i64 = 100_000;

/// What a server may still send.
#[derive(Clone, Debug)]
pub(super) struct Allowance(Arc<Left>);

#[derive(Debug)]
struct Left {
    bytes: AtomicI64,
    lines: AtomicI64,
}

impl Allowance {
    pub(super) fn first() -> Self {
        Self(Arc::new(Left {
            bytes: AtomicI64::new(FIRST_BYTES),
            lines: AtomicI64::new(FIRST_LINES),
        }))
    }

    /// Allows what the answer to a call may take.
    pub(super) fn for_a_call(&self) {
        let more = |left: &AtomicI64, by: i64, most: i64| {
            let grow = |now: i64| (now > 0).then(|| (now + by).min(most));
            // One that has spent all was cut off.
            let _ = left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, grow);
        };
        more(&self.0.bytes, CALL_BYTES, MAX_BYTES);
        more(&self.0.lines, CALL_LINES, MAX_LINES);
    }

    /// Whether it was cut off because it had sent more.
    pub(super) fn is_spent(&self) -> bool {
        self.0.bytes.load(Ordering::Relaxed) <= 0 || self.0.lines.load(Ordering::Relaxed) <= 0
    }

    /// Counts what came, each line of which is a message.
    pub(super) fn spend(&self, bytes: &[u8]) {
        let lines = bytes.split(|byte| *byte == b'\n').count() - 1;
        self.0.lines.fetch_sub(number(lines), Ordering::Relaxed);
        self.spend_bytes(bytes.len());
    }

    /// Counts what came where lines are no messages.
    pub(super) fn spend_bytes(&self, count: usize) {
        self.0.bytes.fetch_sub(number(count), Ordering::Relaxed);
    }
}

fn number(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

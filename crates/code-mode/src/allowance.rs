//! Limits on how much a server may send, initially and per call, and on its startup time.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

/// Startup timeout. Some servers download themselves first.
pub(super) const READY_TIME: Duration = Duration::from_mins(1);
/// Maximum size of a server's message, in bytes.
pub(super) const MAX_MESSAGE: usize = 16 << 20;
/// Bytes and lines that a server may send before the first call.
const FIRST_BYTES: i64 = 8 << 20;
const FIRST_LINES: i64 = 10_000;
/// Additional bytes and lines per call.
const CALL_BYTES: i64 = 16 << 20;
const CALL_LINES: i64 = 10_000;
/// Upper bound of the allowance.
const MAX_BYTES: i64 = 64 << 20;
const MAX_LINES: i64 = 100_000;

/// Remaining allowance of a server.
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

    /// Adds the allowance of one call.
    pub(super) fn for_a_call(&self) {
        let more = |left: &AtomicI64, by: i64, most: i64| {
            let grow = |now: i64| (now > 0).then(|| (now + by).min(most));
            // A server that used up its allowance was cut off.
            let _ = left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, grow);
        };
        more(&self.0.bytes, CALL_BYTES, MAX_BYTES);
        more(&self.0.lines, CALL_LINES, MAX_LINES);
    }

    /// Whether the server was cut off for exceeding its allowance.
    pub(super) fn is_spent(&self) -> bool {
        self.0.bytes.load(Ordering::Relaxed) <= 0 || self.0.lines.load(Ordering::Relaxed) <= 0
    }

    /// Counts received bytes in which each line is a message.
    pub(super) fn spend(&self, bytes: &[u8]) {
        let lines = bytes.split(|byte| *byte == b'\n').count() - 1;
        self.0.lines.fetch_sub(number(lines), Ordering::Relaxed);
        self.spend_bytes(bytes.len());
    }

    /// Counts received bytes in which lines are not messages.
    pub(super) fn spend_bytes(&self, count: usize) {
        self.0.bytes.fetch_sub(number(count), Ordering::Relaxed);
    }
}

fn number(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

//! What waits to be sent to one peer.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::timeout;

/// The most messages that wait.
const MAX_WAITING: usize = 1_024;
/// The most bytes of them; one that is larger waits alone.
const MAX_WAITING_BYTES: usize = 64 << 20;
/// How long the kernel waits for a peer that reads nothing.
const PATIENCE: Duration = Duration::from_secs(5);

/// The way to a peer. When all of them are gone, what waits is sent and the connection ends.
#[derive(Clone, Debug)]
pub(super) struct Outbox {
    number: u64,
    to: mpsc::Sender<Waiting>,
    room: Arc<Semaphore>,
}

/// Frames that wait, and the room that they take.
#[derive(Debug)]
pub(super) struct Waiting {
    pub frames: Bytes,
    _room: OwnedSemaphorePermit,
}

/// The same, without keeping it open.
#[derive(Debug)]
pub(super) struct Weak(u64, mpsc::WeakSender<Waiting>, Arc<Semaphore>);

impl Weak {
    pub(super) fn upgrade(&self) -> Option<Outbox> {
        let (number, room) = (self.0, Arc::clone(&self.2));
        self.1.upgrade().map(|to| Outbox { number, to, room })
    }
}

impl Outbox {
    pub(super) fn new() -> (Self, mpsc::Receiver<Waiting>) {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let (to, inbox) = mpsc::channel(MAX_WAITING);
        let outbox = Self {
            number: NEXT.fetch_add(1, Ordering::Relaxed),
            to,
            room: Arc::new(Semaphore::new(MAX_WAITING_BYTES)),
        };
        (outbox, inbox)
    }

    pub(super) fn downgrade(&self) -> Weak {
        Weak(self.number, self.to.downgrade(), Arc::clone(&self.room))
    }

    /// Tells this way from that of another connection.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// Has frames wait to be sent; false when the peer is gone, or has read nothing for too long.
    pub(super) async fn send(&self, frames: Bytes) -> bool {
        let size = size(&frames);
        let sending = async {
            let room = Arc::clone(&self.room).acquire_many_owned(size).await.ok()?;
            self.to
                .send(Waiting {
                    frames,
                    _room: room,
                })
                .await
                .ok()
        };
        matches!(timeout(PATIENCE, sending).await, Ok(Some(())))
    }

    /// The same where there is room at once, and else nothing.
    pub(super) fn try_send(&self, frames: Bytes) {
        if let Ok(room) = Arc::clone(&self.room).try_acquire_many_owned(size(&frames)) {
            let _ = self.to.try_send(Waiting {
                frames,
                _room: room,
            });
        }
    }
}

fn size(frames: &Bytes) -> u32 {
    u32::try_from(frames.len().min(MAX_WAITING_BYTES)).unwrap_or(u32::MAX)
}

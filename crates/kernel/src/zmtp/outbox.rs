//! The send queue of a peer.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::timeout;

/// Maximum number of waiting messages.
const MAX_WAITING: usize = 1_024;
/// Maximum number of waiting bytes; a larger message waits alone.
const MAX_WAITING_BYTES: usize = 64 << 20;
/// How long the kernel waits for a peer that does not read.
const PATIENCE: Duration = Duration::from_secs(5);

/// A handle to the queue. When all handles are dropped, the queue is sent and the connection
/// closed.
#[derive(Clone, Debug)]
pub(super) struct Outbox {
    number: u64,
    to: mpsc::Sender<Waiting>,
    room: Arc<Semaphore>,
}

/// Waiting frames, and the space that they take.
#[derive(Debug)]
pub(super) struct Waiting {
    pub frames: Bytes,
    _room: OwnedSemaphorePermit,
}

/// A handle that does not keep the queue open.
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

    /// Distinguishes this queue from those of other connections.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// Queues frames; false if the peer has disconnected, or has not read for too long.
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

    /// The same if there is room at once; otherwise drops the frames.
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

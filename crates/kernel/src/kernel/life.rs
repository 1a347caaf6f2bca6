//! One life of a kernel, from start to restart: its session, and the waiting requests.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::{Map, Value, json};
use tokio::sync::{Notify, OnceCell};
use tokio::task::JoinHandle;

use super::history::History;
use super::{Asked, ExecutionState, Inner, error, info, lock};
use crate::backend::{Failure, Guest};
use crate::message::Peer;

/// Maximum number of waiting requests.
const MAX_WAITING: usize = 1_000;
/// Maximum memory of all waiting requests, estimated.
const MAX_WAITING_BYTES: usize = 64 << 20;

tokio::task_local! {
    /// The client whose request is handled.
    static ASKER: Peer;
}

/// The client whose request a session's [`Guest`] works for; `None` outside of requests.
#[must_use]
pub fn asker() -> Option<Peer> {
    ASKER.try_with(Clone::clone).ok()
}

/// One life of a kernel.
pub(super) struct Life {
    queue: Mutex<Queue>,
    arrived: Notify,
    session: OnceCell<Box<dyn Guest>>,
    /// The number of the latest cell.
    pub count: AtomicU64,
    pub history: Mutex<History>,
    task: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<Asked>,
    bytes: usize,
    is_over: bool,
}

impl Life {
    pub(super) fn new() -> Self {
        Self {
            queue: Mutex::default(),
            arrived: Notify::new(),
            session: OnceCell::new(),
            count: AtomicU64::new(0),
            history: Mutex::default(),
            task: Mutex::default(),
        }
    }

    /// A life that answers nothing.
    pub(super) fn over() -> Self {
        let life = Self::new();
        lock(&life.queue).is_over = true;
        life
    }

    /// Queues a request.
    ///
    /// # Errors
    ///
    /// The request, if the queue is full.
    #[expect(
        clippy::result_large_err,
        reason = "who is turned away gets the request back"
    )]
    pub(super) fn ask(&self, asked: Asked) -> Result<(), Asked> {
        let size = size(&asked);
        let mut queue = lock(&self.queue);
        let is_full = queue.waiting.len() >= MAX_WAITING || queue.bytes + size > MAX_WAITING_BYTES;
        if queue.is_over || (is_full && !queue.waiting.is_empty()) {
            return Err(asked);
        }
        queue.bytes += size;
        queue.waiting.push_back(asked);
        drop(queue);
        self.arrived.notify_one();
        Ok(())
    }

    async fn next(&self) -> Asked {
        loop {
            if let Some(asked) = lock(&self.queue).take() {
                return asked;
            }
            self.arrived.notified().await;
        }
    }

    /// Starts to handle the queue, and creates the session meanwhile.
    pub(super) fn begin(self: Arc<Self>, inner: Arc<Inner>) {
        let life = Arc::clone(&self);
        let task = tokio::spawn(async move {
            let opening = async {
                match life.session(&inner).await {
                    Ok(_) => {
                        let mut activity = lock(&inner.activity);
                        if activity.state == ExecutionState::Starting {
                            activity.state = ExecutionState::Idle;
                        }
                    }
                    // Requests that need it get the error.
                    Err(error) => tracing::warn!(%error, "the session cannot be made"),
                }
            };
            let answering = async {
                loop {
                    let asked = life.next().await;
                    ASKER.scope(asked.peer.clone(), life.answer(&inner, &asked)).await;
                }
            };
            tokio::join!(opening, answering);
        });
        *lock(&self.task) = Some(task);
    }

    /// Stops the current run and closes the session.
    pub(super) async fn end(&self) {
        lock(&self.queue).is_over = true;
        let task = lock(&self.task).take();
        if let Some(task) = task {
            task.abort();
            let _ = task.await;
        }
        if let Some(session) = self.session.get() {
            session.close();
        }
    }

    /// The session, created if necessary.
    pub(super) async fn session(&self, inner: &Inner) -> Result<&dyn Guest, Failure> {
        let session = self.session.get_or_try_init(|| inner.backend.open()).await?;
        Ok(&**session)
    }

    /// Whether the session is ready.
    pub(super) fn is_open(&self) -> bool {
        self.session.initialized()
    }

    pub(super) fn number(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// Handles one request of the shell.
    async fn answer(&self, inner: &Arc<Inner>, asked: &Asked) {
        let header = &asked.message.header;
        inner.announce(ExecutionState::Busy, header).await;
        let content = match asked.message.kind() {
            "kernel_info_request" => Some(info::kernel_info()),
            "comm_info_request" => Some(info::comm_info()),
            "history_request" => Some(lock(&self.history).answer(&asked.message.content)),
            "execute_request" => {
                let (content, aborts) = self.execute(inner, asked).await;
                // Requests sent after the reply come from a client that knows of the failure.
                let waiting = if aborts {
                    lock(&self.queue).take_code()
                } else {
                    Vec::new()
                };
                inner.reply(asked, content).await;
                inner.announce(ExecutionState::Idle, header).await;
                return self.abort(inner, waiting).await;
            }
            "complete_request" => Some(self.complete(inner, asked).await),
            "inspect_request" => Some(self.inspect(inner, asked).await),
            "is_complete_request" => Some(self.is_complete(inner, asked).await),
            "comm_open" => {
                // Comms have no other end here.
                let id = asked.message.content.get("comm_id").cloned().unwrap_or_default();
                inner.publish("comm_close", header, json!({"comm_id": id, "data": {}})).await;
                None
            }
            kind => {
                tracing::debug!(kind, "a request that is not known");
                None
            }
        };
        if let Some(content) = content {
            inner.reply(asked, content).await;
        }
        inner.announce(ExecutionState::Idle, header).await;
    }

    /// Replies to code without running it, because earlier code failed.
    async fn abort(&self, inner: &Inner, waiting: Vec<Asked>) {
        for asked in waiting {
            let header = &asked.message.header;
            inner.announce(ExecutionState::Busy, header).await;
            let mut content = error("Aborted", "earlier code failed", &[]);
            content["status"] = Value::from("aborted");
            content["execution_count"] = Value::from(self.number());
            inner.reply(&asked, content).await;
            inner.announce(ExecutionState::Idle, header).await;
        }
    }
}

impl Queue {
    fn take(&mut self) -> Option<Asked> {
        let asked = self.waiting.pop_front()?;
        self.bytes -= size(&asked);
        Some(asked)
    }

    fn take_code(&mut self) -> Vec<Asked> {
        let (code, rest): (VecDeque<_>, _) = std::mem::take(&mut self.waiting)
            .into_iter()
            .partition(|asked| asked.message.kind() == "execute_request");
        self.waiting = rest;
        self.bytes = self.waiting.iter().map(size).sum();
        code.into()
    }
}

/// Estimated memory of a request: of its header, content and buffers.
fn size(asked: &Asked) -> usize {
    let Asked { message, .. } = asked;
    let headers = [&message.header, &message.parent, &message.metadata, &message.content];
    let buffers = message.buffers.iter().map(bytes::Bytes::len).sum::<usize>();
    headers.into_iter().map(object).sum::<usize>() + buffers
}

/// Memory of an object besides its names and values: spare capacity.
const OBJECT: usize = 640;

fn object(object: &Map<String, Value>) -> usize {
    let fields = object.iter().map(|(name, value)| name.len() + weight(value));
    OBJECT + fields.sum::<usize>()
}

fn weight(value: &Value) -> usize {
    let inside = match value {
        Value::String(text) => text.len(),
        Value::Array(values) => values.iter().map(weight).sum(),
        Value::Object(fields) => object(fields),
        _ => 0,
    };
    size_of::<Value>() + inside
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{Channel, Message, Peer};

    fn asked(fill: impl FnOnce(&mut Message)) -> Asked {
        let mut message = Message::new("execute_request", "s", &Map::new(), Map::new());
        fill(&mut message);
        Asked {
            channel: Channel::Shell,
            peer: Peer::from("one"),
            message,
            room: None,
        }
    }

    /// Content that is not text was not counted, so that a thousand of these could wait.
    #[test]
    fn requests_wait_as_far_as_all_of_them_takes_memory() {
        let zeros = || Value::from(vec![0; 200_000]);
        let fills: [fn(&mut Message, Value); 4] = [
            |message, value| drop(message.header.insert("x".into(), value)),
            |message, value| drop(message.parent.insert("x".into(), value)),
            |message, value| drop(message.metadata.insert("x".into(), value)),
            |message, value| drop(message.content.insert("x".into(), json!([[value]]))),
        ];
        for fill in fills {
            let life = Life::new();
            let taken = (0..50).take_while(|_| life.ask(asked(|m| fill(m, zeros()))).is_ok());
            let taken = taken.count();
            assert!((1..20).contains(&taken), "{taken} requests of six megabytes wait");
            // Handled requests make room.
            assert!(lock(&life.queue).take().is_some());
            assert!(life.ask(asked(|m| fill(m, zeros()))).is_ok());
            while lock(&life.queue).take().is_some() {}
            assert_eq!(lock(&life.queue).bytes, 0);
        }
    }
}

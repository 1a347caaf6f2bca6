//! Routes a kernel's messages to the open WebSockets, or buffers them until a client reconnects.

use std::collections::{HashMap, VecDeque};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use belljar_kernel::{Channel, Outgoing, Outlet, Peer};
use tokio::sync::mpsc;

use crate::lock::lock;

/// Maximum number of queued messages of one connection.
const MAX_WAITING: usize = 1_024;
/// How long a kernel waits for a connection that reads nothing, before that is closed.
const PATIENCE: Duration = Duration::from_secs(5);
/// Maximum number of messages buffered while no client is connected.
const MAX_BUFFERED: usize = 1_000;
/// Maximum size of buffered messages, in bytes.
const MAX_BUFFERED_BYTES: usize = 16 << 20;

/// The connections to one kernel.
#[derive(Clone, Default)]
pub(super) struct Hub(Arc<Mutex<Connections>>);

#[derive(Default)]
struct Connections {
    open: HashMap<Peer, (u64, mpsc::Sender<Arc<Outgoing>>)>,
    next: u64,
    /// Buffered messages for the last client to disconnect.
    buffered: Option<Buffered>,
    is_over: bool,
}

struct Buffered {
    peer: Peer,
    messages: VecDeque<Arc<Outgoing>>,
    bytes: usize,
}

/// A connection. Dropping it removes it from the hub.
pub(super) struct Connection {
    hub: Hub,
    peer: Peer,
    number: u64,
}

impl Hub {
    fn lock(&self) -> MutexGuard<'_, Connections> {
        lock(&self.0)
    }

    /// Opens a connection and returns its messages, starting with those buffered for the same
    /// client. Replaces another connection of that client.
    pub(super) fn join(&self, peer: Peer) -> (Connection, mpsc::Receiver<Arc<Outgoing>>) {
        let (to, messages) = mpsc::channel(MAX_WAITING);
        let mut connections = self.lock();
        let buffered = connections.buffered.take().filter(|buffered| buffered.peer == peer);
        for message in buffered.into_iter().flat_map(|buffered| buffered.messages) {
            // The channel has room for all of them.
            let _ = to.try_send(message);
        }
        let number = connections.next;
        connections.next += 1;
        if !connections.is_over {
            connections.open.insert(peer.clone(), (number, to));
        }
        let hub = self.clone();
        (Connection { hub, peer, number }, messages)
    }

    /// Number of connections.
    pub(super) fn count(&self) -> usize {
        self.lock().open.len()
    }

    /// Closes all connections after their queued messages are sent.
    pub(super) fn close(&self) {
        let mut connections = self.lock();
        connections.is_over = true;
        connections.open.clear();
        connections.buffered = None;
    }

    fn targets(&self, outgoing: &Arc<Outgoing>) -> Vec<(Peer, u64, mpsc::Sender<Arc<Outgoing>>)> {
        let mut connections = self.lock();
        if let Some(buffered) = &mut connections.buffered {
            buffered.put(outgoing);
        }
        let open = connections.open.iter();
        let theirs = open.filter(|(peer, _)| match &outgoing.to {
            Some(to) => to == *peer,
            None => outgoing.channel == Channel::Iopub,
        });
        theirs.map(|(peer, (number, to))| (peer.clone(), *number, to.clone())).collect()
    }

    fn leave(&self, peer: &Peer, number: u64) {
        let mut connections = self.lock();
        if connections.open.get(peer).is_some_and(|(open, _)| *open == number) {
            connections.open.remove(peer);
            if connections.open.is_empty() {
                connections.buffered = Some(Buffered {
                    peer: peer.clone(),
                    messages: VecDeque::new(),
                    bytes: 0,
                });
            }
        }
    }
}

impl Buffered {
    fn put(&mut self, outgoing: &Arc<Outgoing>) {
        if outgoing.to.as_ref().is_some_and(|to| *to != self.peer) {
            return;
        }
        self.bytes += size(outgoing);
        self.messages.push_back(Arc::clone(outgoing));
        while self.messages.len() > MAX_BUFFERED || self.bytes > MAX_BUFFERED_BYTES {
            let Some(oldest) = self.messages.pop_front() else {
                return;
            };
            self.bytes -= size(&oldest);
        }
    }
}

fn size(outgoing: &Outgoing) -> usize {
    serde_json::to_vec(&outgoing.message.content).map_or(0, |bytes| bytes.len())
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.hub.leave(&self.peer, self.number);
    }
}

impl Outlet for Hub {
    fn send(&self, message: Outgoing) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        let message = Arc::new(message);
        Box::pin(async move {
            for (peer, number, to) in self.targets(&message) {
                let sending = to.send(Arc::clone(&message));
                if tokio::time::timeout(PATIENCE, sending).await.is_err() {
                    tracing::warn!("closing a connection that reads nothing");
                    self.leave(&peer, number);
                }
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use belljar_kernel::Message;
    use serde_json::Map;

    use super::*;

    fn outgoing(channel: Channel, to: Option<&'static str>, kind: &str) -> Outgoing {
        let to = to.map(Peer::from);
        let message = Message::new(kind, "s", &Map::new(), Map::new());
        Outgoing {
            channel,
            to,
            message,
        }
    }

    fn kinds(messages: &mut mpsc::Receiver<Arc<Outgoing>>) -> Vec<String> {
        let mut kinds = Vec::new();
        while let Ok(outgoing) = messages.try_recv() {
            kinds.push(outgoing.message.kind().to_owned());
        }
        kinds
    }

    #[tokio::test]
    async fn answers_are_for_who_asked_and_the_rest_for_all() {
        let hub = Hub::default();
        let (_one, mut ones) = hub.join("one".into());
        let (_other, mut others) = hub.join("other".into());
        hub.send(outgoing(Channel::Iopub, None, "status")).await;
        hub.send(outgoing(Channel::Shell, Some("one"), "execute_reply")).await;
        assert_eq!(kinds(&mut ones), ["status", "execute_reply"]);
        assert_eq!(kinds(&mut others), ["status"]);
        assert_eq!(hub.count(), 2);
    }

    #[tokio::test]
    async fn who_comes_back_is_told_what_was_missed() {
        let hub = Hub::default();
        drop(hub.join("one".into()));
        hub.send(outgoing(Channel::Iopub, None, "stream")).await;
        hub.send(outgoing(Channel::Shell, Some("one"), "execute_reply")).await;
        hub.send(outgoing(Channel::Shell, Some("other"), "execute_reply")).await;
        let (back, mut missed) = hub.join("one".into());
        assert_eq!(kinds(&mut missed), ["stream", "execute_reply"]);
        drop(back);
        hub.send(outgoing(Channel::Iopub, None, "stream")).await;
        assert!(kinds(&mut hub.join("other".into()).1).is_empty());
    }

    #[tokio::test]
    async fn a_client_has_one_connection() {
        let hub = Hub::default();
        let (first, mut firsts) = hub.join("one".into());
        let (_second, mut seconds) = hub.join("one".into());
        drop(first);
        hub.send(outgoing(Channel::Iopub, None, "status")).await;
        assert_eq!(kinds(&mut seconds), ["status"]);
        assert!(firsts.recv().await.is_none());
    }

    #[tokio::test]
    async fn no_more_is_set_aside_than_there_is_room_for() {
        let hub = Hub::default();
        drop(hub.join("one".into()));
        for _ in 0..=MAX_BUFFERED {
            hub.send(outgoing(Channel::Iopub, None, "stream")).await;
        }
        assert_eq!(kinds(&mut hub.join("one".into()).1).len(), MAX_BUFFERED);
    }
}

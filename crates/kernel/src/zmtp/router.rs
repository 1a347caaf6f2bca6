//! ROUTER: receives messages from many peers, and sends replies to each.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use tokio::sync::mpsc;

use super::frame::{Ready, Said, message};
use super::outbox::Outbox;
use super::peer::{Listener, Serving, Socket, serve};
use crate::message::{Peer, unique};

/// Maximum number of unhandled messages of all peers.
const MAX_HEARD: usize = 64;

/// A socket for requests of peers.
pub(crate) struct Router {
    heard: mpsc::Receiver<(Peer, Vec<Bytes>)>,
    sender: Sender,
    _serving: Serving,
}

/// Sends to the peers of a socket.
#[derive(Clone)]
pub(crate) struct Sender(Arc<Peers>);

struct Peers {
    heard: mpsc::Sender<(Peer, Vec<Bytes>)>,
    present: Mutex<HashMap<Peer, Outbox>>,
}

impl Router {
    pub(crate) fn new(listener: Listener) -> Self {
        let (sender, heard) = mpsc::channel(MAX_HEARD);
        let peers = Arc::new(Peers {
            heard: sender,
            present: Mutex::default(),
        });
        Self {
            heard,
            sender: Sender(Arc::clone(&peers)),
            _serving: serve(listener, peers),
        }
    }

    pub(crate) fn sender(&self) -> Sender {
        self.sender.clone()
    }

    /// The next message, and its peer.
    pub(crate) async fn next(&mut self) -> Option<(Peer, Vec<Bytes>)> {
        self.heard.recv().await
    }
}

impl Sender {
    /// Sends a message to a peer, if it is still connected.
    pub(crate) async fn send(&self, peer: &Peer, parts: &[Bytes]) {
        let to = self.0.lock().get(peer).cloned();
        if let Some(to) = to
            && !to.send(message(parts)).await
        {
            self.0.leave(peer, to.number());
        }
    }

    /// The same without waiting.
    pub(crate) fn try_send(&self, peer: &Peer, parts: &[Bytes]) {
        if let Some(to) = self.0.lock().get(peer) {
            to.try_send(message(parts));
        }
    }
}

impl Peers {
    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<Peer, Outbox>> {
        self.present.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Socket for Peers {
    const TYPES: (&'static str, &'static [&'static str]) = ("ROUTER", &["DEALER", "REQ", "ROUTER"]);

    fn join(&self, ready: &Ready, to: Outbox) -> Option<Bytes> {
        let identity = match &ready.identity {
            // No peer can choose this identity: its first byte is 0.
            none if none.is_empty() => Bytes::from(format!("\0{}", unique())),
            own if own[0] == 0 => return None,
            own => own.clone(),
        };
        let mut present = self.lock();
        if present.contains_key(&identity) {
            return None;
        }
        present.insert(identity.clone(), to);
        Some(identity)
    }

    async fn hear(&self, peer: &Bytes, said: Said) {
        if let Said::Message(parts) = said {
            let _ = self.heard.send((peer.clone(), parts)).await;
        }
    }

    fn leave(&self, peer: &Bytes, number: u64) {
        let mut present = self.lock();
        if present.get(peer).is_some_and(|to| to.number() == number) {
            present.remove(peer);
        }
    }
}

//! XPUB: sends messages to all subscribers.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;

use super::frame::{Ready, Said, message};
use super::outbox::Outbox;
use super::peer::{Listener, Serving, Socket, serve};
use crate::message::unique;

/// Maximum number of topics of a subscriber.
const MAX_TOPICS: usize = 64;
/// Maximum length of a topic in bytes.
const MAX_TOPIC: usize = 256;

/// A socket that broadcasts messages.
pub(crate) struct Publisher {
    subscribers: Arc<Subscribers>,
    _serving: Serving,
}

/// The message that confirms the subscription to a topic.
type Welcome = dyn Fn(&[u8]) -> Vec<Bytes> + Send + Sync;

struct Subscribers {
    welcome: Box<Welcome>,
    present: Mutex<HashMap<Bytes, Subscriber>>,
}

struct Subscriber {
    topics: Vec<Bytes>,
    to: Outbox,
}

impl Publisher {
    /// A publisher that confirms subscriptions with `welcome`.
    pub(crate) fn new(
        listener: Listener,
        welcome: impl Fn(&[u8]) -> Vec<Bytes> + Send + Sync + 'static,
    ) -> Self {
        let subscribers = Arc::new(Subscribers {
            welcome: Box::new(welcome),
            present: Mutex::default(),
        });
        Self {
            subscribers: Arc::clone(&subscribers),
            _serving: serve(listener, subscribers),
        }
    }

    /// Whether there is a subscriber.
    pub(crate) fn has_subscribers(&self) -> bool {
        self.subscribers.lock().values().any(|subscriber| !subscriber.topics.is_empty())
    }

    /// Sends a message to the subscribers of its topic, which is its first part.
    pub(crate) async fn publish(&self, parts: &[Bytes]) {
        let to = self.subscribers.of(parts.first().map_or(&[], |topic| &topic[..]));
        if to.is_empty() {
            return;
        }
        let frames = message(parts);
        for (peer, to) in to {
            if !to.send(frames.clone()).await {
                tracing::debug!("a subscriber that reads nothing is sent no more");
                self.subscribers.leave(&peer, to.number());
            }
        }
    }
}

impl Subscribers {
    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<Bytes, Subscriber>> {
        self.present.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn of(&self, topic: &[u8]) -> Vec<(Bytes, Outbox)> {
        let present = self.lock();
        let matching =
            present.iter().filter(|(_, s)| s.topics.iter().any(|t| topic.starts_with(t)));
        matching.map(|(peer, subscriber)| (peer.clone(), subscriber.to.clone())).collect()
    }
}

impl Socket for Subscribers {
    const TYPES: (&'static str, &'static [&'static str]) = ("XPUB", &["SUB", "XSUB"]);

    fn join(&self, _: &Ready, to: Outbox) -> Option<Bytes> {
        let own = Bytes::from(unique());
        let topics = Vec::new();
        self.lock().insert(own.clone(), Subscriber { topics, to });
        Some(own)
    }

    async fn hear(&self, peer: &Bytes, said: Said) {
        let (begins, topic) = match said {
            Said::Message(parts) => match parts.first().and_then(|part| part.split_first()) {
                Some((1, _)) => (true, parts[0].slice(1..)),
                Some((0, _)) => (false, parts[0].slice(1..)),
                _ => return,
            },
            Said::Command(name, topic) => match &name[..] {
                b"SUBSCRIBE" => (true, topic),
                b"CANCEL" => (false, topic),
                _ => return,
            },
        };
        let mut present = self.lock();
        let Some(subscriber) = present.get_mut(peer) else {
            return;
        };
        if !begins {
            if let Some(at) = subscriber.topics.iter().position(|one| *one == topic) {
                subscriber.topics.swap_remove(at);
            }
        } else if subscriber.topics.len() < MAX_TOPICS && topic.len() <= MAX_TOPIC {
            let welcome = message(&(self.welcome)(&topic));
            subscriber.topics.push(topic);
            subscriber.to.try_send(welcome);
        }
    }

    fn leave(&self, peer: &Bytes, _: u64) {
        self.lock().remove(peer);
    }
}

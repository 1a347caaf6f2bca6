//! The record of a session while a node holds it: taken, renewed and released.
//!
//! A write of the record may be applied without an answer, and an answer may be late. A node
//! recognizes its own record by the epoch of its hold, which no other node writes. Outcomes that
//! are unknown at first are resolved in the background. No lease outlives its hold except until it
//! expires.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Mutex as AsyncMutex;

use super::cached::{Local, Place};
use super::host::{Host, Live};
use super::record::{self, Head, Holder, Written};
use super::{Node, count};
use crate::error::Error;
use crate::session::SessionError;
use crate::store::Version;

/// The record of a session that this node holds.
pub(super) struct Hold<H: Host> {
    node: Arc<Node<H>>,
    id: String,
    now: AsyncMutex<Now>,
    /// Time of the last write of the record, or earlier.
    renewed: Mutex<Instant>,
    /// Another node has taken the session, or it was removed.
    is_gone: AtomicBool,
    /// The session was released.
    is_over: AtomicBool,
}

#[derive(Clone)]
struct Now {
    head: Head,
    version: Version,
    /// Whether a release was attempted, confirmed or not.
    is_tried: bool,
}

/// Time between two checks whether another node has released a session.
const PAUSE: Duration = Duration::from_millis(4);
const MAX_PAUSE: Duration = Duration::from_millis(64);
/// Number of attempts of an operation that the store fails, except for renewals.
pub(super) const MAX_TRIES: u32 = 3;

impl<H: Host> Hold<H> {
    /// Takes a session once no live node holds it.
    pub(super) async fn take(
        node: &Arc<Node<H>>,
        id: &str,
        local: Option<&mut Local<H::Session>>,
        is_run: bool,
    ) -> Result<Arc<Self>, Error> {
        let mut rest = local.and_then(|local| local.rest.take());
        let mut wait = Wait::new(node, id);
        loop {
            // If no other node has taken it meanwhile, the check is unnecessary.
            let (head, version) = match rest.take() {
                Some(rest) => rest,
                None => wait.for_free().await?,
            };
            let holder = Holder {
                node: node.name().to_owned(),
                lease: node.options.lease.as_millis() as u64,
                run: is_run.then_some(head.execution + 1),
            };
            let mut taken = head.taken_by(holder);
            let begun = node.host.now();
            let version = match record::write(&*node.store, id, &mut taken, Some(&version)).await {
                Ok(Written::Done(version)) => version,
                Ok(Written::Refused(_)) => continue,
                Err(error) => {
                    // The write may be applied now or later, and then no node would hold the
                    // session.
                    node.holding.send_modify(|count| *count += 1);
                    tokio::spawn(untake(Arc::clone(node), id.to_owned(), (head, version), taken));
                    return Err(error);
                }
            };
            node.note_free(id);
            if let Some(gone) = &head.holder {
                count(&node.counts.taken_over);
                tracing::warn!(session = id, node = gone.node, "taken from a node that is gone");
                remove_old(Arc::clone(node), id.to_owned(), taken.epoch, taken.state.clone());
            }
            node.holding.send_modify(|count| *count += 1);
            let now = Now {
                head: taken,
                version,
                is_tried: false,
            };
            return Ok(Arc::new(Self {
                node: Arc::clone(node),
                id: id.to_owned(),
                now: now.into(),
                renewed: Mutex::new(begun),
                is_gone: AtomicBool::new(false),
                is_over: AtomicBool::new(false),
            }));
        }
    }

    pub(super) fn node(&self) -> &Arc<Node<H>> {
        &self.node
    }

    pub(super) fn id(&self) -> &str {
        &self.id
    }

    /// Returns the record as last written or read.
    pub(super) async fn head(&self) -> Head {
        self.now.lock().await.head.clone()
    }

    pub(super) fn is_gone(&self) -> bool {
        self.is_gone.load(Ordering::Acquire)
    }

    pub(super) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Acquire)
    }

    /// Whether no other node can have taken the session.
    pub(super) fn is_sure(&self) -> bool {
        let renewed = *self.renewed.lock().unwrap_or_else(PoisonError::into_inner);
        let passed = self.node.host.now().saturating_duration_since(renewed);
        !self.is_gone() && passed < self.node.options.lease
    }

    pub(super) fn taken(&self) -> Error {
        SessionError::Taken {
            id: self.id.clone(),
            node: self.node.name().to_owned(),
        }
        .into()
    }

    /// Replaces the record. If another node has replaced it, this node has lost the session. If an
    /// earlier attempt of this node was applied without an answer, the new record is based on that
    /// attempt.
    async fn replace(&self, change: impl Fn(&mut Head)) -> Result<Given, Error> {
        let mut now = self.now.lock().await;
        if self.is_gone() {
            return Err(self.taken());
        }
        loop {
            if self.is_over() {
                return Ok(Given::of(&now));
            }
            let mut head = now.head.clone();
            change(&mut head);
            now.is_tried |= head.holder.is_none();
            let begun = self.node.host.now();
            let store = &*self.node.store;
            match record::write(store, &self.id, &mut head, Some(&now.version)).await? {
                Written::Done(version) => {
                    *self.renewed.lock().unwrap_or_else(PoisonError::into_inner) = begun;
                    // Nothing may be written after the release.
                    self.is_over.store(head.holder.is_none(), Ordering::Release);
                    (now.head, now.version) = (head, version);
                    return Ok(Given::of(&now));
                }
                Written::Refused(Some((there, version))) if there.is_of_same_hold(&now.head) => {
                    self.is_over.store(there.holder.is_none(), Ordering::Release);
                    (now.head, now.version) = (there, version);
                }
                Written::Refused(Some((there, _)))
                    if now.is_tried && there.is_after_giving_back(&now.head) =>
                {
                    self.is_over.store(true, Ordering::Release);
                    return Ok(Given::Retaken);
                }
                Written::Refused(_) => {
                    self.is_gone.store(true, Ordering::Release);
                    count(&self.node.counts.lost);
                    return Err(self.taken());
                }
            }
        }
    }

    /// Releases the session with its changes.
    pub(super) async fn give_back(&self, change: impl Fn(&mut Head)) -> Result<Given, Error> {
        self.replace(|head| {
            head.holder = None;
            change(head);
        })
        .await
    }

    /// Releases the session in its previous state as soon as the store accepts the write. Records
    /// the losses if their list has grown.
    pub(super) async fn withdraw(self: Arc<Self>, lost: Option<Vec<String>>) {
        let mut tries = 0;
        let note = |head: &mut Head| {
            if let Some(lost) = &lost {
                head.lost.clone_from(lost);
            }
        };
        while let Err(error) = self.give_back(note).await {
            tries += 1;
            if self.is_gone() || tries > 3 * MAX_TRIES {
                let why = error.with_causes();
                tracing::warn!(session = self.id, why, "a session is left to the end of its lease");
                return;
            }
            self.node.host.sleep(self.node.options.lease / 3).await;
        }
    }

    /// Renews the lease while this node holds the session. If the session is lost, its run is
    /// interrupted.
    pub(super) async fn keep(self: Arc<Self>, place: Arc<Place<H::Session>>) {
        loop {
            self.node.host.sleep(self.node.options.lease / 3).await;
            let renewed = self.replace(|_| {}).await;
            if self.is_over() {
                return;
            }
            let Err(error) = renewed else {
                self.obey(&place).await;
                continue;
            };
            let why = error.with_causes();
            tracing::warn!(session = self.id, why, "a lease is not renewed");
            if self.is_gone() {
                if let Some(session) = place.session() {
                    session.interrupt();
                }
                return;
            }
        }
    }

    /// Interrupts the run if another node was asked to.
    async fn obey(&self, place: &Place<H::Session>) {
        let epoch = self.now.lock().await.head.epoch;
        let key = record::stop_key(&self.id, epoch);
        // If this fails, the requester may try again.
        if let (Ok(Some(_)), Some(session)) = (self.node.store.get(&key, 0).await, place.session())
        {
            session.interrupt();
            let _ = self.node.store.delete(&key).await;
        }
    }
}

impl<H: Host> Drop for Hold<H> {
    fn drop(&mut self) {
        self.node.holding.send_modify(|count| *count -= 1);
    }
}

/// Result of releasing a session.
#[expect(
    clippy::large_enum_variant,
    reason = "there is one at a time, on its way to the caller"
)]
pub(super) enum Given {
    /// The session is released, with this record.
    Rest(Head, Version),
    /// An earlier attempt released the session, and another node has taken it since.
    Retaken,
}

impl Given {
    fn of(now: &Now) -> Self {
        Self::Rest(now.head.clone(), now.version.clone())
    }
}

/// Undoes the take of a session that the store has neither confirmed nor rejected, including a
/// write that may still be applied.
async fn untake<H: Host>(
    node: Arc<Node<H>>,
    id: String,
    (before, version): (Head, Version),
    taken: Head,
) {
    for _ in 0..=3 * MAX_TRIES {
        match untaken(&*node, &id, (&before, &version), &taken).await {
            Ok(true) => break,
            Ok(false) => {}
            Err(_) => node.host.sleep(node.options.lease / 3).await,
        }
    }
    node.holding.send_modify(|count| *count -= 1);
}

/// Whether there is nothing left to undo.
async fn untaken<H: Host>(
    node: &Node<H>,
    id: &str,
    (before, version): (&Head, &Version),
    taken: &Head,
) -> Result<bool, Error> {
    let Some((there, found)) = record::read(&*node.store, id).await? else {
        return Ok(true);
    };
    let mut free = if there.stamp == taken.stamp {
        Head {
            holder: None,
            ..there
        }
    } else if found == *version && before.holder.is_none() {
        // An equal record has a new version, so that a late write is rejected.
        before.clone()
    } else {
        return Ok(true);
    };
    let written = record::write(&*node.store, id, &mut free, Some(&found)).await?;
    Ok(matches!(written, Written::Done(_)))
}

/// Removes states left by dead nodes: states from before `epoch`, except the current state.
fn remove_old<H: Host>(node: Arc<Node<H>>, id: String, epoch: u64, current: String) {
    tokio::spawn(async move {
        let Ok(all) = node.store.list(&record::folder(&id)).await else {
            return;
        };
        for entry in all {
            let written = record::epoch_of(&entry.key);
            if written.is_some_and(|written| written < epoch) && entry.key != current {
                // Remaining states are removed with the session.
                let _ = node.store.delete(&entry.key).await;
            }
        }
    });
}

/// Waits for a session that another node holds.
pub(super) struct Wait<'a, H: Host> {
    node: &'a Node<H>,
    id: &'a str,
    begun: Instant,
    pause: Duration,
}

impl<'a, H: Host> Wait<'a, H> {
    pub(super) fn new(node: &'a Node<H>, id: &'a str) -> Self {
        Self {
            node,
            id,
            begun: node.host.now(),
            pause: PAUSE,
        }
    }

    /// Returns the record once no node holds the session or its holder is dead.
    pub(super) async fn for_free(&mut self) -> Result<(Head, Version), Error> {
        loop {
            let Some((head, version)) = record::read(&*self.node.store, self.id).await? else {
                self.node.forget(self.id);
                let id = self.id.to_owned();
                return Err(SessionError::NotFound { id }.into());
            };
            let Some(holder) = &head.holder else {
                return Ok((head, version));
            };
            if self.node.is_over(self.id, &version, holder.lease()) {
                return Ok((head, version));
            }
            if !self.again().await {
                return Err(SessionError::Elsewhere {
                    id: self.id.to_owned(),
                    node: holder.node.clone(),
                }
                .into());
            }
        }
    }

    /// Waits briefly. Returns false if the total wait is too long.
    pub(super) async fn again(&mut self) -> bool {
        let passed = self.node.host.now().saturating_duration_since(self.begun);
        if passed >= self.node.options.patience {
            return false;
        }
        self.node.host.sleep(self.pause).await;
        self.pause = (2 * self.pause).min(MAX_PAUSE);
        true
    }
}

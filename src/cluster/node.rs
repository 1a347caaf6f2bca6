//! A node: one process's view of the sessions in a store.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use serde_json::{Map, Value};
use tokio::sync::watch;

use super::NodeOptions;
use super::cached::{Local, Place};
use super::host::{Host, Live};
use super::record::{self, Head, Written};
use crate::error::Error;
use crate::session::{SessionError, new_id};
use crate::store::{Condition, Store, Version};

/// Minimum lease. A node renews three times per lease.
const MIN_LEASE: Duration = Duration::from_millis(30);
/// Maximum number of sessions that a node keeps in memory.
const MAX_KEPT: usize = 1_000;

pub(super) struct Node<H: Host> {
    pub host: H,
    pub store: Arc<dyn Store>,
    pub options: NodeOptions,
    places: Mutex<HashMap<String, Arc<Place<H::Session>>>>,
    /// Records that another node holds, with the time when this version was first seen.
    pub held: Mutex<HashMap<String, (Version, Instant)>>,
    /// Number of sessions that this node holds.
    pub holding: watch::Sender<usize>,
    pub counts: Counts,
}

#[derive(Default)]
pub(super) struct Counts {
    pub woken: AtomicU64,
    pub found: AtomicU64,
    pub written: AtomicU64,
    pub taken_over: AtomicU64,
    pub lost: AtomicU64,
}

/// Awaits `work` on its own task, so that it completes even if the caller stops waiting.
pub(super) async fn alone<T: Send + 'static>(
    work: impl Future<Output = Result<T, Error>> + Send + 'static,
) -> Result<T, Error> {
    // Of one type, so that tokio's tasks are compiled once for each kind of answer.
    let work: Pin<Box<dyn Future<Output = Result<T, Error>> + Send>> = Box::pin(work);
    tokio::spawn(work).await.map_err(Error::system("finish what was begun in a session"))?
}

pub(super) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

impl<H: Host> Node<H> {
    pub(super) fn new(
        host: H,
        store: Arc<dyn Store>,
        mut options: NodeOptions,
    ) -> Result<Self, Error> {
        if options.name.is_none() {
            options.name = Some(new_id()?);
        }
        // Other nodes wait no longer than the maximum lease, so a node with a longer lease would
        // lose its sessions.
        options.lease = options.lease.clamp(MIN_LEASE, record::MAX_LEASE);
        options.patience = options.patience.max(options.lease);
        Ok(Self {
            host,
            store,
            options,
            places: Mutex::default(),
            held: Mutex::default(),
            holding: watch::Sender::new(0),
            counts: Counts::default(),
        })
    }

    pub(super) fn name(&self) -> &str {
        self.options.name.as_deref().unwrap_or_default()
    }

    pub(super) fn places(&self) -> MutexGuard<'_, HashMap<String, Arc<Place<H::Session>>>> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the place of a session on this node.
    pub(super) fn place(&self, id: &str) -> Arc<Place<H::Session>> {
        Arc::clone(self.places().entry(id.to_owned()).or_default())
    }

    /// Adds a session to the store on its own task, because no other code could close a half-added
    /// session. The session is closed if adding it fails.
    pub(super) async fn add(
        self: &Arc<Self>,
        id: &str,
        session: H::Session,
        about: Map<String, Value>,
    ) -> Result<(), Error> {
        let (node, id) = (Arc::clone(self), id.to_owned());
        // From here on, no other handle can change the session.
        let session = session.keeper();
        alone(async move { node.add_here(&id, session, about).await }).await
    }

    async fn add_here(
        &self,
        id: &str,
        session: H::Session,
        about: Map<String, Value>,
    ) -> Result<(), Error> {
        match self.write_first(id, &session, about).await {
            Ok(state) => {
                let local = Local {
                    session,
                    state: Some(state),
                    rest: None,
                };
                self.place(id).put(local).await;
                Ok(())
            }
            Err(error) => {
                session.close();
                Err(error)
            }
        }
    }

    /// Writes the first state and the first record. Returns the key of the state.
    async fn write_first(
        &self,
        id: &str,
        session: &H::Session,
        about: Map<String, Value>,
    ) -> Result<String, Error> {
        let (state, execution) = self.write_state(id, 0, session).await?;
        let times = (session.times(), self.host.date());
        let mut head =
            Head::new(session.image(), state.clone(), execution, about, new_id()?, times);
        match record::write(&*self.store, id, &mut head, None).await? {
            Written::Done(_) => Ok(state),
            Written::Refused(_) => Err(SessionError::IdTaken { id: id.into() }.into()),
        }
    }

    /// Writes the current state of a session. Returns its key and the number of completed runs.
    pub(super) async fn write_state(
        &self,
        id: &str,
        epoch: u64,
        session: &H::Session,
    ) -> Result<(String, u64), Error> {
        let key = format!("{}/{epoch}-{}", record::folder(id), new_id()?);
        let execution = session.save(&self.store, &key).await?;
        count(&self.counts.written);
        Ok((key, execution))
    }

    /// Interrupts the current run of a session: on this node directly, on another node by a note in
    /// the store.
    pub(super) async fn interrupt(&self, id: &str) -> Result<bool, Error> {
        let place = self.places().get(id).cloned();
        if place.and_then(|place| place.session()).is_some_and(|session| session.interrupt()) {
            return Ok(true);
        }
        let Some((head, _)) = record::read(&*self.store, id).await? else {
            return Ok(false);
        };
        if head.holder.is_none_or(|holder| holder.run.is_none()) {
            return Ok(false);
        }
        let key = record::stop_key(id, head.epoch);
        let _ = self.store.put(&key, Bytes::new(), Condition::Always).await?;
        Ok(true)
    }

    pub(super) async fn remove(&self, id: &str) -> Result<(), Error> {
        record::remove(&*self.store, id).await?;
        self.forget(id);
        let states = self.store.list(&record::folder(id)).await?;
        for state in states {
            self.store.delete(&state.key).await?;
        }
        Ok(())
    }

    /// Waits until this node holds no session.
    pub(super) async fn settled(&self) {
        let mut holding = self.holding.subscribe();
        // The sender lives as long as the node.
        let _ = holding.wait_for(|count| *count == 0).await;
    }

    /// Whether a record has been unchanged for its holder's whole lease.
    pub(super) fn is_over(&self, id: &str, version: &Version, lease: Duration) -> bool {
        let now = self.host.now();
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        match held.get(id) {
            Some((seen, since)) if seen == version => {
                now.saturating_duration_since(*since) >= lease
            }
            _ => {
                held.insert(id.to_owned(), (version.clone(), now));
                false
            }
        }
    }

    pub(super) fn note_free(&self, id: &str) {
        self.held.lock().unwrap_or_else(PoisonError::into_inner).remove(id);
    }

    /// Drops a session that was removed from the store, and interrupts its run.
    pub(super) fn forget(&self, id: &str) {
        self.note_free(id);
        let place = self.places().remove(id);
        if let Some(session) = place.and_then(|place| place.session()) {
            session.close();
        }
    }
}

impl<H: Host> Node<H> {
    /// Returns the session in the state of its record, from memory or from the store.
    pub(super) async fn wake(
        &self,
        id: &str,
        place: &Place<H::Session>,
        local: &mut Option<Local<H::Session>>,
        head: &Head,
    ) -> Result<H::Session, Error> {
        if let Some(local) = local
            && local.state.as_ref() == Some(&head.state)
            && local.session.is_open()
        {
            count(&self.counts.found);
            return Ok(local.session.clone());
        }
        place.clear(local);
        self.make_room(id);
        let told = head.times(self.host.date());
        let session = self.host.wake(&self.store, id, &head.state, told).await?.keeper();
        count(&self.counts.woken);
        tracing::debug!(session = id, "a session was woken from the store");
        place.set_session(Some(session.clone()));
        *local = Some(Local {
            session: session.clone(),
            state: Some(head.state.clone()),
            rest: None,
        });
        Ok(session)
    }

    /// Drops sessions that have not been used for the duration `idle`.
    pub(super) fn sweep(&self, idle: Duration) {
        let all: Vec<(String, Arc<Place<H::Session>>)> =
            self.places().iter().map(|(id, place)| (id.clone(), Arc::clone(place))).collect();
        for (id, place) in all {
            let is_idle = place.session().is_none_or(|session| session.unused() >= idle);
            if is_idle {
                self.give_up(&id, &place);
            }
        }
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        // A waiting node reads the record many times within this duration.
        let long = self.options.patience.max(idle).saturating_mul(100);
        let now = self.host.now();
        held.retain(|_, (_, since)| now.saturating_duration_since(*since) < long);
    }

    /// Makes room for the session `id` by dropping the least recently used session.
    fn make_room(&self, id: &str) {
        let all: Vec<(String, Arc<Place<H::Session>>)> = {
            let places = self.places();
            if places.len() <= MAX_KEPT {
                return;
            }
            places.iter().map(|(id, place)| (id.clone(), Arc::clone(place))).collect()
        };
        let others = all.into_iter().filter(|(other, _)| other != id);
        let idle = others.filter_map(|(id, place)| Some((place.session()?.unused(), id, place)));
        let mut idle: Vec<_> = idle.collect();
        idle.sort_by_key(|(idle, ..)| Reverse(*idle));
        for (_, id, place) in idle.into_iter().take(MAX_KEPT / 10) {
            self.give_up(&id, &place);
        }
    }

    /// Drops a session from memory, unless it is in use.
    fn give_up(&self, id: &str, place: &Arc<Place<H::Session>>) {
        let Ok(mut local) = Arc::clone(&place.local).try_lock_owned() else {
            return;
        };
        place.clear(&mut local);
        let mut places = self.places();
        // Two references exist: the list and this function. A third would belong to a caller that
        // is about to use the session.
        if places.get(id).is_some_and(|found| Arc::ptr_eq(found, place))
            && Arc::strong_count(place) == 2
        {
            places.remove(id);
        }
    }
}

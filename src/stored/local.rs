//! What a node keeps of a session that it has had.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};

use super::head::Head;
use super::host::{Host, Live};
use super::{Node, count};
use crate::error::Error;
use crate::store::Version;

/// Where a node keeps one session. Those who want it wait for one another here.
pub(super) struct Place<S> {
    local: Arc<AsyncMutex<Option<Local<S>>>>,
    /// The same session, for those who do not wait.
    session: Mutex<Option<S>>,
}

impl<S> Default for Place<S> {
    fn default() -> Self {
        Self {
            local: Arc::default(),
            session: Mutex::default(),
        }
    }
}

/// A session as this node left it.
pub(super) struct Local<S> {
    /// The handle of the node, which no claim recalls.
    pub session: S,
    /// The state of the store that it is in; `None` while it is claimed, and after a claim that ended
    /// without saying so.
    pub state: Option<String>,
    /// The record as this node left it, if it did.
    pub rest: Option<(Head, Version)>,
}

/// The most sessions that a node keeps as it left them.
const MAX_KEPT: usize = 1_000;

impl<S: Live> Place<S> {
    pub(super) fn session(&self) -> Option<S> {
        self.session.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set_session(&self, session: Option<S>) {
        *self.session.lock().unwrap_or_else(PoisonError::into_inner) = session;
    }

    pub(super) async fn lock(&self) -> OwnedMutexGuard<Option<Local<S>>> {
        Arc::clone(&self.local).lock_owned().await
    }

    pub(super) async fn put(&self, local: Local<S>) {
        self.set_session(Some(local.session.clone()));
        *self.lock().await = Some(local);
    }

    /// Closes what is kept, by whoever has locked it.
    pub(super) fn clear(&self, local: &mut Option<Local<S>>) {
        self.set_session(None);
        if let Some(local) = local.take() {
            local.session.close();
        }
    }
}

impl<H: Host> Node<H> {
    /// The session in this state: as it was left here, or read from the store.
    pub(super) async fn wake(
        &self,
        id: &str,
        place: &Place<H::Session>,
        local: &mut Option<Local<H::Session>>,
        state: &str,
    ) -> Result<H::Session, Error> {
        if let Some(local) = local
            && local.state.as_deref() == Some(state)
            && local.session.is_open()
        {
            count(&self.counts.found);
            return Ok(local.session.clone());
        }
        place.clear(local);
        self.make_room(id);
        let session = self.host.wake(&self.store, id, state).await?.keeper();
        count(&self.counts.woken);
        tracing::debug!(session = id, "a session was woken from the store");
        place.set_session(Some(session.clone()));
        *local = Some(Local {
            session: session.clone(),
            state: Some(state.to_owned()),
            rest: None,
        });
        Ok(session)
    }

    /// Gives up what is kept of sessions that nobody has used for so long.
    pub(super) fn sweep(&self, idle: Duration) {
        let all: Vec<(String, Arc<Place<H::Session>>)> =
            self.places().iter().map(|(id, place)| (id.clone(), Arc::clone(place))).collect();
        for (id, place) in all {
            let is_idle = place.session().is_none_or(|session| session.idle() >= idle);
            if is_idle {
                self.give_up(&id, &place);
            }
        }
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        // Whoever waits for one looks at it many times in between.
        let long = 100 * self.options.patience.max(idle);
        let now = self.host.now();
        held.retain(|_, (_, since)| now.saturating_duration_since(*since) < long);
    }

    /// Makes room for another session, for `id`, by giving up that used longest ago.
    fn make_room(&self, id: &str) {
        let all: Vec<(String, Arc<Place<H::Session>>)> = {
            let places = self.places();
            if places.len() <= MAX_KEPT {
                return;
            }
            places.iter().map(|(id, place)| (id.clone(), Arc::clone(place))).collect()
        };
        let others = all.into_iter().filter(|(other, _)| other != id);
        let mut idle: Vec<(Duration, String, Arc<Place<H::Session>>)> =
            others.filter_map(|(id, place)| Some((place.session()?.idle(), id, place))).collect();
        idle.sort_by(|one, other| other.0.cmp(&one.0));
        for (_, id, place) in idle.into_iter().take(MAX_KEPT / 10) {
            self.give_up(&id, &place);
        }
    }

    /// Gives a session up, unless somebody uses it.
    fn give_up(&self, id: &str, place: &Arc<Place<H::Session>>) {
        let Ok(mut local) = Arc::clone(&place.local).try_lock_owned() else {
            return;
        };
        place.clear(&mut local);
        let mut places = self.places();
        // Two have it: the list, and this. Whoever else does is about to use it.
        if places.get(id).is_some_and(|found| Arc::ptr_eq(found, place))
            && Arc::strong_count(place) == 2
        {
            places.remove(id);
        }
    }
}

//! What a node keeps of a session that it has had.

use std::io::ErrorKind;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};

use super::head::Head;
use super::{Node, count};
use crate::error::Error;
use crate::session::{FileAction, RestoreOptions, Session, SessionError};
use crate::store::Version;

/// Where a node keeps one session. Those who want it wait for one another here.
#[derive(Default)]
pub(super) struct Place {
    local: Arc<AsyncMutex<Option<Local>>>,
    /// The same session, for those who do not wait.
    session: Mutex<Option<Session>>,
}

/// A session as this node left it.
pub(super) struct Local {
    pub session: Session,
    /// The state of the store that it is in.
    pub state: String,
    /// The record as this node left it, if it did.
    pub rest: Option<(Head, Version)>,
}

/// The most sessions that a node keeps as it left them.
const MAX_KEPT: usize = 1_000;

impl Place {
    pub(super) fn session(&self) -> Option<Session> {
        self.session.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set_session(&self, session: Option<Session>) {
        *self.session.lock().unwrap_or_else(PoisonError::into_inner) = session;
    }

    pub(super) async fn lock(&self) -> OwnedMutexGuard<Option<Local>> {
        Arc::clone(&self.local).lock_owned().await
    }

    pub(super) async fn put(&self, local: Local) {
        self.set_session(Some(local.session.clone()));
        *self.lock().await = Some(local);
    }

    /// Closes what is kept, by whoever has locked it.
    pub(super) fn clear(&self, local: &mut Option<Local>) {
        self.set_session(None);
        if let Some(local) = local.take() {
            local.session.close();
        }
    }
}

impl Node {
    /// The session in this state: as it was left here, or read from the store.
    pub(super) async fn wake(
        &self,
        id: &str,
        place: &Place,
        local: &mut Option<Local>,
        state: &str,
    ) -> Result<Session, Error> {
        let is_open = |local: &&Local| self.runtime.sessions().get(local.session.id()).is_ok();
        if let Some(local) = local.as_ref().filter(|local| local.state == state).filter(is_open) {
            count(&self.counts.found);
            return Ok(local.session.clone());
        }
        place.clear(local);
        self.make_room(id);
        let options = RestoreOptions::stored(Arc::clone(&self.store), state).id(id);
        let session = match self.runtime.restore(options).await {
            Err(Error::Session(SessionError::Io {
                action: FileAction::Open,
                source,
                ..
            })) if source.kind() == ErrorKind::NotFound => {
                return Err(SessionError::StateGone { id: id.into() }.into());
            }
            restored => restored?,
        };
        count(&self.counts.woken);
        tracing::debug!(session = id, "a session was woken from the store");
        place.set_session(Some(session.clone()));
        *local = Some(Local {
            session: session.clone(),
            state: state.to_owned(),
            rest: None,
        });
        Ok(session)
    }

    /// Gives up what is kept of sessions that nobody has used for so long.
    pub(super) fn sweep(&self, idle: Duration) {
        let all: Vec<(String, Arc<Place>)> =
            self.places().iter().map(|(id, place)| (id.clone(), Arc::clone(place))).collect();
        for (id, place) in all {
            let is_idle = place
                .session()
                .is_none_or(|session| session.info().idle_seconds >= idle.as_secs_f64());
            if is_idle {
                self.give_up(&id, &place);
            }
        }
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        // Whoever waits for one looks at it many times in between.
        let long = 100 * self.options.patience.max(idle);
        held.retain(|_, (_, since)| Instant::now().saturating_duration_since(*since) < long);
    }

    /// Makes room for another session, for `id`, by giving up that used longest ago.
    fn make_room(&self, id: &str) {
        let all: Vec<(String, Arc<Place>)> = {
            let places = self.places();
            if places.len() <= MAX_KEPT {
                return;
            }
            places.iter().map(|(id, place)| (id.clone(), Arc::clone(place))).collect()
        };
        let others = all.into_iter().filter(|(other, _)| other != id);
        let mut idle: Vec<(f64, String, Arc<Place>)> = others
            .filter_map(|(id, place)| Some((place.session()?.info().idle_seconds, id, place)))
            .collect();
        idle.sort_by(|one, other| other.0.total_cmp(&one.0));
        for (_, id, place) in idle.into_iter().take(MAX_KEPT / 10) {
            self.give_up(&id, &place);
        }
    }

    /// Gives a session up, unless somebody uses it.
    fn give_up(&self, id: &str, place: &Arc<Place>) {
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

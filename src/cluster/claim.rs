//! A session that a node holds or reads, and the handles to it.

use std::sync::Arc;

use serde_json::{Map, Value};
use tokio::runtime::Handle;
use tokio::sync::OwnedMutexGuard;
use tokio::task::AbortHandle;

use super::cached::{Local, Place};
use super::host::{Host, Live};
use super::lease::{Given, Hold, MAX_TRIES, Wait};
use super::node::alone;
use super::record::{self, Head};
use super::{Node, StoredInfo};
use crate::error::Error;
use crate::session::Recalled;

/// A session that this node alone holds. Dropping it releases the session in the background.
#[must_use]
pub(super) struct Claimed<H: Host> {
    session: H::Session,
    /// The hold to release.
    taken: Option<Taken<H>>,
}

struct Taken<H: Host> {
    hold: Arc<Hold<H>>,
    place: Arc<Place<H::Session>>,
    local: OwnedMutexGuard<Option<Local<H::Session>>>,
    about: Map<String, Value>,
    /// Key of the state before the claim.
    before: String,
    keeper: AbortHandle,
    /// Whether dropping the claim releases only the record, because the previous state remains
    /// valid.
    is_unchanged: bool,
    /// The record's new list of losses, if it has grown.
    lost: Option<Vec<String>>,
}

impl<H: Host> Claimed<H> {
    /// Takes the session on its own task: if the caller stops waiting, the session is released and
    /// does not stay taken.
    pub(super) async fn take(node: &Arc<Node<H>>, id: &str, is_run: bool) -> Result<Self, Error> {
        let (node, id) = (Arc::clone(node), id.to_owned());
        alone(async move { Self::take_here(&node, &id, is_run).await }).await
    }

    async fn take_here(node: &Arc<Node<H>>, id: &str, is_run: bool) -> Result<Self, Error> {
        let place = node.place(id);
        let mut local = place.lock().await;
        let hold = Hold::take(node, id, local.as_mut(), is_run).await?;
        // From here on, every path releases the session.
        let mut taken = Taken::of(hold, place, local);
        let head = taken.hold.head().await;
        let session = node.wake(id, &taken.place, &mut taken.local, &head).await?;
        let Head {
            state, lost, about, ..
        } = head;
        if let Some(local) = &mut *taken.local {
            // Until the release, the session may differ from its stored state.
            local.state = None;
        }
        taken.is_unchanged = false;
        taken.about = about;
        taken.before = state;
        Ok(Self {
            session: session.lend(lost),
            taken: Some(taken),
        })
    }

    pub(super) fn session(&self) -> &H::Session {
        &self.session
    }

    pub(super) fn about(&self) -> Map<String, Value> {
        self.taken.as_ref().map(|taken| taken.about.clone()).unwrap_or_default()
    }

    pub(super) fn set_about(&mut self, about: Map<String, Value>) {
        if let Some(taken) = &mut self.taken {
            taken.about = about;
        }
    }

    pub(super) async fn release(mut self) -> Result<(), Error> {
        match self.taken.take() {
            Some(taken) => {
                let (session, recalled) = (self.session.clone(), self.session.recall());
                alone(taken.release(session, recalled)).await
            }
            None => Ok(()),
        }
    }

    pub(super) async fn release_behind(mut self) -> Result<(), Error> {
        let Some(taken) = self.taken.take() else {
            return Ok(());
        };
        // Recall the handles before the caller learns that the release is done.
        let (session, recalled) = (self.session.clone(), self.session.recall());
        if !taken.hold.is_sure() {
            return alone(taken.release(session, recalled)).await;
        }
        tokio::spawn(taken.release_alone(session, recalled));
        Ok(())
    }

    pub(super) async fn release_unchanged(mut self) -> Result<(), Error> {
        match self.taken.take() {
            Some(taken) => alone(taken.release_unchanged(self.session.recall())).await,
            None => Ok(()),
        }
    }
}

impl<H: Host> Drop for Claimed<H> {
    fn drop(&mut self) {
        let Some(taken) = self.taken.take() else {
            return;
        };
        let (session, recalled) = (self.session.clone(), self.session.recall());
        // Without a runtime, the session cannot be written, and the lease expires.
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(taken.release_alone(session, recalled));
        }
    }
}

impl<H: Host> Taken<H> {
    /// Creates the guard of a session that was just taken. The lease is renewed from now on.
    fn of(
        hold: Arc<Hold<H>>,
        place: Arc<Place<H::Session>>,
        local: OwnedMutexGuard<Option<Local<H::Session>>>,
    ) -> Self {
        let keeper = tokio::spawn(Arc::clone(&hold).keep(Arc::clone(&place))).abort_handle();
        Self {
            hold,
            place,
            local,
            about: Map::new(),
            before: String::new(),
            keeper,
            is_unchanged: true,
            lost: None,
        }
    }

    async fn release_alone(self, session: H::Session, recalled: Recalled) {
        let id = self.hold.id().to_owned();
        if let Err(error) = self.release(session, recalled).await {
            let why = error.with_causes();
            tracing::error!(session = id, why, "what was done in a session is lost");
        }
    }

    async fn release_unchanged(mut self, recalled: Recalled) -> Result<(), Error> {
        self.is_unchanged = true;
        if recalled.is_changed {
            // The session in memory differs from the store.
            self.place.clear(&mut self.local);
        }
        let (about, lost) = (self.about.clone(), recalled.lost);
        let given = self.hold.give_back(|head| {
            head.about.clone_from(&about);
            head.lost.clone_from(&lost);
        });
        let given = given.await?;
        self.settle(given);
        Ok(())
    }

    async fn release(mut self, session: H::Session, recalled: Recalled) -> Result<(), Error> {
        let (mut tries, mut saved) = (0, None);
        loop {
            tries += 1;
            let error = match self.write(&session, &mut saved, &recalled.lost).await {
                Ok(()) => return Ok(()),
                Err(error) => error,
            };
            let may_pass = matches!(error, Error::Store(_)) && tries < MAX_TRIES;
            if !may_pass || self.hold.is_gone() {
                self.place.clear(&mut self.local);
                return Err(error);
            }
            let why = error.with_causes();
            tracing::warn!(session = self.hold.id(), why, "a session is not written yet");
            let node = self.hold.node();
            node.host.sleep(node.options.lease).await;
        }
    }

    /// Writes the current state, unless it is `saved` already, and then the record that names it.
    async fn write(
        &mut self,
        session: &H::Session,
        saved: &mut Option<(String, u64)>,
        lost: &[String],
    ) -> Result<(), Error> {
        if self.hold.is_gone() {
            return Err(self.hold.taken());
        }
        let (state, execution) = if let Some(saved) = saved {
            saved.clone()
        } else {
            let epoch = self.hold.head().await.epoch;
            let written = self.hold.node().write_state(self.hold.id(), epoch, session).await;
            match written {
                Ok(written) => saved.insert(written).clone(),
                Err(error @ Error::Store(_)) => return Err(error),
                Err(error) => {
                    // The session cannot be saved, so the previous state remains valid.
                    let why = error.with_causes();
                    let told = format!("what was done last could not be written down: {why}");
                    self.lost = Some(lost.iter().cloned().chain([told]).collect());
                    self.is_unchanged = true;
                    return Err(error);
                }
            }
        };
        let (times, date) = (session.times(), self.hold.node().host.date());
        let written = self.hold.give_back(|head| {
            head.state.clone_from(&state);
            head.execution = execution;
            head.about.clone_from(&self.about);
            head.lost = lost.to_vec();
            head.changed(times, date);
        });
        match written.await {
            Ok(given) => {
                self.settle(given);
                self.remove(&self.before);
                Ok(())
            }
            Err(error) => {
                // If the record may name this state, the state must stay.
                if self.hold.is_gone() {
                    self.remove(&state);
                }
                Err(error)
            }
        }
    }

    /// Records which stored state the session in memory corresponds to.
    fn settle(&mut self, given: Given) {
        match (given, &mut *self.local) {
            (Given::Rest(head, version), Some(local)) => {
                local.state = Some(head.state.clone());
                local.rest = Some((head, version));
            }
            _ => self.place.clear(&mut self.local),
        }
    }

    /// Removes an obsolete state in the background.
    fn remove(&self, state: &str) {
        let (node, state) = (Arc::clone(self.hold.node()), state.to_owned());
        tokio::spawn(async move {
            if let Err(error) = node.store.delete(&state).await {
                tracing::warn!(%error, "an old state stays in the store");
            }
        });
    }
}

impl<H: Host> Drop for Taken<H> {
    fn drop(&mut self) {
        self.keeper.abort();
        let is_left = self.is_unchanged && !self.hold.is_over() && !self.hold.is_gone();
        if let (true, Ok(runtime)) = (is_left, Handle::try_current()) {
            runtime.spawn(Arc::clone(&self.hold).withdraw(self.lost.take()));
        }
    }
}

/// A session that this node does not change while this value exists.
#[must_use]
pub(super) struct Read<H: Host> {
    session: H::Session,
    info: StoredInfo,
    /// Makes writers on this node wait.
    _local: OwnedMutexGuard<Option<Local<H::Session>>>,
}

impl<H: Host> Read<H> {
    pub(super) async fn begin(node: &Arc<Node<H>>, id: &str) -> Result<Self, Error> {
        let place = node.place(id);
        let mut local = place.lock().await;
        let mut wait = Wait::new(node, id);
        loop {
            let (head, _) = wait.for_free().await?;
            match node.wake(id, &place, &mut local, &head).await {
                Ok(session) => {
                    return Ok(Self {
                        session: session.show(),
                        info: StoredInfo::of(id, &head),
                        _local: local,
                    });
                }
                Err(error) => {
                    // Another node may have changed the session meanwhile and removed that state.
                    let now = record::read(&*node.store, id).await?;
                    let is_other = now.is_none_or(|(now, _)| now.state != head.state);
                    if !is_other || !wait.again().await {
                        return Err(error);
                    }
                }
            }
        }
    }

    pub(super) fn session(&self) -> &H::Session {
        &self.session
    }

    pub(super) fn info(&self) -> &StoredInfo {
        &self.info
    }
}

//! A session that a node has: taken, looked after while it is used, and given back.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Map, Value};
use tokio::runtime::Handle;
use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};
use tokio::task::AbortHandle;

use super::head::{self, Head, Holder};
use super::local::{Local, Place};
use super::{Node, StoredInfo, count};
use crate::api::outcome::Outcome;
use crate::api::request::Request;
use crate::api::tool::ToolAnswer;
use crate::error::Error;
use crate::session::{Session, SessionError};
use crate::store::Version;

/// A session that this node has, and no other. Dropped, it is released behind the back of whoever
/// dropped it.
#[must_use]
pub struct Claim {
    session: Session,
    /// What is to be given back.
    taken: Option<Taken>,
}

struct Taken {
    hold: Arc<Hold>,
    place: Arc<Place>,
    local: OwnedMutexGuard<Option<Local>>,
    session: Session,
    about: Map<String, Value>,
    /// What was lost before, until an outcome has said so.
    lost: Vec<String>,
    keeper: AbortHandle,
}

/// The record of a session while this node holds it.
struct Hold {
    node: Arc<Node>,
    id: String,
    now: AsyncMutex<(Head, Version)>,
    /// When the record was last written, or earlier.
    renewed: Mutex<Instant>,
    /// Another node has taken it, or it was removed.
    is_gone: AtomicBool,
    /// It was given back.
    is_over: AtomicBool,
}

/// How long a node waits before it looks again whether another has given a session back.
const PAUSE: Duration = Duration::from_millis(4);
const MAX_PAUSE: Duration = Duration::from_millis(64);
/// How often a state is written that the store does not take, within one lease each time.
const MAX_TRIES: u32 = 3;

impl Claim {
    /// Takes it on a task of its own: one that nobody waits for any more is given back, and does not stay
    /// taken.
    pub(super) async fn take(node: &Arc<Node>, id: &str, is_run: bool) -> Result<Self, Error> {
        let (node, id) = (Arc::clone(node), id.to_owned());
        alone(async move { Self::take_here(&node, &id, is_run).await }).await
    }

    async fn take_here(node: &Arc<Node>, id: &str, is_run: bool) -> Result<Self, Error> {
        let place = node.place(id);
        let mut local = place.lock().await;
        let hold = Hold::take(node, id, local.as_mut(), is_run).await?;
        let (state, lost, about) = {
            let now = hold.now.lock().await;
            (now.0.state.clone(), now.0.lost.clone(), now.0.about.clone())
        };
        let hold = Arc::new(hold);
        let keeper = tokio::spawn(Arc::clone(&hold).keep(Arc::clone(&place))).abort_handle();
        let session = match node.wake(id, &place, &mut local, &state).await {
            Ok(session) => session,
            Err(error) => {
                hold.give_back(|_| {}).await?;
                keeper.abort();
                return Err(error);
            }
        };
        Ok(Self {
            session: session.clone(),
            taken: Some(Taken {
                hold,
                place,
                local,
                session,
                about,
                lost,
                keeper,
            }),
        })
    }

    /// The session.
    #[must_use]
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// What is known about it.
    #[must_use]
    pub fn about(&self) -> Map<String, Value> {
        self.taken.as_ref().map(|taken| taken.about.clone()).unwrap_or_default()
    }

    /// Replaces what is known about it, once it is released.
    pub fn set_about(&mut self, about: Map<String, Value>) {
        if let Some(taken) = &mut self.taken {
            taken.about = about;
        }
    }

    /// Runs a request in it, as [`Session::run`] does. The outcome tells what was lost before with a node
    /// that is gone.
    ///
    /// # Errors
    ///
    /// As for [`Session::run`].
    pub async fn run(&mut self, request: Request) -> Result<Outcome, Error> {
        let mut outcome = self.session.run(request).await?;
        self.tell(&mut outcome);
        Ok(outcome)
    }

    /// Goes on with a run that waits for answers, as [`Session::answer`] does.
    ///
    /// # Errors
    ///
    /// As for [`Session::answer`].
    pub async fn answer(&mut self, answers: Vec<ToolAnswer>) -> Result<Outcome, Error> {
        let mut outcome = self.session.answer(answers).await?;
        self.tell(&mut outcome);
        Ok(outcome)
    }

    fn tell(&mut self, outcome: &mut Outcome) {
        let (Some(taken), Some(report)) = (&mut self.taken, &mut outcome.session) else {
            return;
        };
        if taken.lost.is_empty() {
            return;
        }
        let mut reasons = std::mem::take(&mut taken.lost);
        reasons.extend(report.restart_reason.take());
        report.interpreter_restarted = true;
        report.restart_reason = Some(reasons.join("; "));
    }

    /// Writes the session as it is now into the store, and gives it back.
    ///
    /// # Errors
    ///
    /// [`SessionError::Taken`] when another node has taken it, since this one gave no sign of life for too
    /// long, and what was done here is lost; when the store fails for too long.
    pub async fn release(mut self) -> Result<(), Error> {
        match self.taken.take() {
            Some(taken) => alone(taken.release()).await,
            None => Ok(()),
        }
    }

    /// Does the same while the caller goes on. Only where this node may have lost the session does the
    /// caller wait, and learn it.
    ///
    /// # Errors
    ///
    /// As for [`release`](Self::release), where it waits.
    pub async fn release_behind(mut self) -> Result<(), Error> {
        let Some(taken) = self.taken.take() else {
            return Ok(());
        };
        if !taken.hold.is_sure() {
            return alone(taken.release()).await;
        }
        tokio::spawn(taken.release_alone());
        Ok(())
    }

    /// Gives it back as it was: nothing was changed.
    ///
    /// # Errors
    ///
    /// As for [`release`](Self::release).
    pub async fn release_unchanged(mut self) -> Result<(), Error> {
        match self.taken.take() {
            Some(taken) => alone(taken.release_unchanged()).await,
            None => Ok(()),
        }
    }
}

/// Awaits what is not to end half way when nobody waits for it any more.
async fn alone<T: Send + 'static>(
    work: impl Future<Output = Result<T, Error>> + Send + 'static,
) -> Result<T, Error> {
    tokio::spawn(work).await.map_err(Error::system("finish what was begun in a session"))?
}

impl Drop for Claim {
    fn drop(&mut self) {
        // Without a runtime it cannot be written, and the lease ends.
        if let (Some(taken), Ok(runtime)) = (self.taken.take(), Handle::try_current()) {
            runtime.spawn(taken.release_alone());
        }
    }
}

impl Taken {
    async fn release_alone(self) {
        let id = self.hold.id.clone();
        if let Err(error) = self.release().await {
            let why = error.with_causes();
            tracing::error!(session = id, why, "what was done in a session is lost");
        }
    }

    async fn release_unchanged(self) -> Result<(), Error> {
        let about = self.about.clone();
        self.hold.give_back(|head| head.about = about).await.map(drop)
    }

    async fn release(mut self) -> Result<(), Error> {
        let mut tries = 0;
        loop {
            tries += 1;
            let error = match self.write().await {
                Ok(()) => return Ok(()),
                Err(error) => error,
            };
            let may_pass = matches!(error, Error::Store(_)) && tries < MAX_TRIES;
            if !may_pass || self.hold.is_gone() {
                // What is kept here is not what the store has.
                self.place.clear(&mut self.local);
                return Err(error);
            }
            let why = error.with_causes();
            tracing::warn!(session = self.hold.id, why, "a session's state is not written yet");
            tokio::time::sleep(self.hold.node.options.lease).await;
        }
    }

    /// Writes the state that it is in, and then the record that names it.
    async fn write(&mut self) -> Result<(), Error> {
        let Hold { node, id, .. } = &*self.hold;
        if self.hold.is_gone() {
            return Err(self.hold.taken());
        }
        let (epoch, before) = {
            let now = self.hold.now.lock().await;
            (now.0.epoch, now.0.state.clone())
        };
        let (state, execution) = match node.write_state(id, epoch, &self.session).await {
            Ok(written) => written,
            Err(error @ Error::Store(_)) => return Err(error),
            Err(error) => {
                // It is in no state that could be written: that before it is the one that counts.
                let why = error.with_causes();
                self.lost.push(format!("what was done last could not be written down: {why}"));
                let lost = self.lost.clone();
                self.hold.give_back(|head| head.lost = lost).await?;
                return Err(error);
            }
        };
        let (about, lost) = (self.about.clone(), self.lost.clone());
        let written = self.hold.give_back(|head| {
            head.state.clone_from(&state);
            head.execution = execution;
            head.about = about;
            head.lost = lost;
            head.used = head::now();
        });
        match written.await {
            Ok(rest) => {
                if let Some(local) = &mut *self.local {
                    local.state = state;
                    local.rest = Some(rest);
                }
                self.remove(&before);
                Ok(())
            }
            Err(error) => {
                // Where it is not known whether the record names it, it stays.
                if self.hold.is_gone() {
                    self.remove(&state);
                }
                Err(error)
            }
        }
    }

    /// Removes a state that counts no more. Nobody waits for that.
    fn remove(&self, state: &str) {
        let (node, state) = (Arc::clone(&self.hold.node), state.to_owned());
        tokio::spawn(async move {
            if let Err(error) = node.store.delete(&state).await {
                tracing::warn!(%error, "an old state stays in the store");
            }
        });
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.keeper.abort();
    }
}

impl Hold {
    /// Takes a session, once nobody has it who gives signs of life.
    async fn take(
        node: &Arc<Node>,
        id: &str,
        local: Option<&mut Local>,
        is_run: bool,
    ) -> Result<Self, Error> {
        let options = &node.options;
        let mut rest = local.and_then(|local| local.rest.take());
        let mut wait = Wait::new(node, id);
        loop {
            // If nobody has had it since, there is no need to look.
            let (head, version) = match rest.take() {
                Some(rest) => rest,
                None => wait.for_free().await?,
            };
            let holder = Holder {
                node: node.name().to_owned(),
                lease: options.lease.as_millis() as u64,
                run: is_run.then_some(head.execution + 1),
            };
            let mut taken = head.taken_by(holder);
            let begun = Instant::now();
            let written = head::write(&*node.store, id, &mut taken, Some(&version)).await?;
            let Some(version) = written else {
                continue;
            };
            node.note_free(id);
            if let Some(gone) = &head.holder {
                count(&node.counts.taken_over);
                tracing::warn!(session = id, node = gone.node, "taken from a node that is gone");
                remove_old(Arc::clone(node), id.to_owned(), taken.epoch, taken.state.clone());
            }
            node.holding.send_modify(|count| *count += 1);
            return Ok(Self {
                node: Arc::clone(node),
                id: id.to_owned(),
                now: AsyncMutex::new((taken, version)),
                renewed: Mutex::new(begun),
                is_gone: AtomicBool::new(false),
                is_over: AtomicBool::new(false),
            });
        }
    }

    fn is_gone(&self) -> bool {
        self.is_gone.load(Ordering::Acquire)
    }

    /// Whether no other node can have taken it.
    fn is_sure(&self) -> bool {
        let renewed = *self.renewed.lock().unwrap_or_else(PoisonError::into_inner);
        !self.is_gone() && renewed.elapsed() < self.node.options.lease
    }

    fn taken(&self) -> Error {
        SessionError::Taken {
            id: self.id.clone(),
            node: self.node.name().to_owned(),
        }
        .into()
    }

    /// Replaces the record; where another has replaced it, this node has lost the session.
    async fn replace(&self, change: impl FnOnce(&mut Head)) -> Result<(Head, Version), Error> {
        let mut now = self.now.lock().await;
        if self.is_gone() || self.is_over.load(Ordering::Acquire) {
            return Err(self.taken());
        }
        let mut head = now.0.clone();
        change(&mut head);
        let begun = Instant::now();
        let written = head::write(&*self.node.store, &self.id, &mut head, Some(&now.1)).await?;
        let Some(version) = written else {
            self.is_gone.store(true, Ordering::Release);
            count(&self.node.counts.lost);
            return Err(self.taken());
        };
        *self.renewed.lock().unwrap_or_else(PoisonError::into_inner) = begun;
        // Nothing is written after that.
        self.is_over.store(head.holder.is_none(), Ordering::Release);
        *now = (head, version);
        Ok(now.clone())
    }

    /// Gives it back, changed.
    async fn give_back(&self, change: impl FnOnce(&mut Head)) -> Result<(Head, Version), Error> {
        self.replace(|head| {
            head.holder = None;
            change(head);
        })
        .await
    }

    /// Shows the others that this node is alive, for as long as it holds the session. A run in one that
    /// it has lost is of no more use.
    async fn keep(self: Arc<Self>, place: Arc<Place>) {
        loop {
            tokio::time::sleep(self.node.options.lease / 3).await;
            let renewed = self.replace(|_| {}).await;
            let Err(error) = renewed else {
                self.obey(&place).await;
                continue;
            };
            if self.is_over.load(Ordering::Acquire) {
                return;
            }
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
}

impl Hold {
    /// Interrupts what runs, if somebody asked another node for it.
    async fn obey(&self, place: &Place) {
        let epoch = self.now.lock().await.0.epoch;
        let key = head::stop_key(&self.id, epoch);
        // Whoever asked may ask again, should this fail.
        if let (Ok(Some(_)), Some(session)) = (self.node.store.get(&key, 0).await, place.session())
        {
            session.interrupt();
            let _ = self.node.store.delete(&key).await;
        }
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.node.holding.send_modify(|count| *count -= 1);
    }
}

/// Removes states that a node has left which is gone: those from before `epoch`, but for the one that
/// counts.
fn remove_old(node: Arc<Node>, id: String, epoch: u64, current: String) {
    tokio::spawn(async move {
        let Ok(all) = node.store.list(&head::folder(&id)).await else {
            return;
        };
        for entry in all {
            let written = head::epoch_of(&entry.key);
            if written.is_some_and(|written| written < epoch) && entry.key != current {
                // What stays goes with the session.
                let _ = node.store.delete(&entry.key).await;
            }
        }
    });
}

/// Waiting for a session that another node has.
struct Wait<'a> {
    node: &'a Node,
    id: &'a str,
    begun: Instant,
    pause: Duration,
}

impl<'a> Wait<'a> {
    fn new(node: &'a Node, id: &'a str) -> Self {
        Self {
            node,
            id,
            begun: Instant::now(),
            pause: PAUSE,
        }
    }

    /// The record, once nobody has it, or whoever has it is gone.
    async fn for_free(&mut self) -> Result<(Head, Version), Error> {
        loop {
            let Some((head, version)) = head::read(&*self.node.store, self.id).await? else {
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

    /// Waits a little, unless this has gone on for too long.
    async fn again(&mut self) -> bool {
        if self.begun.elapsed() >= self.node.options.patience {
            return false;
        }
        tokio::time::sleep(self.pause).await;
        self.pause = (2 * self.pause).min(MAX_PAUSE);
        true
    }
}

/// A session as it is, while nobody on this node changes it.
#[must_use]
pub struct Reading {
    session: Session,
    info: StoredInfo,
    /// Whoever wants to change it on this node waits.
    _local: OwnedMutexGuard<Option<Local>>,
}

impl Reading {
    pub(super) async fn begin(node: &Arc<Node>, id: &str) -> Result<Self, Error> {
        let place = node.place(id);
        let mut local = place.lock().await;
        let mut wait = Wait::new(node, id);
        loop {
            let (head, _) = wait.for_free().await?;
            match node.wake(id, &place, &mut local, &head.state).await {
                Ok(session) => {
                    return Ok(Self {
                        session,
                        info: StoredInfo::of(id, &head),
                        _local: local,
                    });
                }
                Err(error) => {
                    // Another may have changed it in between, and removed that state.
                    let now = head::read(&*node.store, id).await?;
                    let is_other = now.is_none_or(|(now, _)| now.state != head.state);
                    if !is_other || !wait.again().await {
                        return Err(error);
                    }
                }
            }
        }
    }

    /// The session, for everything that does not change it.
    #[must_use]
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// What the store says of it.
    #[must_use]
    pub fn info(&self) -> &StoredInfo {
        &self.info
    }
}

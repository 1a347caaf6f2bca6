//! Contexts take turns in a sandbox: whoever has the turn may run code and change files.
//!
//! Each context is a session with files of its own. Before a context runs it gets the files of the
//! context that ran last; that costs nothing where no file changed. In a store a turn is the claim
//! on the session of that context. The document of the sandbox names the context, and is read again
//! once the claim is held.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::http::StatusCode;
use belljar::error::SessionError;
use belljar::session::SessionFiles;
use belljar::{Error, Outcome, Request};
use tokio::sync::OwnedMutexGuard;

use super::fault::{Fault, gone};
use super::paths::HOME;
use super::record::{Context, Latest, Note, Traits, lock, new_id, options, with_env};
use super::sandbox::Sandbox;
use super::wire::ContextInfo;
use crate::service::anywhere::{AtHand, Use};
use crate::service::error::ServiceError;
use crate::service::owner::Owner;
use crate::service::turn::Attended;

/// The most contexts of a sandbox.
const MAX_CONTEXTS: usize = 32;

impl Sandbox {
    pub(super) async fn fork_context(
        &self,
        turn: &Turn,
        context: &Context,
        traits: &Traits,
        memory: bool,
    ) -> Result<Arc<Context>, Fault> {
        let has_files = context.id == turn.context().id;
        if !memory {
            let options = options(self.service(), traits, &context.cwd);
            let held = Box::pin(self.service().start(&self.owner, options.into())).await?;
            let fork = Context::new(context.id.clone(), &context.cwd, held.id(), Note::default());
            if has_files {
                self.give_files(turn, &fork).await?;
            }
            return Ok(fork);
        }
        let other;
        let at = if has_files {
            turn.at()?
        } else {
            other = self.at_hand(context, Use::Look).await?.ok_or_else(gone)?;
            &other
        };
        let held = self.service().fork_of(&self.owner, at, None).await?;
        let env = with_env(Request::new("pass"), &traits.env);
        if let Err(error) = held.session().validate(&env) {
            self.remove_session(held.id()).await;
            return Err(error.into());
        }
        Ok(Context::new(context.id.clone(), &context.cwd, held.id(), context.note()))
    }

    /// Writes the sandbox's files into the session of a context that is none of its own yet.
    async fn give_files(&self, turn: &Turn, to: &Context) -> Result<(), Fault> {
        let at = self.at_hand(to, Use::Change).await?.ok_or_else(gone)?;
        at.session().all_files().replace_with(&turn.files()?).await?;
        Ok(at.done().await?)
    }

    /// The context of that id, or that which everybody means who names none.
    pub(super) async fn context(&self, id: Option<&str>) -> Result<Arc<Context>, Fault> {
        if let Some(known) = self.known_context(id) {
            return Ok(known);
        }
        // Another server may have made it.
        self.refresh().await?;
        self.known_context(id).ok_or_else(|| match id {
            Some(id) => Fault::not_found(format!("Context {id} not found")),
            None => Fault::no_sandbox(&self.id),
        })
    }

    fn known_context(&self, id: Option<&str>) -> Option<Arc<Context>> {
        let contexts = lock(&self.contexts);
        match id {
            None => contexts.first().cloned(),
            Some(id) => contexts.iter().find(|context| context.id == id).cloned(),
        }
    }

    pub(super) fn context_infos(&self) -> Vec<ContextInfo> {
        lock(&self.contexts).iter().map(|context| context.info()).collect()
    }

    /// Makes a context.
    pub(super) async fn add_context(&self, cwd: &str) -> Result<Arc<Context>, Fault> {
        if lock(&self.contexts).len() >= MAX_CONTEXTS {
            let message = format!("a sandbox has at most {MAX_CONTEXTS} contexts");
            return Err(Fault::new(StatusCode::TOO_MANY_REQUESTS, message));
        }
        let held = self.start(cwd).await?;
        let context = Context::new(new_id(), cwd, held.id(), Note::default());
        if self.is_shared() {
            if let Err(fault) = self.change(|form| form.add(&context)).await {
                self.remove_session(held.id()).await;
                return Err(fault);
            }
            return self.context(Some(&context.id)).await;
        }
        lock(&self.contexts).push(Arc::clone(&context));
        self.drop_if_killed(&context).await?;
        Ok(context)
    }

    /// Removes a context. What it runs is interrupted; the files stay, and where no context is left there is
    /// a new one.
    pub(super) async fn remove_context(&self, id: &str) -> Result<(), Fault> {
        let context = self.context(Some(id)).await?;
        self.interrupt(&context).await;
        let mut turn = self.turn(Use::Change).await?;
        let other = self.all().into_iter().find(|other| other.id != id);
        if turn.context().id == id || other.is_none() {
            let other = match other {
                Some(other) => other,
                None => self.add_context(HOME).await?,
            };
            self.hand_over(&mut turn, &other).await?;
        }
        if self.is_shared() {
            self.done(turn).await?;
            self.change(|form| form.remove(id)).await?;
        } else {
            lock(&self.contexts).retain(|other| other.id != id);
        }
        self.remove_session(&context.session()).await;
        Ok(())
    }

    /// Has a context begin anew, without variables. What it runs is interrupted; the files stay.
    pub(super) async fn restart_context(&self, id: &str) -> Result<(), Fault> {
        let context = self.context(Some(id)).await?;
        self.interrupt(&context).await;
        let mut turn = self.turn(Use::Change).await?;
        self.restart(&mut turn, &context).await?;
        turn.leave().await
    }

    async fn restart(&self, turn: &mut Turn, context: &Arc<Context>) -> Result<(), Fault> {
        let held = self.start(&context.cwd).await?;
        let new = Context::new(context.id.clone(), &context.cwd, held.id(), Note::default());
        let old = context.session();
        if turn.context().id == context.id {
            self.give_files(turn, &new).await?;
            turn.exchange(self.at_hand(&new, Use::Change).await?.ok_or_else(gone)?).await?;
        }
        context.set_session(held.id());
        context.set_note(Note::default());
        if self.is_shared() {
            self.change(|form| form.set_session(&context.id, held.id())).await?;
        }
        self.remove_session(&old).await;
        self.drop_if_killed(context).await
    }

    /// Has every context begin anew.
    pub(super) async fn forget(&self, turn: &mut Turn) -> Result<(), Fault> {
        for context in self.all() {
            self.restart(turn, &context).await?;
        }
        Ok(())
    }

    /// Interrupts what runs in a context, on whichever server.
    async fn interrupt(&self, context: &Context) {
        if !context.interrupt() && self.is_shared() {
            // Where nothing can be asked for now, it is waited for.
            let _ = self.service().interrupt(&self.owner, &context.session()).await;
        }
    }

    async fn drop_if_killed(&self, context: &Context) -> Result<(), Fault> {
        if self.killed.is_cancelled() {
            self.remove_session(&context.session()).await;
            return Err(Fault::no_sandbox(&self.id));
        }
        Ok(())
    }
}

/// How long whoever waits for another server's turn does so before it asks again.
const PAUSE: Duration = Duration::from_millis(50);

/// A session in which something ran, and what came of it.
pub(super) type Ran = (AtHand, Result<Outcome, ServiceError>);

/// A turn.
pub(super) struct Turn {
    latest: OwnedMutexGuard<Latest>,
    /// The session of that context, unless something runs in it.
    at: Option<AtHand>,
    /// The session that had the files before, until it is written down that another has.
    before: Option<AtHand>,
}

impl Sandbox {
    /// Waits until nothing else runs or writes here.
    pub(super) async fn turn(&self, purpose: Use) -> Result<Turn, Fault> {
        self.turn_as(|_| purpose).await
    }

    /// A turn to run code in a context, however long others on any server have theirs.
    pub(super) async fn turn_to_run(&self, context: &Context) -> Result<Turn, Fault> {
        let purpose = |latest: &Context| {
            if latest.id == context.id {
                Use::Run
            } else {
                Use::Change
            }
        };
        self.turn_waiting(purpose).await
    }

    /// A turn, however long others on any server have theirs.
    pub(super) async fn turn_waiting(
        &self,
        purpose: impl Fn(&Context) -> Use,
    ) -> Result<Turn, Fault> {
        loop {
            match self.turn_as(&purpose).await {
                Err(fault) if fault.is_elsewhere => tokio::time::sleep(PAUSE).await,
                turn => return turn,
            }
        }
    }

    async fn turn_as(&self, purpose: impl Fn(&Context) -> Use) -> Result<Turn, Fault> {
        let mut latest = tokio::select! {
            biased;
            () = self.killed.cancelled() => return Err(gone()),
            latest = self.latest() => latest,
        };
        loop {
            let session = latest.0.session();
            let at = self.at_hand(&latest.0, purpose(&latest.0)).await;
            if self.is_shared() {
                let now = self.refreshed_latest().await?;
                let is_it = now.id == latest.0.id && now.session() == session;
                latest.0 = now;
                if !is_it {
                    if let Ok(Some(at)) = at {
                        at.leave().await?;
                    }
                    continue;
                }
            }
            return Ok(Turn {
                latest,
                at: Some(at?.ok_or_else(gone)?),
                before: None,
            });
        }
    }

    /// The session of a context, at hand; `None` where it is gone.
    pub(super) async fn at_hand(
        &self,
        context: &Context,
        purpose: Use,
    ) -> Result<Option<AtHand>, Fault> {
        match self.service().at_hand(&self.owner, &context.session(), purpose).await {
            Ok(at) => {
                if self.is_shared() {
                    context.set_note(Note::read(at.note()));
                }
                Ok(Some(at))
            }
            Err(
                ServiceError::NoSession { .. }
                | ServiceError::Engine(Error::Session(SessionError::NotFound { .. })),
            ) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Has a context have the sandbox's files, and be the one that has them from now on.
    pub(super) async fn hand_over(&self, turn: &mut Turn, to: &Arc<Context>) -> Result<(), Fault> {
        if turn.latest.0.id == to.id {
            return Ok(());
        }
        let at = self.at_hand(to, Use::Run).await?.ok_or_else(gone)?;
        at.session().all_files().replace_with(&turn.files()?).await?;
        let before = turn.at.replace(at);
        if self.is_shared() && turn.before.is_none() {
            turn.before = before;
        }
        turn.latest.0 = Arc::clone(to);
        Ok(())
    }

    /// Runs a request in the context that has the turn.
    pub(super) fn run(&self, turn: &mut Turn, request: Request) -> Result<Attended<Ran>, Fault> {
        let at = turn.at.take().ok_or_else(gone)?;
        Ok(self.service().run_holding(&self.owner, at, request))
    }

    /// Ends a turn in which something was run, and notes what is known of its context since.
    pub(super) async fn ran(
        &self,
        turn: Turn,
        mut at: AtHand,
        ran: &Result<Outcome, ServiceError>,
    ) -> Result<(), Fault> {
        if self.is_shared() {
            at.set_note(turn.latest.0.note().written());
        }
        if turn.before.is_none() {
            at.done_after(ran).await?;
            // Whoever looks now waits until this turn has ended.
            self.changed.send_replace(());
            return Ok(());
        }
        self.done(Turn {
            at: Some(at),
            ..turn
        })
        .await
    }

    /// Ends a turn in which something was changed: from now on it is there on every server.
    pub(super) async fn done(&self, turn: Turn) -> Result<(), Fault> {
        let Turn { latest, at, before } = turn;
        if let Some(at) = at {
            at.done().await?;
        }
        if let Some(before) = before {
            self.set_latest(&latest.0).await?;
            before.leave().await?;
        }
        self.changed.send_replace(());
        drop(latest);
        Ok(())
    }
}

impl Turn {
    /// The sandbox's files.
    pub(super) fn files(&self) -> Result<SessionFiles, Fault> {
        Ok(self.at()?.session().all_files())
    }

    pub(super) fn at(&self) -> Result<&AtHand, Fault> {
        self.at.as_ref().ok_or_else(gone)
    }

    /// The context that has the files.
    pub(super) fn context(&self) -> &Arc<Context> {
        &self.latest.0
    }

    /// Takes another session for the context that has the files; the one before is given back as it was.
    pub(super) async fn exchange(&mut self, at: AtHand) -> Result<(), Fault> {
        match self.at.replace(at) {
            Some(before) => Ok(before.leave().await?),
            None => Ok(()),
        }
    }

    /// Ends a turn in which nothing was changed.
    pub(super) async fn leave(self) -> Result<(), Fault> {
        for at in [self.at, self.before].into_iter().flatten() {
            at.leave().await?;
        }
        Ok(())
    }
}

/// The most executions of one owner that wait, and the most bytes of their code and environment.
const MAX_EXECUTIONS: usize = 256;
const MAX_WAITING_BYTES: usize = 64 << 20;

/// The executions of all owners that wait, by the owner's name. Cheap to clone; clones are the same.
#[derive(Clone, Default)]
pub(super) struct Waiting(Arc<Mutex<HashMap<String, Waiters>>>);

#[derive(Clone, Copy, Default)]
struct Waiters {
    executions: usize,
    bytes: usize,
}

/// An execution that waits, until this is dropped.
pub(super) struct Waits {
    waiting: Waiting,
    owner: String,
    bytes: usize,
}

impl Waiting {
    /// Has an execution wait, of so many bytes.
    pub(super) fn enter(&self, owner: &Owner, bytes: usize) -> Result<Waits, Fault> {
        let mut all = lock(&self.0);
        let counted = all.get(owner.name()).copied().unwrap_or_default();
        let is_full = counted.executions >= MAX_EXECUTIONS
            || (counted.executions > 0 && counted.bytes + bytes > MAX_WAITING_BYTES);
        if is_full {
            let message = "too many executions of this key wait already";
            return Err(Fault::new(StatusCode::TOO_MANY_REQUESTS, message));
        }
        let more = Waiters {
            executions: counted.executions + 1,
            bytes: counted.bytes + bytes,
        };
        all.insert(owner.name().to_owned(), more);
        Ok(Waits {
            waiting: self.clone(),
            owner: owner.name().to_owned(),
            bytes,
        })
    }
}

impl Drop for Waits {
    fn drop(&mut self) {
        let mut all = lock(&self.waiting.0);
        if let Some(counted) = all.get_mut(&self.owner) {
            counted.executions -= 1;
            counted.bytes -= self.bytes;
            if counted.executions == 0 {
                all.remove(&self.owner);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::service::owner::KeyLimits;

    /// Any number of executions could wait, each with eight megabytes of code.
    #[test]
    fn an_owner_has_so_many_executions_waiting_and_takes_no_room_from_another() {
        let [one, two] = ["one", "two"].map(|name| Owner::new(name, KeyLimits::default()));
        for bytes in [0, 8 << 20] {
            let waiting = Waiting::default();
            let mut places = Vec::new();
            while let Ok(place) = waiting.enter(&one, bytes) {
                places.push(place);
                assert!(places.len() <= MAX_EXECUTIONS);
            }
            assert!(places.len() * bytes <= MAX_WAITING_BYTES && !places.is_empty());
            assert!(waiting.enter(&two, bytes).is_ok());
            places.pop();
            assert!(waiting.enter(&one, bytes).is_ok());
            drop(places);
            assert!(lock(&waiting.0).is_empty());
        }
    }
}

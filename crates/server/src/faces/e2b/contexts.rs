//! Turns: the holder of a sandbox's turn may run code and change files.
//!
//! Each context is a session with its own files. Before a context runs, it receives the files of
//! the context that ran last, which costs nothing if no file changed. With a store, a turn is the
//! claim on that context's session. The sandbox's document names the context, and is read again
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
use super::record::{Context, Latest, Note, SandboxConfig, new_id, options, with_env};
use super::sandbox::Sandbox;
use super::wire::ContextInfo;
use crate::lock::lock;
use crate::service::error::ServiceError;
use crate::service::guest_work::GuestFuture;
use crate::service::owner::Owner;
use crate::service::session_store::{Access, ClaimedSession};

/// Maximum number of contexts of a sandbox.
const MAX_CONTEXTS: usize = 32;

impl Sandbox {
    pub(super) async fn fork_context(
        &self,
        turn: &Turn,
        context: &Context,
        config: &SandboxConfig,
        memory: bool,
    ) -> Result<Arc<Context>, Fault> {
        let has_files = context.id == turn.context().id;
        if !memory {
            let options = options(self.service(), config, &context.cwd);
            let session = Box::pin(self.service().start(&self.user(), options.into())).await?;
            let fork =
                Context::new(context.id.clone(), &context.cwd, session.id(), Note::default());
            if has_files {
                self.give_files(turn, &fork).await?;
            }
            return Ok(fork);
        }
        let other;
        let at = if has_files {
            turn.at()?
        } else {
            other = self.claim(context, Access::Read).await?.ok_or_else(gone)?;
            &other
        };
        let session = self.service().fork_of(&self.user(), at, None).await?;
        let env = with_env(Request::new("pass"), &config.env);
        if let Err(error) = session.view().validate(&env) {
            self.remove_session(session.id()).await;
            return Err(error.into());
        }
        Ok(Context::new(context.id.clone(), &context.cwd, session.id(), context.note()))
    }

    /// Copies the sandbox's files into the session of a context that is not yet in its list.
    async fn give_files(&self, turn: &Turn, to: &Context) -> Result<(), Fault> {
        let at = self.claim(to, Access::Change).await?.ok_or_else(gone)?;
        at.view().all_files().replace_with(&turn.files()?).await?;
        Ok(at.commit().await?)
    }

    /// Returns the context with this id, or the default context.
    pub(super) async fn context(&self, id: Option<&str>) -> Result<Arc<Context>, Fault> {
        if let Some(known) = self.known_context(id) {
            return Ok(known);
        }
        // Another server may have created it.
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

    /// Creates a context.
    pub(super) async fn add_context(&self, cwd: &str) -> Result<Arc<Context>, Fault> {
        if lock(&self.contexts).len() >= MAX_CONTEXTS {
            let message = format!("a sandbox has at most {MAX_CONTEXTS} contexts");
            return Err(Fault::new(StatusCode::TOO_MANY_REQUESTS, message));
        }
        let session = self.start(cwd).await?;
        let context = Context::new(new_id(), cwd, session.id(), Note::default());
        if self.is_shared() {
            if let Err(fault) = self.change(|record| record.add(&context)).await {
                self.remove_session(session.id()).await;
                return Err(fault);
            }
            return self.context(Some(&context.id)).await;
        }
        lock(&self.contexts).push(Arc::clone(&context));
        self.drop_if_killed(&context).await?;
        Ok(context)
    }

    /// Removes a context and interrupts its run. Files stay. If it was the last context, a new one
    /// is created.
    pub(super) async fn remove_context(&self, id: &str) -> Result<(), Fault> {
        let context = self.context(Some(id)).await?;
        self.interrupt(&context).await;
        let mut turn = self.turn(Access::Change).await?;
        let other = self.all().into_iter().find(|other| other.id != id);
        if turn.context().id == id || other.is_none() {
            let other = match other {
                Some(other) => other,
                None => self.add_context(HOME).await?,
            };
            self.hand_over(&mut turn, &other).await?;
        }
        if self.is_shared() {
            self.commit(turn).await?;
            self.change(|record| record.remove(id)).await?;
        } else {
            lock(&self.contexts).retain(|other| other.id != id);
        }
        self.remove_session(&context.session()).await;
        Ok(())
    }

    /// Restarts a context, which loses its variables, and interrupts its run. Files stay.
    pub(super) async fn restart_context(&self, id: &str) -> Result<(), Fault> {
        let context = self.context(Some(id)).await?;
        self.interrupt(&context).await;
        let mut turn = self.turn(Access::Change).await?;
        self.restart(&mut turn, &context).await?;
        turn.release().await
    }

    async fn restart(&self, turn: &mut Turn, context: &Arc<Context>) -> Result<(), Fault> {
        let session = self.start(&context.cwd).await?;
        let new = Context::new(context.id.clone(), &context.cwd, session.id(), Note::default());
        let old = context.session();
        if turn.context().id == context.id {
            self.give_files(turn, &new).await?;
            turn.exchange(self.claim(&new, Access::Change).await?.ok_or_else(gone)?).await?;
        }
        context.set_session(session.id());
        context.set_note(Note::default());
        if self.is_shared() {
            self.change(|record| record.set_session(&context.id, session.id())).await?;
        }
        self.remove_session(&old).await;
        self.drop_if_killed(context).await
    }

    /// Restarts all contexts.
    pub(super) async fn forget(&self, turn: &mut Turn) -> Result<(), Fault> {
        for context in self.all() {
            self.restart(turn, &context).await?;
        }
        Ok(())
    }

    /// Interrupts the run in a context, on any server.
    async fn interrupt(&self, context: &Context) {
        if !context.interrupt() && self.is_shared() {
            // If the store cannot be asked now, the caller waits for the run instead.
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

/// Delay before retrying when another server holds the turn.
const PAUSE: Duration = Duration::from_millis(50);

/// A session and the outcome of the run in it.
pub(super) type Ran = (ClaimedSession, Result<Outcome, ServiceError>);

/// Exclusive use of a sandbox.
pub(super) struct Turn {
    latest: OwnedMutexGuard<Latest>,
    /// The session of `latest`, except while a run uses it.
    at: Option<ClaimedSession>,
    /// The session that previously had the files, until the store records the new one.
    before: Option<ClaimedSession>,
}

impl Sandbox {
    /// Waits for the turn.
    pub(super) async fn turn(&self, purpose: Access) -> Result<Turn, Fault> {
        self.turn_as(|_| purpose).await
    }

    /// Waits for the turn, without a time limit, to run code in a context.
    pub(super) async fn turn_to_run(&self, context: &Context) -> Result<Turn, Fault> {
        let purpose = |latest: &Context| {
            if latest.id == context.id {
                Access::Run
            } else {
                Access::Change
            }
        };
        self.turn_waiting(purpose).await
    }

    /// Waits for the turn without a time limit, even if another server holds it.
    pub(super) async fn turn_waiting(
        &self,
        purpose: impl Fn(&Context) -> Access,
    ) -> Result<Turn, Fault> {
        loop {
            match self.turn_as(&purpose).await {
                Err(fault) if fault.is_elsewhere => tokio::time::sleep(PAUSE).await,
                turn => return turn,
            }
        }
    }

    async fn turn_as(&self, purpose: impl Fn(&Context) -> Access) -> Result<Turn, Fault> {
        let mut latest = tokio::select! {
            biased;
            () = self.killed.cancelled() => return Err(gone()),
            latest = self.latest() => latest,
        };
        loop {
            let session = latest.0.session();
            let at = self.claim(&latest.0, purpose(&latest.0)).await;
            if self.is_shared() {
                let now = self.refreshed_latest().await?;
                let is_it = now.id == latest.0.id && now.session() == session;
                latest.0 = now;
                if !is_it {
                    if let Ok(Some(at)) = at {
                        at.release().await?;
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

    /// Claims the session of a context; `None` if the session is gone.
    pub(super) async fn claim(
        &self,
        context: &Context,
        purpose: Access,
    ) -> Result<Option<ClaimedSession>, Fault> {
        match self.service().claim(&self.owner, &context.session(), purpose).await {
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

    /// Copies the sandbox's files to a context and makes it the latest.
    pub(super) async fn hand_over(&self, turn: &mut Turn, to: &Arc<Context>) -> Result<(), Fault> {
        if turn.latest.0.id == to.id {
            return Ok(());
        }
        let at = self.claim(to, Access::Run).await?.ok_or_else(gone)?;
        at.view().all_files().replace_with(&turn.files()?).await?;
        let before = turn.at.replace(at);
        if self.is_shared() && turn.before.is_none() {
            turn.before = before;
        }
        turn.latest.0 = Arc::clone(to);
        Ok(())
    }

    /// Runs a request in the context that has the turn.
    pub(super) fn run(&self, turn: &mut Turn, request: Request) -> Result<GuestFuture<Ran>, Fault> {
        let at = turn.at.take().ok_or_else(gone)?;
        Ok(self.service().run_keeping_claim(&self.user(), at, request))
    }

    /// Ends a turn after a run, and records the state of its context.
    pub(super) async fn ran(
        &self,
        turn: Turn,
        mut at: ClaimedSession,
        ran: &Result<Outcome, ServiceError>,
    ) -> Result<(), Fault> {
        if self.is_shared() {
            at.set_note(turn.latest.0.note().written());
        }
        if turn.before.is_none() {
            at.commit_run(ran).await?;
            // Watchers woken here wait for the end of this turn.
            self.changed.send_replace(());
            return Ok(());
        }
        self.commit(Turn {
            at: Some(at),
            ..turn
        })
        .await
    }

    /// Ends a turn after a change, which becomes visible to all servers.
    pub(super) async fn commit(&self, turn: Turn) -> Result<(), Fault> {
        let Turn { latest, at, before } = turn;
        if let Some(at) = at {
            at.commit().await?;
        }
        if let Some(before) = before {
            self.set_latest(&latest.0).await?;
            before.release().await?;
        }
        self.changed.send_replace(());
        drop(latest);
        Ok(())
    }
}

impl Turn {
    /// The sandbox's files.
    pub(super) fn files(&self) -> Result<SessionFiles, Fault> {
        Ok(self.at()?.view().all_files())
    }

    pub(super) fn at(&self) -> Result<&ClaimedSession, Fault> {
        self.at.as_ref().ok_or_else(gone)
    }

    /// The context that has the files.
    pub(super) fn context(&self) -> &Arc<Context> {
        &self.latest.0
    }

    /// Replaces the session of the latest context. The previous session is released unchanged.
    pub(super) async fn exchange(&mut self, at: ClaimedSession) -> Result<(), Fault> {
        match self.at.replace(at) {
            Some(before) => Ok(before.release().await?),
            None => Ok(()),
        }
    }

    /// Ends a turn without changes.
    pub(super) async fn release(self) -> Result<(), Fault> {
        for at in [self.at, self.before].into_iter().flatten() {
            at.release().await?;
        }
        Ok(())
    }
}

/// Limits per owner on waiting executions: their number, and the bytes of their code and
/// environment.
const MAX_EXECUTIONS: usize = 256;
const MAX_WAITING_BYTES: usize = 64 << 20;

/// Waiting executions by owner name. Clones share the same state.
#[derive(Clone, Default)]
pub(super) struct Waiting(Arc<Mutex<HashMap<String, Waiters>>>);

#[derive(Clone, Copy, Default)]
struct Waiters {
    executions: usize,
    bytes: usize,
}

/// A waiting execution; dropping this removes it.
pub(super) struct Waits {
    waiting: Waiting,
    owner: String,
    bytes: usize,
}

impl Waiting {
    /// Registers a waiting execution of `bytes` bytes.
    pub(super) fn enter(&self, owner: &Owner, bytes: usize) -> Result<Waits, Fault> {
        let mut all = lock(&self.0);
        let counted = all.get(owner.name()).copied().unwrap_or_default();
        let is_full = counted.executions >= MAX_EXECUTIONS
            || (counted.executions > 0 && counted.bytes + bytes > MAX_WAITING_BYTES);
        if is_full {
            let message = "too many executions of this key are waiting; retry later";
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

    /// Without a limit, any number of executions could wait, each with 8 MB of code.
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

//! The contexts of a sandbox: made, found, copied, begun anew and removed.

use std::sync::Arc;

use belljar::Request;

use super::context::{Context, Note};
use super::fault::{Fault, gone};
use super::paths::HOME;
use super::sandbox::Sandbox;
use super::traits::{Traits, lock, new_id, options, with_env};
use super::turn::Turn;
use super::wire::ContextInfo;
use crate::service::anywhere::Use;

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
            return Err(Fault::new(axum::http::StatusCode::TOO_MANY_REQUESTS, message));
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

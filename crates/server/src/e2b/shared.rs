//! A sandbox as the servers of a store share it: a document that says what it is like, for how long it lives
//! and which contexts it has.
//!
//! What is here is what this server read of it last. Each use reads it again.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use super::context::{Context, Note};
use super::fault::Fault;
use super::registry::gone;
use super::sandbox::{Lease, Sandbox, Traits, lock};
use super::wire::State;
use crate::service::Service;
use crate::service::anywhere::Document;
use crate::service::owner::Owner;

/// The kinds of documents that there are.
pub(super) const SANDBOXES: &str = "sandboxes";
pub(super) const SNAPSHOTS: &str = "snapshots";

/// What is written of a sandbox.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Form {
    traits: Traits,
    /// Milliseconds since 1970, as all times here.
    started: u64,
    state: State,
    end: u64,
    contexts: Vec<ContextForm>,
    /// The context that has the files.
    latest: String,
    /// Where it is a snapshot: of which sandbox, and how it is called.
    pub snapshot: Option<(String, Option<String>)>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct ContextForm {
    id: String,
    cwd: String,
    session: String,
}

impl Form {
    /// Has it run, and its time end then.
    pub(super) fn run_until(&mut self, end: u64) {
        self.state = State::Running;
        self.end = end;
    }

    pub(super) fn is_paused(&self) -> bool {
        self.state == State::Paused
    }

    pub(super) fn end(&self) -> u64 {
        self.end
    }

    pub(super) fn pause(&mut self) {
        self.state = State::Paused;
    }

    pub(super) fn add(&mut self, context: &Context) {
        if !self.contexts.iter().any(|known| known.id == context.id) {
            self.contexts.push(ContextForm::of(context));
        }
    }

    pub(super) fn remove(&mut self, id: &str) {
        self.contexts.retain(|known| known.id != id);
    }

    pub(super) fn set_session(&mut self, id: &str, session: &str) {
        for known in self.contexts.iter_mut().filter(|known| known.id == id) {
            session.clone_into(&mut known.session);
        }
    }
}

impl ContextForm {
    fn of(context: &Context) -> Self {
        Self {
            id: context.id.clone(),
            cwd: context.cwd.clone(),
            session: context.session(),
        }
    }

    fn context(&self) -> Arc<Context> {
        Context::new(self.id.clone(), &self.cwd, &self.session, Note::default())
    }
}

impl Sandbox {
    /// One that another server has written.
    pub(super) fn of_form(
        service: &Service,
        owner: &Owner,
        kind: &'static str,
        id: &str,
        form: &Form,
    ) -> Option<Self> {
        let contexts: Vec<_> = form.contexts.iter().map(ContextForm::context).collect();
        let latest = contexts.iter().find(|context| context.id == form.latest)?;
        let mut sandbox =
            Self::of(service, owner, form.traits.clone(), lease(form), contexts.clone(), latest);
        id.clone_into(&mut sandbox.id);
        sandbox.kind = kind;
        sandbox.started = UNIX_EPOCH + Duration::from_millis(form.started);
        Some(sandbox)
    }

    /// Whether it is in a store, where every server finds it.
    pub(super) fn is_shared(&self) -> bool {
        self.service().documents(self.kind).is_some()
    }

    /// Writes it down, for all servers.
    pub(super) async fn publish(
        &self,
        snapshot: Option<(String, Option<String>)>,
    ) -> Result<(), Fault> {
        let Some(documents) = self.service().documents(self.kind) else {
            return Ok(());
        };
        let contexts = self.all();
        let lease = self.lease();
        let form = Form {
            traits: self.traits.clone(),
            started: millis(self.started),
            state: lease.state,
            end: millis(lease.end_at),
            contexts: contexts.iter().map(|context| ContextForm::of(context)).collect(),
            latest: self.latest().await.0.id.clone(),
            snapshot,
        };
        let mut document = Document {
            owner: self.owner.name().to_owned(),
            sessions: Vec::new(),
            ends: None,
            content: form,
        };
        settle(&mut document);
        Ok(documents.add(&self.id, &document).await?)
    }

    /// Changes what is written of it, and takes over what it is then.
    pub(super) async fn change(&self, mut change: impl FnMut(&mut Form)) -> Result<Form, Fault> {
        let Some(documents) = self.service().documents(self.kind) else {
            return Err(gone());
        };
        let changed = documents.change(&self.id, |document: &mut Document<Form>| {
            change(&mut document.content);
            settle(document);
        });
        self.take_over(changed.await?.map(|document| document.content))
    }

    /// Looks what is written of it now.
    pub(super) async fn refresh(&self) -> Result<(), Fault> {
        let Some(documents) = self.service().documents(self.kind) else {
            return Ok(());
        };
        let found: Option<Document<Form>> = documents.read(&self.id).await?;
        self.take_over(found.map(|document| document.content)).map(drop)
    }

    /// The context that has the files, as it is written now.
    pub(super) async fn refreshed_latest(&self) -> Result<Arc<Context>, Fault> {
        let Some(documents) = self.service().documents(self.kind) else {
            return Err(gone());
        };
        let found: Option<Document<Form>> = documents.read(&self.id).await?;
        let form = self.take_over(found.map(|document| document.content))?;
        self.all().into_iter().find(|context| context.id == form.latest).ok_or_else(gone)
    }

    /// Writes down which context has the files.
    pub(super) async fn set_latest(&self, context: &Context) -> Result<(), Fault> {
        self.change(|form| form.latest.clone_from(&context.id)).await.map(drop)
    }

    /// Is from now on what is written, or ends where nothing is.
    pub(super) fn take_over(&self, form: Option<Form>) -> Result<Form, Fault> {
        let Some(form) = form else {
            self.end_here();
            return Err(gone());
        };
        self.set_lease(lease(&form));
        let mut contexts = lock(&self.contexts);
        let known = std::mem::take(&mut *contexts);
        *contexts = form
            .contexts
            .iter()
            .map(|written| {
                let Some(context) = known.iter().find(|context| context.id == written.id) else {
                    return written.context();
                };
                context.set_session(&written.session);
                Arc::clone(context)
            })
            .collect();
        drop(contexts);
        Ok(form)
    }
}

/// Brings what the store knows of it into line with what it is.
fn settle(document: &mut Document<Form>) {
    let form = &document.content;
    document.sessions = form.contexts.iter().map(|context| context.session.clone()).collect();
    let ends = form.snapshot.is_none() && form.traits.pauses.is_none() && !form.is_paused();
    // The end of time is none that has passed.
    document.ends = ends.then_some(form.end.max(1));
}

fn lease(form: &Form) -> Lease {
    Lease::until(form.state, UNIX_EPOCH + Duration::from_millis(form.end))
}

pub(super) fn millis(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64
}

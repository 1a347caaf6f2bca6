//! A sandbox as the servers of a store share it: a document that says what it is like.
//!
//! What is here is what this server read of it last. Each use reads it again.

use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use super::fault::{Fault, gone};
use super::record::{Context, ContextForm, Form, lease, lock, millis, settle};
use super::sandbox::Sandbox;
use crate::service::Service;
use crate::service::anywhere::Document;
use crate::service::owner::Owner;

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

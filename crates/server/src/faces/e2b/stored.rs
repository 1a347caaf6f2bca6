//! The sandbox's record in a store, which all servers share.
//!
//! A sandbox in memory caches its record. Each use refreshes it.

use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use super::fault::{Fault, gone};
use super::record::{Context, ContextRecord, SandboxRecord, lease, millis, update_index};
use super::sandbox::Sandbox;
use crate::lock::lock;
use crate::service::Service;
use crate::service::owner::Owner;
use crate::service::session_store::Document;

impl Sandbox {
    /// Builds a sandbox from its record.
    pub(super) fn from_record(
        service: &Service,
        owner: &Owner,
        kind: &'static str,
        id: &str,
        record: &SandboxRecord,
    ) -> Option<Self> {
        let contexts: Vec<_> = record.contexts.iter().map(ContextRecord::context).collect();
        let latest = contexts.iter().find(|context| context.id == record.latest)?;
        let mut sandbox = Self::of(
            service,
            owner,
            record.config.clone(),
            lease(record),
            contexts.clone(),
            latest,
        );
        id.clone_into(&mut sandbox.id);
        sandbox.kind = kind;
        sandbox.started = UNIX_EPOCH + Duration::from_millis(record.started);
        Some(sandbox)
    }

    /// Whether the sandbox is in a store.
    pub(super) fn is_shared(&self) -> bool {
        self.service().documents(self.kind).is_some()
    }

    /// Writes the record to the store.
    pub(super) async fn publish(
        &self,
        snapshot: Option<(String, Option<String>)>,
    ) -> Result<(), Fault> {
        let Some(documents) = self.service().documents(self.kind) else {
            return Ok(());
        };
        let contexts = self.all();
        let lease = self.lease();
        let record = SandboxRecord {
            config: self.config.clone(),
            started: millis(self.started),
            state: lease.state,
            end: millis(lease.end_at),
            contexts: contexts.iter().map(|context| ContextRecord::of(context)).collect(),
            latest: self.latest().await.0.id.clone(),
            snapshot,
        };
        let mut document = Document {
            owner: self.owner.name().to_owned(),
            sessions: Vec::new(),
            ends: None,
            content: record,
        };
        update_index(&mut document);
        Ok(documents.add(&self.id, &document).await?)
    }

    /// Changes the record in the store, and applies the result here.
    pub(super) async fn change(
        &self,
        mut change: impl FnMut(&mut SandboxRecord),
    ) -> Result<SandboxRecord, Fault> {
        let Some(documents) = self.service().documents(self.kind) else {
            return Err(gone());
        };
        let changed = documents.change(&self.id, |document: &mut Document<SandboxRecord>| {
            change(&mut document.content);
            update_index(document);
        });
        self.apply(changed.await?.map(|document| document.content))
    }

    /// Reads the record from the store, and applies it here.
    pub(super) async fn refresh(&self) -> Result<(), Fault> {
        let Some(documents) = self.service().documents(self.kind) else {
            return Ok(());
        };
        let found: Option<Document<SandboxRecord>> = documents.read(&self.id).await?;
        self.apply(found.map(|document| document.content)).map(drop)
    }

    /// The context that has the files, according to the store.
    pub(super) async fn refreshed_latest(&self) -> Result<Arc<Context>, Fault> {
        let Some(documents) = self.service().documents(self.kind) else {
            return Err(gone());
        };
        let found: Option<Document<SandboxRecord>> = documents.read(&self.id).await?;
        let record = self.apply(found.map(|document| document.content))?;
        self.all().into_iter().find(|context| context.id == record.latest).ok_or_else(gone)
    }

    /// Records which context has the files.
    pub(super) async fn set_latest(&self, context: &Context) -> Result<(), Fault> {
        self.change(|record| record.latest.clone_from(&context.id)).await.map(drop)
    }

    /// Applies a record. A missing record ends the sandbox here.
    pub(super) fn apply(&self, record: Option<SandboxRecord>) -> Result<SandboxRecord, Fault> {
        let Some(record) = record else {
            self.end_here();
            return Err(gone());
        };
        self.set_lease(lease(&record));
        let mut contexts = lock(&self.contexts);
        let known = std::mem::take(&mut *contexts);
        *contexts = record
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
        Ok(record)
    }
}

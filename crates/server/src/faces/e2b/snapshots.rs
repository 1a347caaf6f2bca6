//! Somebody's snapshots: made, listed, found by their names and forgotten.

use std::sync::Arc;
use std::time::Duration;

use super::fault::Fault;
use super::form::{Form, SNAPSHOTS};
use super::registry::Sandboxes;
use super::sandbox::Sandbox;
use super::snapshot::Snapshot;
use super::wire::SnapshotInfo;
use crate::service::anywhere::Document;
use crate::service::owner::Owner;

impl Sandboxes {
    /// Keeps a sandbox as it is.
    pub(super) async fn keep_snapshot(
        &self,
        sandbox: &Sandbox,
        name: Option<String>,
        memory: bool,
    ) -> Result<SnapshotInfo, Fault> {
        if let Some(name) = &name {
            check_name(name)?;
        }
        let mut kept = sandbox.fork(sandbox.traits.clone(), Duration::ZERO, memory).await?;
        kept.kind = SNAPSHOTS;
        if kept.is_shared() {
            let published = kept.publish(Some((sandbox.id.clone(), name.clone()))).await;
            self.or_freed(&kept, published).await?;
        } else {
            kept.pause(true, Duration::from_mins(1)).await?;
        }
        let id = kept.id.clone();
        let snapshot = Snapshot {
            kept: Arc::new(kept),
            of: sandbox.id.clone(),
            name,
        };
        let info = snapshot.info(&id);
        if let Some(name) = &snapshot.name {
            for (old, other) in self.snapshots_of(&sandbox.owner).await? {
                if old != id && other.is_called(&old, name) {
                    self.drop_snapshot(&sandbox.owner, &old).await?;
                }
            }
        }
        if !snapshot.kept.is_shared() {
            self.lock().snapshots.insert(id, snapshot);
        }
        Ok(info)
    }

    /// Somebody's snapshots: of one sandbox, or all; of one name, or all.
    pub(super) async fn snapshots(
        &self,
        owner: &Owner,
        of: Option<&str>,
        name: Option<&str>,
    ) -> Result<Vec<SnapshotInfo>, Fault> {
        let mut all = self.snapshots_of(owner).await?;
        all.retain(|(id, snapshot)| {
            of.is_none_or(|of| snapshot.of == of)
                && name.is_none_or(|name| snapshot.is_called(id, name))
        });
        Ok(all.iter().map(|(id, snapshot)| snapshot.info(id)).collect())
    }

    /// Forgets a snapshot; sandboxes that started from it go on.
    pub(super) async fn drop_snapshot(&self, owner: &Owner, called: &str) -> Result<(), Fault> {
        let found = self.snapshot_called(owner, called).await?;
        let (id, snapshot) =
            found.ok_or_else(|| Fault::not_found(format!("template '{called}' not found")))?;
        self.lock().snapshots.remove(&id);
        snapshot.kept.kill().await
    }

    pub(super) async fn snapshot_called(
        &self,
        owner: &Owner,
        called: &str,
    ) -> Result<Option<(String, Snapshot)>, Fault> {
        let all = self.snapshots_of(owner).await?;
        Ok(all.into_iter().find(|(id, snapshot)| snapshot.is_called(id, called)))
    }

    async fn snapshots_of(&self, owner: &Owner) -> Result<Vec<(String, Snapshot)>, Fault> {
        let Some(documents) = self.service.documents(SNAPSHOTS) else {
            let all = self.lock();
            let theirs =
                all.snapshots.iter().filter(|(_, one)| one.kept.owner.name() == owner.name());
            return Ok(theirs.map(|(id, snapshot)| (id.clone(), snapshot.clone())).collect());
        };
        let all: Vec<(String, Document<Form>)> = documents.of(owner).await?;
        let read = |(id, document): (String, Document<Form>)| {
            let kept = Sandbox::of_form(&self.service, owner, SNAPSHOTS, &id, &document.content)?;
            let (of, name) = document.content.snapshot?;
            let kept = Arc::new(kept);
            Some((id, Snapshot { kept, of, name }))
        };
        Ok(all.into_iter().filter_map(read).collect())
    }
}

fn check_name(name: &str) -> Result<(), Fault> {
    let is_taken = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '_');
    if name.is_empty() || name.len() > 128 || !name.chars().all(is_taken) {
        return Err(Fault::invalid(
            "a snapshot's name has 1 to 128 lower-case letters, digits, - and _",
        ));
    }
    Ok(())
}

//! Runs whose files can be read for a while after them.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use belljar::Run;

use crate::service::owner::Owner;

/// How long files of a run can be read.
const TIME: Duration = Duration::from_mins(10);
/// Of how many runs, of all owners and of one.
const MAX_RUNS: usize = 100;
const MAX_OF_ONE: usize = 20;

/// The runs, the latest last.
#[derive(Clone, Default)]
pub(super) struct Kept(Arc<Mutex<VecDeque<Entry>>>);

#[derive(Clone)]
struct Entry {
    id: String,
    owner: String,
    run: Arc<Run>,
}

impl Kept {
    /// Keeps a run for its owner, and returns the id under which it is found.
    pub(super) fn keep(&self, owner: &Owner, run: Arc<Run>) -> Result<String, getrandom::Error> {
        let mut bytes = [0; 8];
        getrandom::fill(&mut bytes)?;
        let id = crate::hex::hex(&bytes);
        let entry = Entry {
            id: id.clone(),
            owner: owner.name().to_owned(),
            run,
        };
        let gone = {
            let mut entries = self.lock();
            let mut gone = Vec::new();
            let theirs = entries.iter().filter(|one| one.owner == entry.owner).count();
            if theirs >= MAX_OF_ONE {
                let oldest = entries.iter().position(|one| one.owner == entry.owner);
                gone.extend(oldest.and_then(|oldest| entries.remove(oldest)));
            }
            if entries.len() >= MAX_RUNS {
                gone.extend(entries.pop_front());
            }
            entries.push_back(entry);
            gone
        };
        // Directories are removed with the last handle, and not under the lock.
        drop(gone);
        let (entries, forgotten) = (Arc::downgrade(&self.0), id.clone());
        tokio::spawn(async move {
            tokio::time::sleep(TIME).await;
            if let Some(entries) = entries.upgrade() {
                drop(Self(entries).take(&forgotten));
            }
        });
        Ok(id)
    }

    /// Somebody's run.
    pub(super) fn get(&self, owner: &Owner, id: &str) -> Option<Arc<Run>> {
        let entries = self.lock();
        let found = entries.iter().find(|one| one.id == id && one.owner == owner.name())?;
        Some(Arc::clone(&found.run))
    }

    /// All of somebody's, the oldest first.
    pub(super) fn list(&self, owner: &Owner) -> Vec<(String, Arc<Run>)> {
        let entries = self.lock();
        let theirs = entries.iter().filter(|one| one.owner == owner.name());
        theirs.map(|one| (one.id.clone(), Arc::clone(&one.run))).collect()
    }

    /// Forgets all of them.
    pub(super) fn clear(&self) {
        let gone = std::mem::take(&mut *self.lock());
        drop(gone);
    }

    fn take(&self, id: &str) -> Option<Entry> {
        let mut entries = self.lock();
        let at = entries.iter().position(|one| one.id == id)?;
        entries.remove(at)
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Entry>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

//! Files of runs that are over, kept for a while.

use std::collections::VecDeque;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use belljar::Run;

use super::error::ServiceError;
use super::owner::Owner;
use super::{Service, Shared};
use crate::hex::hex;

/// How long the files of a run are kept.
pub(crate) const KEPT_TIME: Duration = Duration::from_mins(10);
/// The most runs whose files are kept, of all owners together; the oldest goes for another.
pub(crate) const MAX_KEPT: usize = 1_000;
/// The most bytes of files that are kept, of all owners together; the oldest go for others.
pub(crate) const MAX_KEPT_BYTES: u64 = 4 << 30;

/// A run whose files are kept.
pub(crate) struct Kept {
    id: String,
    owner: String,
    run: Arc<Run>,
    bytes: u64,
    since: Instant,
}

impl Service {
    /// Keeps the files of a run for a while, under an id that nobody can guess; `None` when it has none, or
    /// more than may be kept.
    pub fn keep(&self, owner: &Owner, run: Run) -> Option<String> {
        let bytes = run.outcome.files.iter().map(|file| file.size).sum();
        // What is in their sessions is theirs to remove.
        let left = |max: u64| max.saturating_sub(self.shared.in_sessions(owner));
        let most = owner.limits().stored_bytes.map_or(MAX_KEPT_BYTES, left).min(MAX_KEPT_BYTES);
        if run.outcome.files.is_empty() || bytes > most {
            return None;
        }
        let id = new_id()?;
        let mut dropped = Vec::new();
        let mut kept = self.shared.kept();
        kept.push_back(Kept {
            id: id.clone(),
            owner: owner.name().to_owned(),
            run: Arc::new(run),
            bytes,
            since: Instant::now(),
        });
        let theirs = |kept: &VecDeque<Kept>| -> u64 {
            let theirs = kept.iter().filter(|one| one.owner == owner.name());
            theirs.map(|one| one.bytes).sum()
        };
        while theirs(&kept) > most {
            let Some(oldest) = kept.iter().position(|one| one.owner == owner.name()) else {
                break;
            };
            dropped.extend(kept.remove(oldest));
        }
        while kept.len() > MAX_KEPT
            || kept.iter().map(|one| one.bytes).sum::<u64>() > MAX_KEPT_BYTES
        {
            dropped.extend(kept.pop_front());
        }
        // Their directories are removed without the lock.
        drop(kept);
        drop(dropped);
        Some(id)
    }

    /// A run of somebody whose files are kept.
    ///
    /// # Errors
    ///
    /// [`ServiceError::NoRun`] when there is none, or it is somebody else's.
    pub fn kept(&self, owner: &Owner, id: &str) -> Result<Arc<Run>, ServiceError> {
        let kept = self.shared.kept();
        let is_it = |one: &&Kept| one.id == id && one.owner == owner.name();
        let found = kept.iter().find(is_it).filter(|one| one.since.elapsed() < KEPT_TIME);
        found.map(|one| Arc::clone(&one.run)).ok_or_else(|| ServiceError::NoRun { id: id.into() })
    }

    /// Forgets the files of a run of somebody.
    ///
    /// # Errors
    ///
    /// As for [`kept`](Self::kept).
    pub fn forget(&self, owner: &Owner, id: &str) -> Result<(), ServiceError> {
        let mut kept = self.shared.kept();
        let is_it = |one: &Kept| one.id == id && one.owner == owner.name();
        let found = kept.iter().position(is_it).and_then(|at| kept.remove(at));
        drop(kept);
        match found {
            Some(_) => Ok(()),
            None => Err(ServiceError::NoRun { id: id.into() }),
        }
    }

    /// Forgets the files of all runs of everybody.
    pub(super) fn forget_all(&self) {
        let kept = std::mem::take(&mut *self.shared.kept());
        drop(kept);
    }

    /// Drops what has been kept for long enough.
    pub(super) fn sweep_kept(&self) {
        let mut kept = self.shared.kept();
        let old = kept.iter().take_while(|one| one.since.elapsed() >= KEPT_TIME).count();
        let dropped: Vec<Kept> = kept.drain(..old).collect();
        drop(kept);
        drop(dropped);
    }
}

impl Shared {
    fn kept(&self) -> MutexGuard<'_, VecDeque<Kept>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// 128 bits that nobody can guess, as text; `None` when the system gives no random numbers.
pub(crate) fn new_id() -> Option<String> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).ok()?;
    Some(hex(&bytes))
}

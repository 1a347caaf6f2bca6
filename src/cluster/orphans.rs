//! Garbage collection of states that dead nodes left in a store.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use super::host::Host;
use super::record::{self, epoch_of};
use super::{Node, StoredSessions};
use crate::error::Error;
use crate::store::Entry;

impl StoredSessions {
    /// Removes states that no record names and that are older than `age`: states of sessions that
    /// were never added completely, and states written too late. Returns their number. One or
    /// several nodes should call this from time to time. It lists all session keys of the store.
    ///
    /// # Errors
    ///
    /// If the store fails.
    pub async fn remove_strays(&self, age: Duration) -> Result<usize, Error> {
        self.node.remove_strays(age).await
    }
}

impl<H: Host> Node<H> {
    pub(super) async fn remove_strays(&self, age: Duration) -> Result<usize, Error> {
        let all = self.store.list(record::FOLDER).await?;
        let mut sessions: BTreeMap<&str, Vec<&Entry>> = BTreeMap::new();
        for entry in &all {
            if let Some(id) = entry.key.split('/').nth(1) {
                sessions.entry(id).or_default().push(entry);
            }
        }
        let mut removed = 0;
        for (id, entries) in sessions {
            // A complete session consists of its record and its state.
            let is_whole =
                entries.len() == 2 && entries.iter().any(|e| record::id_of(&e.key).is_some());
            if !is_whole {
                removed += self.remove_strays_of(id, &entries, age).await?;
            }
        }
        Ok(removed)
    }

    async fn remove_strays_of(
        &self,
        id: &str,
        entries: &[&Entry],
        age: Duration,
    ) -> Result<usize, Error> {
        let now = SystemTime::now();
        let is_old =
            |entry: &&&Entry| now.duration_since(entry.modified).is_ok_and(|passed| passed > age);
        let old: Vec<&&Entry> =
            entries.iter().filter(is_old).filter(|e| record::id_of(&e.key).is_none()).collect();
        if old.is_empty() {
            return Ok(0);
        }
        let current = record::read(&*self.store, id).await?;
        let mut removed = 0;
        for entry in old {
            let counts = current.as_ref().is_some_and(|(head, _)| {
                head.state == entry.key || epoch_of(&entry.key).is_none_or(|e| e >= head.epoch)
            });
            if !counts {
                self.store.delete(&entry.key).await?;
                removed += 1;
            }
        }
        Ok(removed)
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_state_says_by_whom_it_was_written() {
        assert_eq!(super::epoch_of("sessions/a/12-ff"), Some(12));
        for key in ["sessions/a/head", "sessions/a/x-1", "sessions/a/12"] {
            assert_eq!(super::epoch_of(key), None, "{key}");
        }
    }
}

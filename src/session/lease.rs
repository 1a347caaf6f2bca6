//! Leases of sessions, which end unless they are extended.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::{Duration, Instant};

use serde::Deserialize;

use super::SessionError;
use crate::limits::{MAX_LABEL_BYTES, MAX_LABELS, after};

/// What happens to a session when its lease ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum LeaseEnd {
    /// The session is closed, and its run is interrupted.
    #[default]
    Close,
    /// The session is suspended once it is idle. A run wakes it, and it is suspended again
    /// afterwards.
    Suspend,
}

/// End of a session's lease, and what happens then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Lease {
    pub end: Instant,
    pub then: LeaseEnd,
}

impl Lease {
    pub(super) fn from_now(duration: Duration, then: LeaseEnd) -> Self {
        let end = after(Instant::now(), duration);
        Self { end, then }
    }
}

/// Sessions to close, ordered by time.
#[derive(Debug, Default)]
pub(super) struct Closings {
    by_time: BTreeSet<(Instant, String)>,
    times: HashMap<String, Instant>,
}

impl Closings {
    /// Sets when a session will be closed; `None` removes it.
    pub(super) fn set(&mut self, id: &str, end: Option<Instant>) {
        if let Some(before) = self.times.remove(id) {
            self.by_time.remove(&(before, id.to_owned()));
        }
        if let Some(end) = end {
            self.times.insert(id.to_owned(), end);
            self.by_time.insert((end, id.to_owned()));
        }
    }

    /// Returns the sessions that are due at `now`, earliest first.
    pub(super) fn due(&self, now: Instant) -> impl Iterator<Item = &str> {
        self.by_time.iter().take_while(move |(end, _)| *end <= now).map(|(_, id)| id.as_str())
    }
}

pub(super) fn check_labels(labels: &BTreeMap<String, String>) -> Result<(), SessionError> {
    let bytes: usize = labels.iter().map(|(name, value)| name.len() + value.len()).sum();
    if labels.len() > MAX_LABELS || bytes > MAX_LABEL_BYTES {
        return Err(SessionError::Labels {
            labels: labels.len(),
            bytes,
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_lease_is_too_long() {
        let now = Instant::now();
        for duration in [Duration::MAX, Duration::from_secs(u64::MAX / 2)] {
            assert!(Lease::from_now(duration, LeaseEnd::Close).end > now);
        }
    }

    #[test]
    fn each_session_is_due_once_at_the_time_set_last() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut closings = Closings::default();
        for (id, end) in [("a", Some(3)), ("b", Some(1)), ("c", Some(1)), ("a", Some(9))] {
            closings.set(id, end.map(at));
        }
        closings.set("c", None);
        closings.set("nobody", None);
        assert_eq!(closings.due(start).count(), 0);
        assert_eq!(closings.due(at(8)).collect::<Vec<_>>(), ["b"]);
        assert_eq!(closings.due(at(9)).collect::<Vec<_>>(), ["b", "a"]);
        // A shortened lease.
        closings.set("a", Some(at(0)));
        assert_eq!(closings.due(at(9)).collect::<Vec<_>>(), ["a", "b"]);
    }
}

//! Labels of a session, and the time until which somebody answers for it.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::SessionError;
use crate::limits::{MAX_LABEL_BYTES, MAX_LABELS};

/// What becomes of a session when its lease is over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum LeaseEnd {
    /// It is closed, and what it runs is interrupted.
    #[default]
    Close,
    /// It is put on the disk as soon as it runs nothing. A run wakes it, and it is put away again.
    Suspend,
}

/// How long somebody answers for a session, and what becomes of it then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Lease {
    pub end: Instant,
    pub then: LeaseEnd,
}

impl Lease {
    pub(super) fn from_now(duration: Duration, then: LeaseEnd) -> Self {
        // A time that no clock reaches is as good as a century.
        const FAR: Duration = Duration::from_hours(100 * 365 * 24);
        let end = Instant::now() + duration.min(FAR);
        Self { end, then }
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

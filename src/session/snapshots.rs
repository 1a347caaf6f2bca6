//! Named snapshots: states that new sessions start from.

use std::sync::Arc;

use async_recursion::async_recursion as boxed;

use super::clock::Clock;
use super::history::History;
use super::registry::{check_name, new_id};
use super::run::Core;
use super::timeline::{Past, Snapshot};
use super::{Session, SessionError, Sessions};
use crate::engine::run::random;
use crate::error::Error;
use crate::guest::interpreter::entropy;

impl Session {
    /// Stores the session's latest state under a name, for [`Sessions::from_snapshot`]. An existing
    /// snapshot of that name is replaced. Memory and files are shared with the session until it
    /// changes them.
    ///
    /// # Errors
    ///
    /// If the name is not 1 to 64 letters, digits, `-` and `_`, the limit on sessions and snapshots
    /// is reached, or the session was closed or cannot be read.
    #[boxed]
    pub async fn snapshot(&self, name: &str) -> Result<(), Error> {
        check_name(name)?;
        let context = &self.inner.context;
        let mut core = self.lock().await?;
        let state = Arc::clone(&core.past(context).await?.state);
        let snapshot = Snapshot {
            image: Arc::clone(&context.image),
            fixed: context.fixed.clone(),
            state,
        };
        self.sessions.keep_snapshot(name, snapshot)
    }
}

impl Sessions {
    /// Starts a session from a snapshot, with its variables, files and limits. The session has no
    /// history, and its own id, lifetime and fuel.
    ///
    /// # Errors
    ///
    /// [`SessionError::NoSnapshot`] if no snapshot has this name, [`SessionError::TooMany`] if
    /// there are too many sessions.
    #[boxed]
    pub async fn from_snapshot(&self, name: &str) -> Result<Session, Error> {
        let pending = self.shared.admit()?;
        let found = self.shared.lock().snapshots.get(name).cloned();
        let snapshot = found.ok_or_else(|| SessionError::NoSnapshot { name: name.into() })?;
        let fixed = snapshot.fixed.clone();
        let past = Past {
            origin: Arc::clone(&snapshot.state).into(),
            state: Arc::clone(&snapshot.state),
            history: History::new(fixed.history),
        };
        let entropy = entropy(fixed.deterministic.as_ref()).map_err(random)?;
        let image = Arc::clone(&snapshot.image);
        let context = self.context(new_id()?, image, fixed, None, Clock::fresh())?;
        self.register(context, Core::of(past, 0, entropy, 0), pending).await
    }

    /// Returns the names of all snapshots, sorted.
    #[must_use]
    pub fn snapshots(&self) -> Vec<String> {
        let mut names: Vec<String> = self.shared.lock().snapshots.keys().cloned().collect();
        names.sort();
        names
    }

    /// Removes a snapshot. Sessions that started from it continue.
    ///
    /// # Errors
    ///
    /// [`SessionError::NoSnapshot`] if no snapshot has this name.
    pub fn drop_snapshot(&self, name: &str) -> Result<(), Error> {
        self.shared.engine.check_process()?;
        let dropped = self.shared.lock().snapshots.remove(name);
        dropped.map(drop).ok_or_else(|| SessionError::NoSnapshot { name: name.into() }.into())
    }

    fn keep_snapshot(&self, name: &str, snapshot: Snapshot) -> Result<(), Error> {
        let max = self.shared.bounds.max;
        let mut all = self.shared.lock();
        if !all.snapshots.contains_key(name) && all.count() >= max {
            return Err(SessionError::TooMany { max }.into());
        }
        all.snapshots.insert(name.to_owned(), Arc::new(snapshot));
        Ok(())
    }
}

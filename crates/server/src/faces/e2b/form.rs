//! A sandbox as it is written in a store: what it is like, for how long it lives and which contexts it has.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use super::context::{Context, Note};
use super::traits::{Lease, Traits};
use super::wire::State;
use crate::service::anywhere::Document;

/// The kinds of documents that there are.
pub(super) const SANDBOXES: &str = "sandboxes";
pub(super) const SNAPSHOTS: &str = "snapshots";

/// What is written of a sandbox.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Form {
    pub traits: Traits,
    /// Milliseconds since 1970, as all times here.
    pub started: u64,
    pub state: State,
    pub end: u64,
    pub contexts: Vec<ContextForm>,
    /// The context that has the files.
    pub latest: String,
    /// Where it is a snapshot: of which sandbox, and how it is called.
    pub snapshot: Option<(String, Option<String>)>,
}

/// What is written of a context.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct ContextForm {
    pub id: String,
    pub cwd: String,
    pub session: String,
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
    pub(super) fn of(context: &Context) -> Self {
        Self {
            id: context.id.clone(),
            cwd: context.cwd.clone(),
            session: context.session(),
        }
    }

    pub(super) fn context(&self) -> Arc<Context> {
        Context::new(self.id.clone(), &self.cwd, &self.session, Note::default())
    }
}

/// Brings what the store knows of it into line with what it is.
pub(super) fn settle(document: &mut Document<Form>) {
    let form = &document.content;
    document.sessions = form.contexts.iter().map(|context| context.session.clone()).collect();
    let ends = form.snapshot.is_none() && form.traits.pauses.is_none() && !form.is_paused();
    // The end of time is none that has passed.
    document.ends = ends.then_some(form.end.max(1));
}

/// Until when it lives, as it is written.
pub(super) fn lease(form: &Form) -> Lease {
    Lease::until(form.state, UNIX_EPOCH + Duration::from_millis(form.end))
}

/// Milliseconds since 1970.
pub(super) fn millis(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64
}

//! A context: variables of their own in the sandbox's directory, which are one session.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use belljar::{Interrupt, Request};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::traits::{Traits, lock, with_env};
use super::wire::ContextInfo;

/// A context of a sandbox.
pub(super) struct Context {
    pub id: String,
    pub cwd: String,
    session: Mutex<String>,
    executions: AtomicU64,
    /// The environment that its interpreter was given, by its mark.
    dressed: Mutex<Option<String>>,
    /// The switch of the execution that is under way here.
    running: Mutex<Option<Interrupt>>,
}

/// The context that ran last, so that its session has the sandbox's files.
pub(super) struct Latest(pub Arc<Context>);

/// What is known of a context's interpreter, written with its state.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Note {
    executions: u64,
    dressed: Option<String>,
}

impl Context {
    pub(super) fn new(id: String, cwd: &str, session: &str, note: Note) -> Arc<Self> {
        Arc::new(Self {
            id,
            cwd: cwd.to_owned(),
            session: Mutex::new(session.to_owned()),
            executions: AtomicU64::new(note.executions),
            dressed: Mutex::new(note.dressed),
            running: Mutex::default(),
        })
    }

    pub(super) fn info(&self) -> ContextInfo {
        ContextInfo {
            id: self.id.clone(),
            language: "python",
            cwd: self.cwd.clone(),
        }
    }

    /// The id of its session.
    pub(super) fn session(&self) -> String {
        lock(&self.session).clone()
    }

    /// Gives it another session, and returns the one before.
    pub(super) fn set_session(&self, session: &str) -> String {
        std::mem::replace(&mut *lock(&self.session), session.to_owned())
    }

    pub(super) fn note(&self) -> Note {
        Note {
            executions: self.executions.load(Ordering::Relaxed),
            dressed: lock(&self.dressed).clone(),
        }
    }

    /// Takes over what was noted with the state that its session is in.
    pub(super) fn set_note(&self, note: Note) {
        self.executions.store(note.executions, Ordering::Relaxed);
        *lock(&self.dressed) = note.dressed;
    }

    /// The request as it has to be here, for an execution by whoever has the turn.
    pub(super) fn dressed(&self, request: Request, traits: &Traits) -> Request {
        if lock(&self.dressed).as_ref() == Some(&traits.env_mark()) {
            request
        } else {
            with_env(request, &traits.env)
        }
    }

    /// Counts an execution that has begun, and says which one it is.
    pub(super) fn count(&self) -> u64 {
        self.executions.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Notes that an execution has left what it set.
    pub(super) fn keep(&self, traits: &Traits) {
        *lock(&self.dressed) = Some(traits.env_mark());
    }

    /// Says by which switch the execution that is under way can be interrupted.
    pub(super) fn set_running(&self, running: Option<Interrupt>) {
        *lock(&self.running) = running;
    }

    /// Interrupts the execution that is under way here; whether there is one.
    pub(super) fn interrupt(&self) -> bool {
        let running = lock(&self.running);
        if let Some(running) = running.as_ref() {
            running.interrupt();
        }
        running.is_some()
    }
}

impl Note {
    pub(super) fn read(value: Option<&Value>) -> Self {
        value.and_then(|value| Self::deserialize(value).ok()).unwrap_or_default()
    }

    pub(super) fn written(&self) -> Value {
        serde_json::to_value(self).unwrap_or_default()
    }
}

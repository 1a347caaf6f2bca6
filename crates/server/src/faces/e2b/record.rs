//! A sandbox as data: its traits and lease, its contexts, and its document in a store.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use belljar::request::RunLimits;
use belljar::{Interrupt, Request, RequestLimits, SessionOptions};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::address::ID_LENGTH;
use super::paths::{HOME, ROOT};
use super::wire::{ContextInfo, State};
use crate::hex::hex;
use crate::service::Service;
use crate::service::anywhere::Document;

/// The most memory of a sandbox's contexts, each, above their image.
const MAX_MEMORY: u64 = 1 << 30;
/// The most bytes of files of a sandbox, and the most files.
const MAX_DISK: u64 = 1 << 30;
const MAX_FILES: u64 = 20_000;

/// What a sandbox is like from its beginning on.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Traits {
    /// The template that was named.
    pub template: String,
    pub image: String,
    pub metadata: BTreeMap<String, String>,
    pub env: BTreeMap<String, String>,
    /// Whether it is paused when its time is over, and so with its variables; else it is removed.
    pub pauses: Option<bool>,
}

impl Traits {
    /// By what its environment is told from others.
    pub(super) fn env_mark(&self) -> String {
        let mut hash = Sha256::new();
        for (name, value) in &self.env {
            for part in [name, value] {
                hash.update(part.len().to_le_bytes());
                hash.update(part);
            }
        }
        hex(&hash.finalize()[..16])
    }
}

/// Until when it lives.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lease {
    pub state: State,
    pub end: Instant,
    pub end_at: SystemTime,
}

impl Lease {
    /// One that ends so long from now.
    pub(super) fn of(duration: Duration) -> Self {
        let now = Instant::now();
        Self {
            state: State::Running,
            end: now.checked_add(duration).unwrap_or(now),
            end_at: SystemTime::now().checked_add(duration).unwrap_or_else(SystemTime::now),
        }
    }

    /// One that ends then, by this machine's clock.
    pub(super) fn until(state: State, end_at: SystemTime) -> Self {
        let now = Instant::now();
        let left = end_at.duration_since(SystemTime::now()).unwrap_or_default();
        Self {
            state,
            end: now.checked_add(left).unwrap_or(now),
            end_at,
        }
    }
}

/// What a session of a sandbox is like.
pub(super) fn options(service: &Service, traits: &Traits, cwd: &str) -> SessionOptions {
    let ceilings = service.runtime().ceilings();
    SessionOptions::new()
        .image(traits.image.clone())
        .alias(HOME)
        .alias(ROOT)
        .cwd(cwd)
        .label("face", "e2b")
        .run_limits(
            RequestLimits::default()
                .memory(MAX_MEMORY.min(ceilings.memory))
                .workspace(max_disk(&ceilings))
                .files(MAX_FILES.min(ceilings.files)),
        )
        // Nothing here goes back.
        .history(1, 0)
}

/// Memory and files that a sandbox may have, in MiB.
pub(super) fn sizes(ceilings: &RunLimits) -> (u64, u64) {
    (MAX_MEMORY.min(ceilings.memory) >> 20, max_disk(ceilings) >> 20)
}

/// The most bytes that the files of a sandbox may have.
pub(super) fn max_disk(ceilings: &RunLimits) -> u64 {
    MAX_DISK.min(ceilings.workspace)
}

/// A request in an environment of a sandbox's.
pub(super) fn with_env(request: Request, env: &BTreeMap<String, String>) -> Request {
    env.iter()
        .fold(request.env("E2B_SANDBOX", "true"), |request, (name, value)| request.env(name, value))
}

/// 20 letters and digits, of the system's random numbers.
pub(super) fn new_id() -> String {
    const LETTERS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
    let mut bytes = [0; ID_LENGTH];
    // Ids that somebody could guess would be worse than none.
    assert!(getrandom::fill(&mut bytes).is_ok(), "the system gives no random numbers");
    bytes.iter().map(|byte| char::from(LETTERS[usize::from(byte % 32)])).collect()
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

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

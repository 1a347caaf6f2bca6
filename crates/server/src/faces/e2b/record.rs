//! A sandbox as data: its configuration and lease, its contexts, and its record in a store.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use belljar::request::RunLimits;
use belljar::{Interrupt, Request, RequestLimits, SessionOptions};
use data_encoding::HEXLOWER;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::address::ID_LENGTH;
use super::paths::{HOME, ROOT};
use super::wire::{ContextInfo, State};

use crate::lock::lock;
use crate::service::Service;
use crate::service::session_store::Document;

/// Maximum memory of each context above its image, in bytes.
const MAX_MEMORY: u64 = 1 << 30;
/// Maximum bytes of files in a sandbox, and maximum number of files.
const MAX_DISK: u64 = 1 << 30;
const MAX_FILES: u64 = 20_000;

/// The configuration that a sandbox was created with.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct SandboxConfig {
    /// The template named in the request.
    pub template: String,
    pub image: String,
    pub metadata: BTreeMap<String, String>,
    pub env: BTreeMap<String, String>,
    /// Whether an expired sandbox is paused (and whether with its variables) instead of removed.
    pub pauses: Option<bool>,
}

impl SandboxConfig {
    /// A digest that identifies the environment.
    pub(super) fn env_digest(&self) -> String {
        let mut hash = Sha256::new();
        for (name, value) in &self.env {
            for part in [name, value] {
                hash.update(part.len().to_le_bytes());
                hash.update(part);
            }
        }
        HEXLOWER.encode(&hash.finalize()[..16])
    }
}

/// When the sandbox expires.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lease {
    pub state: State,
    pub end: Instant,
    pub end_at: SystemTime,
}

impl Lease {
    /// A lease that expires after `duration`.
    pub(super) fn of(duration: Duration) -> Self {
        let now = Instant::now();
        Self {
            state: State::Running,
            end: now.checked_add(duration).unwrap_or(now),
            end_at: SystemTime::now().checked_add(duration).unwrap_or_else(SystemTime::now),
        }
    }

    /// A lease that expires at `end_at` by this machine's clock.
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

/// The options of a sandbox's sessions.
pub(super) fn options(service: &Service, config: &SandboxConfig, cwd: &str) -> SessionOptions {
    let ceilings = service.runtime().ceilings();
    SessionOptions::new()
        .image(config.image.clone())
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
        // E2B has no way to rewind a session.
        .history(1, 0)
}

/// Memory and disk size of a sandbox, in MiB.
pub(super) fn sizes(ceilings: &RunLimits) -> (u64, u64) {
    (MAX_MEMORY.min(ceilings.memory) >> 20, max_disk(ceilings) >> 20)
}

/// Maximum bytes of files in a sandbox.
pub(super) fn max_disk(ceilings: &RunLimits) -> u64 {
    MAX_DISK.min(ceilings.workspace)
}

/// Adds a sandbox's environment to a request.
pub(super) fn with_env(request: Request, env: &BTreeMap<String, String>) -> Request {
    env.iter()
        .fold(request.env("E2B_SANDBOX", "true"), |request, (name, value)| request.env(name, value))
}

/// 20 random letters and digits.
pub(super) fn new_id() -> String {
    const LETTERS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
    let mut bytes = [0; ID_LENGTH];
    // Guessable ids would expose sandboxes.
    assert!(getrandom::fill(&mut bytes).is_ok(), "cannot get random numbers from the system");
    bytes.iter().map(|byte| char::from(LETTERS[usize::from(byte % 32)])).collect()
}

/// Creates a sandbox id, with the service's prefix if it has one.
pub(super) fn sandbox_id(service: &Service) -> String {
    let mut id = new_id();
    if let Some((tag, _)) = service.sandboxes() {
        id.replace_range(..tag.len(), tag);
    }
    id
}

/// A context of a sandbox.
pub(super) struct Context {
    pub id: String,
    pub cwd: String,
    session: Mutex<String>,
    executions: AtomicU64,
    /// Digest of the environment that the interpreter already has.
    env_digest: Mutex<Option<String>>,
    /// Interrupts the current execution on this server.
    running: Mutex<Option<Interrupt>>,
}

/// The context that ran last. Its session has the sandbox's files.
pub(super) struct Latest(pub Arc<Context>);

/// State of a context's interpreter, saved with the session.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Note {
    executions: u64,
    /// Records of earlier builds call it `dressed`.
    #[serde(alias = "dressed")]
    env_digest: Option<String>,
}

impl Context {
    pub(super) fn new(id: String, cwd: &str, session: &str, note: Note) -> Arc<Self> {
        Arc::new(Self {
            id,
            cwd: cwd.to_owned(),
            session: Mutex::new(session.to_owned()),
            executions: AtomicU64::new(note.executions),
            env_digest: Mutex::new(note.env_digest),
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

    /// Replaces the session, and returns the id of the previous one.
    pub(super) fn set_session(&self, session: &str) -> String {
        std::mem::replace(&mut *lock(&self.session), session.to_owned())
    }

    pub(super) fn note(&self) -> Note {
        Note {
            executions: self.executions.load(Ordering::Relaxed),
            env_digest: lock(&self.env_digest).clone(),
        }
    }

    /// Restores the state saved with the session.
    pub(super) fn set_note(&self, note: Note) {
        self.executions.store(note.executions, Ordering::Relaxed);
        *lock(&self.env_digest) = note.env_digest;
    }

    /// Adds the environment to a request unless the interpreter already has it. Needs the turn.
    pub(super) fn with_env(&self, request: Request, config: &SandboxConfig) -> Request {
        if lock(&self.env_digest).as_ref() == Some(&config.env_digest()) {
            request
        } else {
            with_env(request, &config.env)
        }
    }

    /// Counts an execution that starts, and returns its number.
    pub(super) fn count(&self) -> u64 {
        self.executions.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Records that the interpreter now has the environment.
    pub(super) fn set_env(&self, config: &SandboxConfig) {
        *lock(&self.env_digest) = Some(config.env_digest());
    }

    /// Sets or clears the interrupt of the current execution.
    pub(super) fn set_running(&self, running: Option<Interrupt>) {
        *lock(&self.running) = running;
    }

    /// Interrupts the current execution on this server; returns false if there is no execution.
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

/// Kinds of documents in the store.
pub(super) const SANDBOXES: &str = "sandboxes";
pub(super) const SNAPSHOTS: &str = "snapshots";

/// The stored record of a sandbox.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct SandboxRecord {
    /// Records of earlier builds call it `traits`.
    #[serde(alias = "traits")]
    pub config: SandboxConfig,
    /// Milliseconds since 1970, like all times in this record.
    pub started: u64,
    pub state: State,
    pub end: u64,
    pub contexts: Vec<ContextRecord>,
    /// The context that has the files.
    pub latest: String,
    /// For a snapshot: the sandbox it was taken from, and its name.
    pub snapshot: Option<(String, Option<String>)>,
}

/// The stored record of a context.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct ContextRecord {
    pub id: String,
    pub cwd: String,
    pub session: String,
}

impl SandboxRecord {
    /// Sets the sandbox running until `end`.
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
            self.contexts.push(ContextRecord::of(context));
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

impl ContextRecord {
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

/// Updates the fields that the store reads from the record.
pub(super) fn update_index(document: &mut Document<SandboxRecord>) {
    let record = &document.content;
    document.sessions = record.contexts.iter().map(|context| context.session.clone()).collect();
    let ends = record.snapshot.is_none() && record.config.pauses.is_none() && !record.is_paused();
    // Zero would mean that the sandbox has already expired.
    document.ends = ends.then_some(record.end.max(1));
}

/// The lease in a record.
pub(super) fn lease(record: &SandboxRecord) -> Lease {
    Lease::until(record.state, UNIX_EPOCH + Duration::from_millis(record.end))
}

/// Milliseconds since 1970.
pub(super) fn millis(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64
}

//! What a sandbox is like, until when it lives, and what its sessions may have.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use belljar::request::RunLimits;
use belljar::{Request, RequestLimits, SessionOptions};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::address::ID_LENGTH;
use super::paths::{HOME, ROOT};
use super::wire::State;
use crate::hex::hex;
use crate::service::Service;

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

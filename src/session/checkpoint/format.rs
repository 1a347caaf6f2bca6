//! The layout of a checkpoint.
//!
//! Numbers are little-endian. The file is: the magic; the version; the length of the manifest and
//! the length of its compressed form, u32 each; that form; the body; BLAKE3 of everything before
//! it. The body is what the manifest names, one after the other: pages of memory, then files, cut
//! into chunks of 1 MiB (the last may be shorter); every chunk is compressed for itself and
//! preceded by its compressed length, u32. Everything compressed is a zstd frame.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::api::policy::Bounds;
use crate::api::request::{Deterministic, Policy};
use crate::instance::Descriptor;
use crate::limits::{MAX_CHECKPOINT_FILES, MAX_HISTORY};
use crate::session::history::HistoryEntry;
use crate::session::options::{HistoryBounds, Places, SessionLimits};
use crate::session::pending::PendingEntry;

pub(super) const MAGIC: &[u8; 8] = b"belljar\x1c";
/// Raised with every change that an older program would misread.
pub(super) const VERSION: u32 = 1;
/// Bytes of a chunk before it is compressed.
pub(super) const CHUNK: usize = 1 << 20;
/// Bytes of the checksum.
pub(super) const SUM: usize = 32;
/// The most states, and entries of the history.
const MAX_STATES: usize = MAX_HISTORY + 2;
/// The most runs that a session may have had.
const MAX_RUNS: u64 = 1 << 53;

/// Everything about a session but the bytes of its pages and files.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Manifest {
    /// Which belljar wrote it, for people.
    pub written_by: String,
    pub image: ImageReference,
    /// Where the session sees directories of the host. Which ones, whoever restores it says.
    pub mounts: Vec<String>,
    /// Under which paths the session sees its workspace, where it is not only the usual one.
    #[serde(default, skip_serializing_if = "Places::are_usual")]
    pub places: Places,
    pub bounds: Bounds,
    pub policy: Policy,
    pub deterministic: Option<Deterministic>,
    pub limits: SessionLimits,
    pub history_bounds: HistoryBounds,
    /// Runs and fuel so far.
    pub execution: u64,
    pub fuel: u64,
    /// How many pages the body begins with.
    pub pages: u32,
    /// The sizes of the files that follow them.
    pub files: Vec<u64>,
    pub states: Vec<StateEntry>,
    /// Which of the states is the first, and which the latest.
    pub origin: usize,
    pub current: usize,
    pub history: Vec<(HistoryEntry, usize)>,
    /// The run that waits for answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting: Option<PendingEntry>,
}

impl Manifest {
    /// Whether its lists are as long as they may be, and its runs as many.
    pub(super) fn is_in_bounds(&self) -> bool {
        self.states.len() <= MAX_STATES
            && self.history.len() <= MAX_STATES
            && self.files.len() <= MAX_CHECKPOINT_FILES
            && self.execution < MAX_RUNS
    }
}

/// The image that the pages are changes to.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ImageReference {
    pub name: String,
    /// SHA-256 of its memory.
    pub memory: String,
}

/// One state.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StateEntry {
    /// Bytes of memory.
    pub memory: u64,
    pub stack_pointer: i32,
    pub lived: Duration,
    pub random_blocks: u64,
    pub placed: (u64, u64),
    /// Stretches of memory: the first page's number, how many, and the number of the first one in
    /// the body.
    pub stretches: Vec<(u32, u32, u32)>,
    /// Open files, each with the number of the file that holds what is in it when it has no name.
    pub descriptors: Vec<(Descriptor, Option<usize>)>,
    pub contents: Vec<(String, NodeEntry)>,
}

/// One path in the guest's directories.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum NodeEntry {
    Directory,
    Link(String),
    File {
        /// Which of the files.
        file: usize,
        /// Since 1970.
        modified: Duration,
    },
}

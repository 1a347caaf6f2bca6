//! The format of a checkpoint.
//!
//! All data except the manifest is in chunks, each named by the BLAKE3 of its bytes: pages of
//! memory, files, and documents that describe states. A chunk is stored as one zstd frame. The
//! manifest lists all chunks and the number of chunks that the file contains: all for a
//! self-contained checkpoint, or none if the chunks are in a store under their names.
//!
//! Integers are little-endian. The file consists of: the magic; the version; the length of the
//! manifest and of its compressed form, u32 each; the BLAKE3 of these and of the compressed
//! manifest; the compressed manifest; and the chunks, each preceded by its compressed length, u32.

use std::fmt;
use std::time::Duration;

use data_encoding::HEXLOWER;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::api::policy::RunLimits;
use crate::api::request::{Deterministic, Policy};
use crate::limits::MAX_HISTORY;
use crate::sandbox::Descriptor;
use crate::session::clock::Times;
use crate::session::history::HistoryEntry;
use crate::session::options::{HistoryLimits, Places, SessionLimits};

pub(super) const MAGIC: &[u8; 8] = b"belljar\x1c";
/// Increased by every change that an older program would misread.
pub(super) const VERSION: u32 = 3;
/// Oldest readable version. It has no holes and no file numbers.
pub(super) const FIRST_VERSION: u32 = 2;
/// Number of bytes before the checksum of the manifest.
pub(super) const HEAD: usize = 20;
/// Size of a checksum, in bytes.
pub(super) const SUM: usize = 32;
/// Directories of a guest whose contents are saved.
pub(super) const TOPS: [&str; 2] = ["tmp", "workspace"];
/// Size of a file's part in one chunk, in bytes.
pub(super) const FILE_CHUNK: u64 = 1 << 20;
/// Maximum size of a chunk that is not a document, in bytes.
pub(super) const MAX_CHUNK: u32 = 2 << 20;
/// Maximum number of states, and of history entries.
const MAX_STATES: usize = MAX_HISTORY + 2;
/// Maximum number of runs in a session's life.
const MAX_RUNS: u64 = 1 << 53;

/// Name of a chunk: BLAKE3 of its bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Name(pub [u8; SUM]);

impl Name {
    pub(crate) fn of(bytes: &[u8]) -> Self {
        Self(*blake3::hash(bytes).as_bytes())
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&HEXLOWER.encode(&self.0))
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl Serialize for Name {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Name {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        HEXLOWER
            .decode(text.as_bytes())
            .ok()
            .and_then(|bytes| bytes.try_into().ok())
            .map(Self)
            .ok_or_else(|| D::Error::custom("it is no name of a chunk"))
    }
}

/// A session without the data in chunks.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Manifest {
    /// Version of belljar that wrote the checkpoint, for information.
    pub written_by: String,
    pub session: Settings,
    /// All chunks of the session, each once, with their sizes.
    pub chunks: Vec<(Name, u32)>,
    /// Number of chunks in the file, in the same order. The others are stored elsewhere under their
    /// names.
    pub carried: usize,
    /// Chunks that contain the states, as [`StateDocument`]s.
    pub states: Vec<Name>,
    /// Numbers of the first and of the latest state.
    pub origin: usize,
    pub current: usize,
    pub history: Vec<(HistoryEntry, usize)>,
    /// Chunks that together contain the waiting run, as a `WaitingDocument`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waiting: Vec<Name>,
}

/// Settings of a session, independent of its state.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Settings {
    pub image: ImageReference,
    /// Paths of the session's mounts. The caller that restores the session chooses the host
    /// directories.
    pub mounts: Vec<String>,
    /// Paths of the session's workspace, if there are several.
    #[serde(default, skip_serializing_if = "Places::are_usual")]
    pub places: Places,
    pub bounds: RunLimits,
    pub policy: Policy,
    pub deterministic: Option<Deterministic>,
    pub limits: SessionLimits,
    pub history_bounds: HistoryLimits,
    /// Number of runs and fuel so far.
    pub execution: u64,
    pub fuel: u64,
    /// Time since the session's creation.
    #[serde(default, skip_serializing_if = "Duration::is_zero")]
    pub age: Duration,
    /// Time since the session's last use.
    #[serde(default, skip_serializing_if = "Duration::is_zero")]
    pub idle: Duration,
}

impl Settings {
    pub(super) fn times(&self) -> Times {
        Times {
            age: self.age,
            idle: self.idle,
        }
    }

    /// Whether the numbers of states, history entries and runs are within the limits.
    pub(super) fn is_in_bounds(&self, states: usize, history: usize) -> bool {
        states <= MAX_STATES && history <= MAX_STATES && self.execution < MAX_RUNS
    }
}

/// The image that the pages are relative to.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ImageReference {
    pub name: String,
    /// SHA-256 of the image's memory.
    pub memory: String,
}

/// A state. It refers to chunks by their index in `chunks`.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StateDocument {
    /// Size of the memory, in bytes.
    pub memory: u64,
    pub stack_pointer: i32,
    pub lived: Duration,
    pub random_blocks: u64,
    pub placed: (u64, u64),
    pub chunks: Vec<Name>,
    /// Ranges of memory: first page, number of pages, chunk, and first page within the chunk.
    pub stretches: Vec<(u32, u32, u32, u32)>,
    /// Number of pieces of each nameless open file.
    pub nameless: Vec<u32>,
    /// The guest's number of each of these files, as `st_ino`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nameless_numbers: Vec<u64>,
    pub pieces: Vec<PieceEntry>,
    /// Open files, each with the index of its content if it is nameless.
    pub descriptors: Vec<(Descriptor, Option<usize>)>,
    /// Chunk with the contents of the directories, as a [`ContentsDocument`].
    pub contents: Name,
}

/// The contents of a state's directories.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ContentsDocument {
    pub chunks: Vec<Name>,
    /// Number of pieces of each file.
    pub files: Vec<u32>,
    pub pieces: Vec<PieceEntry>,
    pub nodes: Vec<(String, NodeEntry)>,
    /// The guest's number of each node, as `st_ino`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub numbers: Vec<u64>,
    /// The number for the next new node.
    #[serde(default)]
    pub next_number: u64,
    /// Open directories from which names were removed: path, cookies of the names, next cookie.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub listings: Vec<(String, Vec<u64>, u64)>,
}

/// A piece of a file: chunk, offset in the chunk, and length. After [`HOLE`], the upper and lower
/// half of the number of zeros.
pub(super) type PieceEntry = (u32, u32, u32);

/// Replaces the chunk number in a piece that is a hole.
pub(super) const HOLE: u32 = u32::MAX;

pub(super) fn hole(length: u64) -> PieceEntry {
    (HOLE, (length >> 32) as u32, length as u32)
}

/// Returns the size of a hole, in bytes.
pub(super) fn hole_length(upper: u32, lower: u32) -> u64 {
    u64::from(upper) << 32 | u64::from(lower)
}

/// A path in the guest's directories.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum NodeEntry {
    Directory,
    Link(String),
    File {
        /// Index of the file.
        file: usize,
        /// Modification time since 1970.
        modified: Duration,
    },
}

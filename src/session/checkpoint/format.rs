//! The layout of a checkpoint.
//!
//! Everything but the manifest is in chunks, each named by the BLAKE3 of its bytes: pages of memory,
//! files, and the documents that say what a state consists of. A chunk is kept as one zstd frame. The
//! manifest lists all chunks, and how many of them the file carries: all of them where it is a
//! checkpoint by itself, none where they are in a store, by their names.
//!
//! Numbers are little-endian. The file is: the magic; the version; the length of the manifest and
//! the length of its compressed form, u32 each; BLAKE3 of all that and of that form; that form; the
//! chunks that it carries, each preceded by its compressed length, u32.

use std::fmt;
use std::time::Duration;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::api::policy::Bounds;
use crate::api::request::{Deterministic, Policy};
use crate::hex;
use crate::instance::Descriptor;
use crate::limits::MAX_HISTORY;
use crate::session::history::HistoryEntry;
use crate::session::options::{HistoryBounds, Places, SessionLimits};
use crate::session::times::Times;

pub(super) const MAGIC: &[u8; 8] = b"belljar\x1c";
/// Raised with every change that an older program would misread.
pub(super) const VERSION: u32 = 3;
/// The oldest that is read: without holes, and without the numbers of files.
pub(super) const FIRST_VERSION: u32 = 2;
/// Bytes before the sum of the manifest.
pub(super) const HEAD: usize = 20;
/// Bytes of a sum.
pub(super) const SUM: usize = 32;
/// The directories of a guest whose content is written.
pub(super) const TOPS: [&str; 2] = ["tmp", "workspace"];
/// Bytes of files in a chunk.
pub(super) const FILE_CHUNK: u64 = 1 << 20;
/// The most bytes of a chunk that is no document.
pub(super) const MAX_CHUNK: u32 = 2 << 20;
/// The most states, and entries of the history.
const MAX_STATES: usize = MAX_HISTORY + 2;
/// The most runs that a session may have had.
const MAX_RUNS: u64 = 1 << 53;

/// What a chunk is called: BLAKE3 of its bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Name(pub [u8; SUM]);

impl Name {
    pub(super) fn of(bytes: &[u8]) -> Self {
        Self(*blake3::hash(bytes).as_bytes())
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(&self.0))
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
        hex::decode(&text).map(Self).ok_or_else(|| D::Error::custom("it is no name of a chunk"))
    }
}

/// A session, but for what is in chunks.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Manifest {
    /// Which belljar wrote it, for people.
    pub written_by: String,
    pub session: Settings,
    /// All chunks that it consists of, each once, with their bytes.
    pub chunks: Vec<(Name, u32)>,
    /// How many of them follow it, in that order. The others are elsewhere, by their names.
    pub carried: usize,
    /// The chunks that hold the states, as [`StateDocument`]s.
    pub states: Vec<Name>,
    /// Which of the states is the first, and which the latest.
    pub origin: usize,
    pub current: usize,
    pub history: Vec<(HistoryEntry, usize)>,
    /// The chunks that together hold the run that waits for answers, as a `WaitingDocument`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waiting: Vec<Name>,
}

/// What a session is, whatever states it has been in.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Settings {
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
    /// Time since the session was made.
    #[serde(default, skip_serializing_if = "Duration::is_zero")]
    pub age: Duration,
    /// Time since it was last used.
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

    /// Whether the lists of a checkpoint are as long as they may be, and its runs as many.
    pub(super) fn is_in_bounds(&self, states: usize, history: usize) -> bool {
        states <= MAX_STATES && history <= MAX_STATES && self.execution < MAX_RUNS
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

/// One state. What it says of chunks are their numbers in `chunks`.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StateDocument {
    /// Bytes of memory.
    pub memory: u64,
    pub stack_pointer: i32,
    pub lived: Duration,
    pub random_blocks: u64,
    pub placed: (u64, u64),
    pub chunks: Vec<Name>,
    /// Stretches of memory: the first page's number, how many, and in which chunk they are from
    /// which of its pages on.
    pub stretches: Vec<(u32, u32, u32, u32)>,
    /// Of how many pieces each open file consists that has no name.
    pub nameless: Vec<u32>,
    /// The numbers that the guest has of these files, as `st_ino`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nameless_numbers: Vec<u64>,
    pub pieces: Vec<PieceEntry>,
    /// Open files, each with the number of its content when it has no name.
    pub descriptors: Vec<(Descriptor, Option<usize>)>,
    /// The chunk that holds what is in its directories, as a [`ContentsDocument`].
    pub contents: Name,
}

/// What is in the directories of a state.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ContentsDocument {
    pub chunks: Vec<Name>,
    /// Of how many pieces each file consists.
    pub files: Vec<u32>,
    pub pieces: Vec<PieceEntry>,
    pub nodes: Vec<(String, NodeEntry)>,
    /// The numbers that the guest has of the nodes, as `st_ino`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub numbers: Vec<u64>,
    /// The number that the next new one gets.
    #[serde(default)]
    pub next_number: u64,
}

/// A piece of a file: the number of the chunk, the first byte there and how many. Behind [`HOLE`] are the upper
/// and the lower half of a number of zeros.
pub(super) type PieceEntry = (u32, u32, u32);

/// In the place of a chunk's number in a piece that is a hole.
pub(super) const HOLE: u32 = u32::MAX;

pub(super) fn hole(length: u64) -> PieceEntry {
    (HOLE, (length >> 32) as u32, length as u32)
}

/// Bytes of a hole.
pub(super) fn hole_length(upper: u32, lower: u32) -> u64 {
    u64::from(upper) << 32 | u64::from(lower)
}

/// One path in the guest's directories.
#[derive(Clone, Debug, Serialize, Deserialize)]
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

//! The state: a tree of nodes, the descriptors open on it, and the usage of both.

use std::fmt;
use std::sync::Arc;

use crate::descriptors::Descriptors;
use crate::dir::Dir;
use crate::map::Map;
use crate::node::{Body, Inode};
use crate::pool::Pool;
use crate::readonly::ReadOnly;

/// Maximum length of a name in bytes.
pub const MAX_NAME: usize = 255;
/// Maximum length of a path in bytes.
pub const MAX_PATH: usize = 4095;

/// The number of the root.
pub(crate) const ROOT: u64 = 1;

/// Limits on a tree and its descriptors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of files, holes included, and of link targets.
    pub bytes: u64,
    /// Names, and open files without a name.
    pub files: u64,
    /// Open descriptors, except those given by the host.
    pub open: usize,
    /// Depth of a path in names, below the topmost directory that the guest may change.
    pub depth: usize,
    /// Length of such a path in bytes.
    pub path: usize,
}

impl Limits {
    /// No limits.
    pub const NONE: Self = Self {
        bytes: u64::MAX,
        files: u64::MAX,
        open: usize::MAX,
        depth: usize::MAX,
        path: usize::MAX,
    };
}

/// Resources in use, updated by each call that changes them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Bytes of files, holes included, and of link targets. Hard links count once.
    pub bytes: u64,
    /// Names, and open files without a name.
    pub files: u64,
    /// Open descriptors, except those given by the host.
    pub open: usize,
}

/// A tree of files with the descriptors open on it.
///
/// A clone is a snapshot. It costs a few counters and shares all data; changes to one do not affect
/// the other.
#[derive(Clone)]
pub struct Files {
    pub(crate) pool: Pool,
    pub(crate) nodes: Map<Inode>,
    /// Number of the next node.
    pub(crate) next: u64,
    /// Number of open descriptors by node.
    pub(crate) opens: Map<u32>,
    pub(crate) descriptors: Descriptors,
    pub(crate) attached: Arc<Vec<Attached>>,
    pub(crate) limits: Limits,
    pub(crate) bytes: u64,
    pub(crate) files: u64,
    pub(crate) version: u64,
    /// Time of the last change, if timestamps must be distinct.
    pub(crate) distinct: Option<u64>,
}

/// A read-only tree, and the parent of its mount point.
#[derive(Clone)]
pub(crate) struct Attached {
    pub tree: Arc<dyn ReadOnly>,
    pub around: u64,
    /// The path of its root in the guest.
    pub path: Arc<str>,
}

impl fmt::Debug for Files {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Files").field("usage", &self.usage()).finish_non_exhaustive()
    }
}

impl Files {
    /// An empty tree. Only the host can create names in the root.
    #[must_use]
    pub fn new(pool: &Pool, limits: Limits) -> Self {
        let mut nodes = Map::default();
        nodes.insert(ROOT, Inode::new(Body::Dir(Dir::new(ROOT, "", true)), 0));
        Self {
            pool: pool.clone(),
            nodes,
            next: ROOT + 1,
            opens: Map::default(),
            descriptors: Descriptors::default(),
            attached: Arc::default(),
            limits,
            bytes: 0,
            files: 0,
            version: 0,
            distinct: None,
        }
    }

    /// The pool that holds the bytes.
    #[must_use]
    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// The limits.
    #[must_use]
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// Sets the limits. Usage above a new limit stays, but cannot grow.
    pub fn set_limits(&mut self, limits: Limits) {
        self.limits = limits;
    }

    /// The resources in use. Takes constant time.
    #[must_use]
    pub fn usage(&self) -> Usage {
        Usage {
            bytes: self.bytes,
            files: self.files,
            open: self.descriptors.counted,
        }
    }

    /// A counter that increases with every change of a name, content or timestamp, but not on open,
    /// read, seek or close.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Makes all timestamps distinct: each change is at least a microsecond after the one before.
    /// Needed with a clock that stands still.
    pub fn set_distinct_times(&mut self, distinct: bool) {
        self.distinct = distinct.then_some(self.distinct.unwrap_or_default());
    }

    /// Estimated bytes of names, nodes and contents that `other` does not share, with the whole
    /// length of each file that is new or changed: what a copy of this state takes beside a copy of
    /// `other`, if copies share no blocks.
    #[must_use]
    pub fn beyond_whole(&self, other: &Self) -> u64 {
        const NODE: u64 = 192;
        const NAME: u64 = 160;
        let mut sum = 0_u64;
        self.nodes.beyond(&other.nodes, &mut |_, node, theirs| {
            sum += if theirs.is_some() { 0 } else { NODE };
            let more = match (&node.body, theirs.map(|theirs| &theirs.body)) {
                (Body::File(own), Some(Body::File(theirs))) if own.is_same(theirs) => 0,
                (Body::File(own), _) => own.len(),
                (Body::Link(own), Some(Body::Link(theirs))) if Arc::ptr_eq(own, theirs) => 0,
                (Body::Link(own), _) => own.len() as u64,
                (Body::Dir(own), theirs) => {
                    let none = Dir::new(ROOT, "", true);
                    let theirs = if let Some(Body::Dir(dir)) = theirs {
                        dir
                    } else {
                        &none
                    };
                    let mut names = 0;
                    own.beyond(theirs, &mut |entry| names += NAME + entry.name.len() as u64);
                    names
                }
                _ => 0,
            };
            sum = sum.saturating_add(more);
        });
        sum
    }
}

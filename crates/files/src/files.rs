//! The state: a tree of nodes, the descriptors open on it, and what both amount to.

use std::fmt;
use std::sync::Arc;

use crate::content::Content;
use crate::descriptors::Descriptors;
use crate::dir::Dir;
use crate::map::Map;
use crate::node::{Body, Inode};
use crate::pool::Pool;
use crate::readonly::ReadOnly;

/// Bytes that a name may have.
pub const MAX_NAME: usize = 255;
/// Bytes that a path may have.
pub const MAX_PATH: usize = 4095;

/// The number of the root.
pub(crate) const ROOT: u64 = 1;

/// Limits on a tree and its descriptors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of files, holes included, and of where links point to.
    pub bytes: u64,
    /// Names, and open files that have none any more.
    pub files: u64,
    /// Descriptors beyond those that the guest was given.
    pub open: usize,
    /// Names on a path below the topmost directory that the guest may change.
    pub depth: usize,
    /// Bytes of such a path.
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

/// The resources in use, counted by each call that changes them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Bytes of files, holes included, and of where links point to; of a file with several names once.
    pub bytes: u64,
    /// Names, and open files that have none any more.
    pub files: u64,
    /// Descriptors beyond those that the guest was given.
    pub open: usize,
}

/// A tree of files and the descriptors that are open on it.
///
/// A clone is a snapshot: it costs a few counters, shares everything, and neither sees what happens to the
/// other.
#[derive(Clone)]
pub struct Files {
    pub(crate) pool: Pool,
    pub(crate) nodes: Map<Inode>,
    /// The number that the next node gets.
    pub(crate) next: u64,
    /// How many descriptors are open on each node.
    pub(crate) opens: Map<u32>,
    pub(crate) descriptors: Descriptors,
    pub(crate) attached: Arc<Vec<Attached>>,
    pub(crate) limits: Limits,
    pub(crate) bytes: u64,
    pub(crate) files: u64,
    pub(crate) version: u64,
    /// The time of the last change, where no two may have the same.
    pub(crate) distinct: Option<u64>,
}

/// A read-only tree, and the directory around the place where it was mounted.
#[derive(Clone)]
pub(crate) struct Attached {
    pub tree: Arc<dyn ReadOnly>,
    pub around: u64,
    /// The path under which a guest has its root.
    pub path: Arc<str>,
}

impl fmt::Debug for Files {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Files").field("usage", &self.usage()).finish_non_exhaustive()
    }
}

impl Files {
    /// An empty tree, in whose root only the host makes names.
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

    /// Where its bytes are.
    #[must_use]
    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// The limits.
    #[must_use]
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// Sets what may be kept. Where more is kept already, nothing grows.
    pub fn set_limits(&mut self, limits: Limits) {
        self.limits = limits;
    }

    /// The resources in use, in constant time.
    #[must_use]
    pub fn usage(&self) -> Usage {
        Usage {
            bytes: self.bytes,
            files: self.files,
            open: self.descriptors.counted,
        }
    }

    /// A number that grows with every change of a name, a file or its times, but not with what is opened,
    /// read, sought or closed.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Has no two changes happen at the same time: each is a microsecond after the one before at least, as
    /// on a clock that stands still it must be.
    pub fn set_distinct_times(&mut self, distinct: bool) {
        self.distinct = distinct.then_some(self.distinct.unwrap_or_default());
    }

    /// About how many bytes it takes that `other` does not share: of contents, names and nodes.
    #[must_use]
    pub fn beyond(&self, other: &Self) -> u64 {
        const NODE: u64 = 192;
        const NAME: u64 = 160;
        let mut sum = 0;
        self.nodes.beyond(&other.nodes, &mut |_, node, theirs| {
            sum += if theirs.is_some() { 0 } else { NODE };
            sum += match (&node.body, theirs.map(|theirs| &theirs.body)) {
                (Body::File(own), Some(Body::File(theirs))) => own.beyond(theirs),
                (Body::File(own), _) => own.beyond(&Content::default()),
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
        });
        sum
    }
}

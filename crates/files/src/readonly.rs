//! Immutable trees, served next to the main tree.

use crate::errno::Errno;
use crate::types::Kind;

/// A node of a read-only tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadOnlyEntry {
    /// [`Kind::Directory`] or [`Kind::File`].
    pub kind: Kind,
    /// Length of a file in bytes.
    pub size: u64,
    /// Time of the last change, in nanoseconds since 1970.
    pub mtime: u64,
}

/// A tree that never changes, such as a packed library. Nodes have numbers; the root is 0.
pub trait ReadOnly: Send + Sync {
    /// The attributes of a node.
    fn stat(&self, node: u64) -> Option<ReadOnlyEntry>;

    /// Finds a node by name in a directory.
    fn lookup(&self, dir: u64, name: &str) -> Option<u64>;

    /// The parent directory of a node. The root is its own parent.
    fn parent(&self, node: u64) -> u64;

    /// The name of a node in its directory; empty for the root.
    fn name(&self, node: u64) -> Option<&str>;

    /// The name and node at an index of a directory's listing, whose order is fixed.
    fn entry(&self, dir: u64, index: u64) -> Option<(&str, u64)>;

    /// Reads a file's bytes from `at`. Returns the number of bytes read, 0 at the end.
    ///
    /// # Errors
    ///
    /// [`Errno::Io`] when they cannot be read.
    fn read_at(&self, node: u64, at: u64, into: &mut [u8]) -> Result<usize, Errno>;
}

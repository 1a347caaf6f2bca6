//! Trees that never change, served beside the one that does.

use crate::errno::Errno;
use crate::types::Kind;

/// A node of a read-only tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadOnlyEntry {
    /// [`Kind::Directory`] or [`Kind::File`].
    pub kind: Kind,
    /// Bytes of a file.
    pub size: u64,
    /// When it was last changed, in nanoseconds since 1970.
    pub mtime: u64,
}

/// A tree that never changes, such as a packed library. Its nodes have numbers, 0 is its root.
pub trait ReadOnly: Send + Sync {
    /// The attributes of a node.
    fn stat(&self, node: u64) -> Option<ReadOnlyEntry>;

    /// The node of that name in a directory.
    fn lookup(&self, dir: u64, name: &str) -> Option<u64>;

    /// The directory that a node is in; the root is in itself.
    fn parent(&self, node: u64) -> u64;

    /// The name of a node in its directory; that of the root is empty.
    fn name(&self, node: u64) -> Option<&str>;

    /// The name and the node at an index of a directory's list, which is always the same.
    fn entry(&self, dir: u64, index: u64) -> Option<(&str, u64)>;

    /// Reads a file's bytes from `at` on, and tells how many; 0 at its end.
    ///
    /// # Errors
    ///
    /// [`Errno::Io`] when they cannot be read.
    fn read_at(&self, node: u64, at: u64, into: &mut [u8]) -> Result<usize, Errno>;
}

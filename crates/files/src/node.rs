//! Nodes: the files, directories, links and devices of a tree.

use std::sync::Arc;

use crate::content::Content;
use crate::dir::Dir;
use crate::types::Kind;

/// A node of the tree, or of a tree attached to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Node {
    /// 0 for the tree itself.
    pub(crate) tree: u32,
    pub(crate) number: u64,
}

impl Node {
    pub(crate) const fn own(number: u64) -> Self {
        Self { tree: 0, number }
    }

    /// Its number within its tree.
    #[must_use]
    pub fn number(self) -> u64 {
        self.number
    }

    /// Whether it is in the tree itself, not in an attached one.
    #[must_use]
    pub fn is_own(self) -> bool {
        self.tree == 0
    }
}

/// A device, by what reads return. All devices discard writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Device {
    /// Nothing.
    Null,
    /// Zeros.
    Zero,
    /// Random bytes.
    Random,
}

/// A node of the tree.
#[derive(Clone, Debug)]
pub(crate) struct Inode {
    pub body: Body,
    /// Number of names.
    pub names: u32,
    pub atime: u64,
    pub mtime: u64,
    pub ctime: u64,
}

#[derive(Clone, Debug)]
pub(crate) enum Body {
    Dir(Dir),
    File(Content),
    Link(Arc<str>),
    Device(Device),
    /// A directory that the caller serves, by the caller's number.
    Portal(u64),
}

impl Inode {
    pub(crate) fn new(body: Body, now: u64) -> Self {
        Self {
            body,
            names: 1,
            atime: now,
            mtime: now,
            ctime: now,
        }
    }

    pub(crate) fn kind(&self) -> Kind {
        match &self.body {
            Body::Dir(_) | Body::Portal(_) => Kind::Directory,
            Body::File(_) => Kind::File,
            Body::Link(_) => Kind::Symlink,
            Body::Device(_) => Kind::CharacterDevice,
        }
    }

    /// Bytes that it counts for.
    pub(crate) fn size(&self) -> u64 {
        match &self.body {
            Body::File(content) => content.len(),
            Body::Link(target) => target.len() as u64,
            Body::Dir(_) | Body::Device(_) | Body::Portal(_) => 0,
        }
    }

    pub(crate) fn touch(&mut self, now: u64) {
        (self.mtime, self.ctime) = (now, now);
    }
}

//! The namespace that the host sets up for a guest: directories, devices, trees and descriptors.

use std::sync::Arc;

use crate::descriptors::{Open, Target};
use crate::dir::Dir;
use crate::errno::Errno;
use crate::files::{Attached, Files, ROOT};
use crate::node::{Body, Device, Node};
use crate::readonly::ReadOnly;
use crate::types::{FdFlags, Kind};

/// Upper bound of descriptor numbers in a document: more than any guest gets.
const MAX_FD: u32 = 1 << 16;

/// The target of a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenOn {
    /// A node of the tree or of an attached one.
    Node(Node),
    /// An object of the caller, by the caller's number.
    Foreign(u64),
}

/// A descriptor in the form used for serialization.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenFile {
    /// Its target.
    pub on: OpenOn,
    /// Whether it is open for reading.
    pub read: bool,
    /// Whether it is open for writing.
    pub write: bool,
    /// Its flags.
    pub flags: FdFlags,
    /// Offset in bytes; in a directory, the end of the current listing.
    pub offset: u64,
    /// Whether the host gave it to the guest.
    pub given: bool,
}

impl Files {
    /// The root directory.
    #[must_use]
    pub fn root(&self) -> Node {
        Node::own(ROOT)
    }

    /// Creates a directory of the host and its parents, unless they exist. Only the host can create
    /// names in the parents; the guest can in the directory itself if it is `writable`. None of
    /// them counts.
    ///
    /// # Errors
    ///
    /// [`Errno::Notdir`] if something else has the name.
    pub fn make_dirs(&mut self, path: &str, writable: bool) -> Result<Node, Errno> {
        let mut dir = self.root();
        for name in names(path) {
            dir = match self.child(dir, name)? {
                Some((found, _)) if self.kind(found)? == Kind::Directory => found,
                Some(_) => return Err(Errno::Notdir),
                None => {
                    let body = Body::Dir(Dir::new(dir.number, name, true));
                    self.add(self.changeable_by_host(dir)?, name, body, 0)?
                }
            };
        }
        if writable && dir.is_own() {
            self.set_sealed(dir.number, false)?;
        }
        Ok(dir)
    }

    /// Creates a device.
    ///
    /// # Errors
    ///
    /// [`Errno::Exist`] if the name exists.
    pub fn make_device(&mut self, path: &str, device: Device) -> Result<Node, Errno> {
        self.make(path, Body::Device(device))
    }

    /// Creates a directory that the caller serves itself. Calls on paths into it are answered by
    /// the caller, which identifies the directory by `number` ([`portal`](Self::portal)).
    ///
    /// # Errors
    ///
    /// [`Errno::Exist`] if the name exists.
    pub fn make_portal(&mut self, path: &str, number: u64) -> Result<Node, Errno> {
        self.make(path, Body::Portal(number))
    }

    fn make(&mut self, path: &str, body: Body) -> Result<Node, Errno> {
        let (around, name) = split(path)?;
        let dir = self.make_dirs(around, false)?;
        if self.child(dir, name)?.is_some() {
            return Err(Errno::Exist);
        }
        self.add(self.changeable_by_host(dir)?, name, body, 0)
    }

    fn changeable_by_host(&self, dir: Node) -> Result<u64, Errno> {
        if dir.is_own() {
            Ok(dir.number)
        } else {
            Err(Errno::Perm)
        }
    }

    /// Attaches a read-only tree, and returns its root. The tree is visible only where it is
    /// mounted; `path` is its path in the guest.
    ///
    /// # Errors
    ///
    /// [`Errno::Overflow`] past four billion trees.
    pub fn attach(&mut self, tree: Arc<dyn ReadOnly>, path: &str) -> Result<Node, Errno> {
        let attached = Arc::make_mut(&mut self.attached);
        attached.push(Attached {
            tree,
            around: ROOT,
            path: path.into(),
        });
        Ok(Node {
            tree: u32::try_from(attached.len()).map_err(|_| Errno::Overflow)?,
            number: 0,
        })
    }

    /// The node of an attached tree at a path in the guest.
    #[must_use]
    pub fn find_attached(&self, path: &str) -> Option<Node> {
        let inside = |(index, attached): (usize, &Attached)| {
            let rest = path.strip_prefix(&*attached.path)?;
            let is_inside = rest.is_empty() || rest.starts_with('/');
            is_inside.then_some((attached.path.len(), index, rest))
        };
        let found = self.attached.iter().enumerate().filter_map(inside);
        let (_, index, rest) = found.max_by_key(|(length, ..)| *length)?;
        let tree = &self.attached[index].tree;
        let number = names(rest).try_fold(0, |dir, name| match name {
            "." => Some(dir),
            ".." => Some(tree.parent(dir)),
            name => tree.lookup(dir, name),
        })?;
        Some(Node {
            tree: u32::try_from(index + 1).ok()?,
            number,
        })
    }

    /// The guest's path of a node in an attached tree.
    pub(crate) fn attached_path(&self, node: Node) -> Option<String> {
        let attached = self.attached.get((node.tree as usize).checked_sub(1)?)?;
        let mut path = String::new();
        let mut at = node.number;
        while at != 0 {
            path = format!("/{}{path}", attached.tree.name(at)?);
            at = attached.tree.parent(at);
        }
        Some(format!("{}{path}", attached.path))
    }

    /// Mounts a directory at a path: the root of an attached tree, or a directory of this one.
    ///
    /// # Errors
    ///
    /// [`Errno::Notdir`] if something else has the name, or `shown` is not a directory.
    pub fn mount(&mut self, path: &str, shown: Node) -> Result<(), Errno> {
        if self.kind(shown)? != Kind::Directory {
            return Err(Errno::Notdir);
        }
        let point = self.make_dirs(path, false)?;
        if !point.is_own() || point == shown || point.number == ROOT {
            return Err(Errno::Inval);
        }
        let around = self.dir(point.number)?.parent;
        if shown.number == 0
            && let Some(index) = (shown.tree as usize).checked_sub(1)
            && let Some(attached) = Arc::make_mut(&mut self.attached).get_mut(index)
        {
            attached.around = around;
        }
        self.set_covered(point.number, shown)
    }

    /// Gives the guest a preopened directory under the lowest free number, with the name that the
    /// guest sees. It does not count.
    ///
    /// # Errors
    ///
    /// [`Errno::Notdir`] if it is not a directory.
    pub fn give(&mut self, node: Node, name: &str) -> Result<u32, Errno> {
        if self.kind(node)? != Kind::Directory {
            return Err(Errno::Notdir);
        }
        self.open(Open {
            target: Target::Node(node),
            read: true,
            write: false,
            flags: FdFlags::default(),
            offset: 0,
            given: true,
            preopen: Some(name.into()),
        })
    }

    /// Opens an object of the caller under the lowest free number, identified by the caller's
    /// number. Descriptors `given` to the guest do not count.
    ///
    /// # Errors
    ///
    /// [`Errno::Mfile`] if the limit on descriptors is reached.
    pub fn open_foreign(&mut self, number: u64, given: bool) -> Result<u32, Errno> {
        self.open(Open {
            target: Target::Foreign(number),
            read: true,
            write: true,
            flags: FdFlags::default(),
            offset: 0,
            given,
            preopen: None,
        })
    }

    /// The guest's name of a preopened directory.
    #[must_use]
    pub fn preopen(&self, fd: u32) -> Option<&str> {
        self.descriptors.get(fd).ok()?.preopen.as_deref()
    }

    /// All descriptors with their numbers.
    pub fn open_files(&self) -> impl Iterator<Item = (u32, OpenFile)> {
        self.descriptors.iter().map(|(fd, open)| {
            let file = OpenFile {
                on: match open.target {
                    Target::Node(node) => OpenOn::Node(node),
                    Target::Foreign(number) => OpenOn::Foreign(number),
                },
                read: open.read,
                write: open.write,
                flags: open.flags,
                offset: open.offset,
                given: open.given,
            };
            (fd, file)
        })
    }

    /// Reopens a file under its number, replacing a descriptor that has it.
    ///
    /// # Errors
    ///
    /// [`Errno::Badf`] for a number out of range, [`Errno::Noent`] for a node that does not exist,
    /// [`Errno::Mfile`] if the limit on descriptors is reached.
    pub fn reopen(&mut self, fd: u32, file: &OpenFile) -> Result<(), Errno> {
        if fd >= MAX_FD {
            return Err(Errno::Badf);
        }
        let target = match file.on {
            OpenOn::Foreign(number) => Target::Foreign(number),
            OpenOn::Node(node) => {
                self.kind(node)?;
                Target::Node(node)
            }
        };
        if self.descriptors.get(fd).is_ok() {
            self.fd_close(fd)?;
        }
        let open = Open {
            target,
            read: file.read,
            write: file.write,
            flags: file.flags,
            offset: file.offset,
            given: file.given,
            preopen: None,
        };
        self.open_as(fd, open)
    }
}

/// The names in a path given by the host.
pub(crate) fn names(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').filter(|name| !name.is_empty())
}

/// Splits a path given by the host before its last name.
pub(crate) fn split(path: &str) -> Result<(&str, &str), Errno> {
    let path = path.trim_end_matches('/');
    match path.rsplit_once('/') {
        None if path.is_empty() => Err(Errno::Exist),
        None => Ok(("", path)),
        Some((around, name)) => Ok((around, name)),
    }
}

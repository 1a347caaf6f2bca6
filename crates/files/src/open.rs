//! Opening files: `path_open`.

use crate::content::Content;
use crate::descriptors::{Open, Target};
use crate::errno::Errno;
use crate::files::Files;
use crate::node::{Body, Node};
use crate::resolve::{Last, Name};
use crate::types::{FdFlags, Kind, OFlags, rights};
use crate::world::World;

/// How to open a file or directory.
#[derive(Clone, Copy, Debug, Default)]
pub struct OpenOptions {
    /// Whether to follow a link at the end of the path.
    pub follow: bool,
    /// Whether to create or truncate it, and whether it must be new or a directory.
    pub oflags: OFlags,
    /// The requested rights ([`rights`]). Only those to read and write are checked.
    pub rights: u64,
    /// Flags of the descriptor.
    pub flags: FdFlags,
}

impl OpenOptions {
    fn writes(self) -> bool {
        self.rights & rights::FD_WRITE != 0
            || self.oflags.has(OFlags::CREAT)
            || self.oflags.has(OFlags::TRUNC)
    }

    fn reads(self) -> bool {
        self.rights & rights::FD_READ != 0 || self.rights & rights::FD_WRITE == 0
    }

    fn open(self, node: Node) -> Open {
        Open {
            target: Target::Node(node),
            read: self.reads(),
            write: self.writes(),
            flags: self.flags,
            offset: 0,
            given: false,
            preopen: None,
        }
    }
}

impl Files {
    /// Opens a file or directory, and returns its descriptor.
    ///
    /// # Errors
    ///
    /// [`Errno::Mfile`] if the limit on descriptors is reached, [`Errno::Noent`], [`Errno::Exist`],
    /// [`Errno::Isdir`] for a directory opened for writing, [`Errno::Notdir`], [`Errno::Loop`] for
    /// a link that is not followed, [`Errno::Perm`] for writing to a read-only tree,
    /// [`Errno::Nospc`], [`Errno::Notsup`] for synchronous writes, [`Errno::Inval`] for creating or
    /// truncating a directory, and errors of resolving the path.
    pub fn path_open(
        &mut self,
        fd: u32,
        path: &str,
        options: OpenOptions,
        world: &mut dyn World,
    ) -> Result<u32, Errno> {
        let start = self.dir_of(fd)?;
        let OpenOptions { oflags, flags, .. } = options;
        let is_dir = oflags.has(OFlags::DIRECTORY);
        if flags.has(FdFlags::SYNCHRONOUS) {
            return Err(Errno::Notsup);
        }
        if is_dir && oflags.has(OFlags::CREAT | OFlags::EXCL | OFlags::TRUNC) {
            return Err(Errno::Inval);
        }
        if self.usage().open >= self.limits().open {
            return Err(Errno::Mfile);
        }
        let creates = oflags.has(OFlags::CREAT);
        let is_new = creates && oflags.has(OFlags::EXCL);
        let follow = options.follow;
        let last = match follow {
            _ if creates => Last::Make {
                follow: follow && !is_new,
            },
            true => Last::Follow,
            false => Last::Keep,
        };
        let place = self.resolve(start, path, last)?;
        let Some(node) = place.node else {
            let Name::Normal(name) = place.name else {
                return Err(Errno::Noent);
            };
            if !creates {
                return Err(Errno::Noent);
            }
            if place.dir.is_own() && self.inode(place.dir.number)?.names == 0 {
                return Err(Errno::Noent);
            }
            let (dir, name) = (self.changeable(place.dir)?, name.to_owned());
            self.may_add(dir)?;
            let now = self.stamp(world);
            let node = self.add(dir, &name, Body::File(Content::default()), now)?;
            return self.open(options.open(node));
        };
        if is_new {
            return Err(Errno::Exist);
        }
        match self.kind(node)? {
            Kind::Symlink if is_dir => return Err(Errno::Notdir),
            Kind::Symlink => return Err(Errno::Loop),
            Kind::Directory if options.writes() => return Err(Errno::Isdir),
            Kind::Directory => {}
            _ if is_dir => return Err(Errno::Notdir),
            _ if !node.is_own() && options.writes() => return Err(Errno::Perm),
            Kind::File if oflags.has(OFlags::TRUNC) => self.set_size(node.number, 0, world)?,
            Kind::File | Kind::CharacterDevice => {}
        }
        self.open(options.open(node))
    }
}

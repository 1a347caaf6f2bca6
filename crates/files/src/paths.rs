//! Calls on paths: `path_*`, except opening and renaming.

use crate::descriptors::Target;
use crate::dir::Dir;
use crate::errno::Errno;
use crate::files::{Files, MAX_PATH};
use crate::node::{Body, Node};
use crate::resolve::{Last, Name, Place, Stop};
use crate::types::{Kind, SetTimes, Stat};
use crate::world::World;

/// How to resolve a path that ends with a link.
fn last(follow: bool) -> Last {
    if follow { Last::Follow } else { Last::Keep }
}

impl Files {
    pub(crate) fn place<'a>(
        &'a self,
        fd: u32,
        path: &'a str,
        last: Last,
    ) -> Result<Place<'a>, Errno> {
        Ok(self.resolve(self.dir_of(fd)?, path, last)?)
    }

    /// Resolves a new name. Returns its place with the number of the directory.
    fn new_place<'a>(
        &'a self,
        fd: u32,
        path: &'a str,
        may_end_in_slash: bool,
    ) -> Result<(u64, &'a str), Errno> {
        let place = self.place(fd, path, Last::Name)?;
        let Name::Normal(name) = place.name else {
            return Err(Errno::Exist);
        };
        place.check_length()?;
        if place.node.is_some() {
            return Err(Errno::Exist);
        }
        if place.slash && !may_end_in_slash {
            return Err(Errno::Noent);
        }
        Ok((self.changeable(place.dir)?, name))
    }

    /// The caller's number of the portal that a path leads into, and the rest of the path, which is
    /// empty for the portal itself. `None` for paths that stay in the tree.
    #[must_use]
    pub fn portal(&self, fd: u32, follow: bool, path: &str) -> Option<(u64, String)> {
        let dir = self.dir_of(fd).ok()?;
        match self.resolve(dir, path, last(follow)) {
            Err(Stop::Portal(number, rest)) => Some((number, rest)),
            _ => None,
        }
    }

    /// Creates a directory.
    ///
    /// # Errors
    ///
    /// [`Errno::Exist`] if the name exists, [`Errno::Nospc`] over the limit, [`Errno::Perm`] where
    /// only the host creates names, and errors of resolving the path.
    pub fn path_create_directory(
        &mut self,
        fd: u32,
        path: &str,
        world: &mut dyn World,
    ) -> Result<(), Errno> {
        let (dir, name) = self.new_place(fd, path, true)?;
        let name = name.to_owned();
        self.may_add(dir)?;
        let now = self.stamp(world);
        self.add(dir, &name, Body::Dir(Dir::new(dir, &name, false)), now).map(drop)
    }

    /// The attributes of the file at a path.
    ///
    /// # Errors
    ///
    /// [`Errno::Noent`] if the path does not exist, and errors of resolving it.
    pub fn path_filestat_get(&self, fd: u32, follow: bool, path: &str) -> Result<Stat, Errno> {
        self.stat(self.place(fd, path, last(follow))?.found()?)
    }

    /// Sets the timestamps of the file at a path.
    ///
    /// # Errors
    ///
    /// [`Errno::Perm`] in a read-only tree, and errors of resolving the path.
    pub fn path_filestat_set_times(
        &mut self,
        fd: u32,
        follow: bool,
        path: &str,
        times: SetTimes,
        world: &mut dyn World,
    ) -> Result<(), Errno> {
        let node = self.place(fd, path, last(follow))?.found()?;
        self.set_times(node, times, world)
    }

    /// Creates a hard link. If the source path ends with a symbolic link, the link itself gets the
    /// name.
    ///
    /// # Errors
    ///
    /// [`Errno::Inval`] to follow a link, [`Errno::Perm`] for a directory or in a read-only tree,
    /// [`Errno::Exist`], [`Errno::Nospc`], and errors of resolving the paths.
    pub fn path_link(
        &mut self,
        (fd, follow, path): (u32, bool, &str),
        (to_fd, to_path): (u32, &str),
        world: &mut dyn World,
    ) -> Result<(), Errno> {
        self.dir_of(fd)?;
        self.dir_of(to_fd)?;
        if follow {
            return Err(Errno::Inval);
        }
        let node = self.place(fd, path, Last::Keep)?.found()?;
        let (dir, name) = self.new_place(to_fd, to_path, false)?;
        if !node.is_own() || matches!(self.kind(node)?, Kind::Directory | Kind::CharacterDevice) {
            return Err(Errno::Perm);
        }
        if self.inode(dir)?.names == 0 {
            return Err(Errno::Noent);
        }
        let name = name.to_owned();
        self.may_add(dir)?;
        self.check_depth(dir, &name, None)?;
        let now = self.stamp(world);
        self.name(dir, &name, node.number, false, now)?;
        let inode = self.inode_mut(node.number)?;
        inode.names += 1;
        inode.ctime = now;
        Ok(())
    }

    /// The target of the link at a path.
    ///
    /// # Errors
    ///
    /// [`Errno::Inval`] for anything but a link, and errors of resolving the path.
    pub fn path_readlink(&self, fd: u32, path: &str) -> Result<&str, Errno> {
        let node = self.place(fd, path, Last::Keep)?.found()?;
        self.target(node).ok_or(Errno::Inval)
    }

    /// Removes an empty directory.
    ///
    /// # Errors
    ///
    /// [`Errno::Notempty`], [`Errno::Notdir`], [`Errno::Perm`] where only the host creates names,
    /// and errors of resolving the path.
    pub fn path_remove_directory(
        &mut self,
        fd: u32,
        path: &str,
        world: &mut dyn World,
    ) -> Result<(), Errno> {
        let place = self.place(fd, path, Last::Name)?;
        match place.name {
            Name::Normal(_) => {}
            Name::Dot => return Err(Errno::Inval),
            Name::DotDot => return Err(Errno::Notempty),
            Name::Root => return Err(Errno::Busy),
        }
        let (node, label) = (place.found()?, place.label);
        let dir = self.changeable(place.dir)?;
        self.check_movable(&place)?;
        if !self.dir(node.number)?.is_empty() {
            return Err(Errno::Notempty);
        }
        let now = self.stamp(world);
        self.unname(dir, label, now)
    }

    /// Creates a symbolic link. The target does not have to exist.
    ///
    /// # Errors
    ///
    /// [`Errno::Noent`] for an empty target, [`Errno::Nametoolong`] for an invalid one,
    /// [`Errno::Exist`], [`Errno::Nospc`], [`Errno::Perm`], and errors of resolving the path.
    pub fn path_symlink(
        &mut self,
        target: &str,
        fd: u32,
        path: &str,
        world: &mut dyn World,
    ) -> Result<(), Errno> {
        self.dir_of(fd)?;
        match target {
            "" => return Err(Errno::Noent),
            _ if target.len() > MAX_PATH => return Err(Errno::Nametoolong),
            _ if target.as_bytes().contains(&0) => return Err(Errno::Inval),
            _ => {}
        }
        let (dir, name) = self.new_place(fd, path, false)?;
        let name = name.to_owned();
        self.may_add(dir)?;
        self.may_grow(target.len() as u64)?;
        let now = self.stamp(world);
        self.add(dir, &name, Body::Link(target.into()), now).map(drop)
    }

    /// Removes the name of anything but a directory. A file is dropped when it has no name and no
    /// open descriptor.
    ///
    /// # Errors
    ///
    /// [`Errno::Isdir`] for a directory, [`Errno::Perm`] where only the host creates names, and
    /// errors of resolving the path.
    pub fn path_unlink_file(
        &mut self,
        fd: u32,
        path: &str,
        world: &mut dyn World,
    ) -> Result<(), Errno> {
        let place = self.place(fd, path, Last::Name)?;
        if !matches!(place.name, Name::Normal(_)) {
            return Err(Errno::Isdir);
        }
        let (node, label) = (place.found()?, place.label);
        if self.kind(node)? == Kind::Directory {
            return Err(Errno::Isdir);
        }
        if place.slash {
            return Err(Errno::Notdir);
        }
        let dir = self.changeable(place.dir)?;
        let now = self.stamp(world);
        self.unname(dir, label, now)
    }

    /// The caller's number of the foreign object or portal that a descriptor is open on.
    #[must_use]
    pub fn foreign(&self, fd: u32) -> Option<u64> {
        match self.descriptors.get(fd).ok()?.target {
            Target::Foreign(number) => Some(number),
            Target::Node(_) => None,
        }
    }

    /// The node that a descriptor is open on.
    #[must_use]
    pub fn node(&self, fd: u32) -> Option<Node> {
        match self.descriptors.get(fd).ok()?.target {
            Target::Node(node) => Some(node),
            Target::Foreign(_) => None,
        }
    }
}

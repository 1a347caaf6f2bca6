//! Renaming: `path_rename`.

use crate::errno::Errno;
use crate::files::Files;
use crate::node::Node;
use crate::resolve::{Last, Name, Place};
use crate::types::Kind;
use crate::world::World;

/// One of the two places, without borrows from the tree.
pub(crate) struct End {
    dir: u64,
    name: String,
    node: Option<Node>,
    label: u64,
}

impl Files {
    /// Renames a file or directory, replacing the target if it exists.
    ///
    /// # Errors
    ///
    /// [`Errno::Inval`] for moving a directory into itself, [`Errno::Notempty`], [`Errno::Isdir`]
    /// and [`Errno::Notdir`] for a target that cannot be replaced, [`Errno::Busy`] for `.` and
    /// `..`, [`Errno::Perm`] where only the host creates names, [`Errno::Nospc`], and errors of
    /// resolving the paths.
    pub fn path_rename(
        &mut self,
        (fd, path): (u32, &str),
        (to_fd, to_path): (u32, &str),
        world: &mut dyn World,
    ) -> Result<(), Errno> {
        self.dir_of(fd)?;
        self.dir_of(to_fd)?;
        let from = self.place(fd, path, Last::Name)?;
        let to = self.place(to_fd, to_path, Last::Name)?;
        self.rename_places(&from, &to).and_then(|ends| match ends {
            None => Ok(()),
            Some((from, to)) => {
                let now = self.stamp(world);
                self.move_name(&from, &to, now)
            }
        })
    }

    /// Checks a rename. Returns `None` if both names are the same file.
    pub(crate) fn rename_places(
        &self,
        from: &Place<'_>,
        to: &Place<'_>,
    ) -> Result<Option<(End, End)>, Errno> {
        let (Name::Normal(from_name), Name::Normal(to_name)) = (from.name, to.name) else {
            return Err(Errno::Busy);
        };
        let node = from.found()?;
        to.check_length()?;
        if to.dir.is_own() && self.inode(to.dir.number)?.names == 0 {
            return Err(Errno::Noent);
        }
        let is_dir = self.kind(node)? == Kind::Directory;
        if !is_dir && (from.slash || to.slash) {
            return Err(Errno::Notdir);
        }
        let (from_dir, to_dir) = (self.changeable(from.dir)?, self.changeable(to.dir)?);
        self.check_movable(from)?;
        self.check_movable(to)?;
        if is_dir && from_dir != to_dir && self.is_inside(to_dir, node.number) {
            return Err(Errno::Inval);
        }
        if let Some(replaced) = to.node {
            if self.kind(replaced)? == Kind::Directory
                && from_dir != to_dir
                && self.is_inside(from_dir, replaced.number)
            {
                return Err(Errno::Notempty);
            }
            if replaced == node {
                return Ok(None);
            }
            match (is_dir, self.kind(replaced)? == Kind::Directory) {
                (true, false) => return Err(Errno::Notdir),
                (false, true) => return Err(Errno::Isdir),
                (true, true) if !self.dir(replaced.number)?.is_empty() => {
                    return Err(Errno::Notempty);
                }
                _ => {}
            }
        }
        self.check_depth(to_dir, to_name, is_dir.then_some((node.number, from_dir, from_name)))?;
        let end = |place: &Place<'_>, dir, name: &str| End {
            dir,
            name: name.to_owned(),
            node: place.node,
            label: place.label,
        };
        Ok(Some((end(from, from_dir, from_name), end(to, to_dir, to_name))))
    }

    pub(crate) fn move_name(&mut self, from: &End, to: &End, now: u64) -> Result<(), Errno> {
        let Some(Node { number, .. }) = from.node else {
            return Err(Errno::Noent);
        };
        let is_dir = self.kind(Node::own(number))? == Kind::Directory;
        let entry = self.entry(from.dir, from.label).ok_or(Errno::Noent)?;
        // The counts are right in between, too: the removed name makes room for the added one.
        self.remove_entry(from.dir, from.label, &entry, now)?;
        match to.node {
            Some(replaced) => {
                let was_dir = self.kind(replaced)? == Kind::Directory;
                self.relead(to.dir, to.label, number, now)?;
                self.count_dirs(to.dir, was_dir, is_dir)?;
                self.lost_name(replaced.number, now)?;
            }
            // Within a directory a name keeps its place, so that no listing returns it twice.
            None if from.dir == to.dir => {
                self.rename_entry(from.dir, from.label, &to.name, number, is_dir)?;
            }
            None => self.name(to.dir, &to.name, number, is_dir, now)?,
        }
        if is_dir {
            self.set_place(number, to.dir, &to.name)?;
        }
        self.inode_mut(number)?.ctime = now;
        Ok(())
    }
}

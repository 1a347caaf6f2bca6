//! Creating, moving, counting and dropping nodes and names: the building blocks of all calls.

use crate::descriptors::{Open, Target};
use crate::dir::{Dir, Entry};
use crate::errno::Errno;
use crate::files::Files;
use crate::node::{Body, Inode, Node};
use crate::readonly::{ReadOnly, ReadOnlyEntry};
use crate::types::{Kind, Stat};
use crate::world::World;

impl Files {
    /// The timestamp of a change that happens now.
    pub(crate) fn stamp(&mut self, world: &mut dyn World) -> u64 {
        let now = world.now();
        self.stamp_at(now)
    }

    pub(crate) fn stamp_at(&mut self, now: u64) -> u64 {
        self.version += 1;
        match &mut self.distinct {
            None => now,
            Some(latest) => {
                *latest = now.max(latest.saturating_add(1_000));
                *latest
            }
        }
    }

    pub(crate) fn inode(&self, number: u64) -> Result<&Inode, Errno> {
        self.nodes.get(number).ok_or(Errno::Noent)
    }

    pub(crate) fn inode_mut(&mut self, number: u64) -> Result<&mut Inode, Errno> {
        self.nodes.get_mut(number).ok_or(Errno::Noent)
    }

    pub(crate) fn dir(&self, number: u64) -> Result<&Dir, Errno> {
        match &self.inode(number)?.body {
            Body::Dir(dir) => Ok(dir),
            _ => Err(Errno::Notdir),
        }
    }

    fn dir_mut(&mut self, number: u64) -> Result<&mut Dir, Errno> {
        match &mut self.inode_mut(number)?.body {
            Body::Dir(dir) => Ok(dir),
            _ => Err(Errno::Notdir),
        }
    }

    /// The read-only tree of a node.
    pub(crate) fn tree(&self, node: Node) -> Result<&dyn ReadOnly, Errno> {
        let index = (node.tree as usize).checked_sub(1).ok_or(Errno::Noent)?;
        self.attached.get(index).map(|attached| &*attached.tree).ok_or(Errno::Noent)
    }

    fn tree_entry(&self, node: Node) -> Result<ReadOnlyEntry, Errno> {
        self.tree(node)?.stat(node.number).ok_or(Errno::Noent)
    }

    pub(crate) fn kind(&self, node: Node) -> Result<Kind, Errno> {
        if node.is_own() {
            return self.inode(node.number).map(Inode::kind);
        }
        self.tree_entry(node).map(|entry| entry.kind)
    }

    /// The attributes of a node.
    ///
    /// # Errors
    ///
    /// [`Errno::Noent`] for a node that no longer exists.
    pub fn stat(&self, node: Node) -> Result<Stat, Errno> {
        if !node.is_own() {
            let ReadOnlyEntry { kind, size, mtime } = self.tree_entry(node)?;
            return Ok(Stat {
                dev: u64::from(node.tree) + 1,
                ino: node.number + 1,
                kind,
                nlink: 1,
                size,
                atime: mtime,
                mtime,
                ctime: mtime,
            });
        }
        let inode = self.inode(node.number)?;
        let nlink = match &inode.body {
            Body::Dir(dir) if inode.names > 0 => 2 + u64::from(dir.dirs),
            _ => inode.names.into(),
        };
        Ok(Stat {
            dev: 1,
            ino: node.number,
            kind: inode.kind(),
            nlink,
            size: inode.size(),
            atime: inode.atime,
            mtime: inode.mtime,
            ctime: inode.ctime,
        })
    }

    /// Checks that usage may grow by this many bytes.
    pub(crate) fn may_grow(&self, bytes: u64) -> Result<(), Errno> {
        let sum = self.bytes.checked_add(bytes).filter(|sum| *sum <= self.limits.bytes);
        if sum.is_some() || bytes == 0 {
            Ok(())
        } else {
            Err(Errno::Nospc)
        }
    }

    /// Counts a change of a file's size.
    pub(crate) fn resized(&mut self, from: u64, to: u64) {
        self.bytes = self.bytes.saturating_sub(from).saturating_add(to);
    }

    /// Checks that a directory of the tree may get another name.
    pub(crate) fn may_add(&self, dir: u64) -> Result<(), Errno> {
        let is_counted = !self.dir(dir)?.sealed;
        if is_counted && self.files >= self.limits.files {
            return Err(Errno::Nospc);
        }
        Ok(())
    }

    /// The number of a directory, if the guest may create and remove names in it.
    pub(crate) fn changeable(&self, dir: Node) -> Result<u64, Errno> {
        if !dir.is_own() || self.dir(dir.number)?.sealed {
            return Err(Errno::Perm);
        }
        Ok(dir.number)
    }

    /// Creates a node under a new name.
    pub(crate) fn add(
        &mut self,
        dir: u64,
        name: &str,
        body: Body,
        now: u64,
    ) -> Result<Node, Errno> {
        if self.inode(dir)?.names == 0 {
            return Err(Errno::Noent);
        }
        let number = self.next;
        let inode = Inode::new(body, now);
        let size = inode.size();
        self.may_add(dir)?;
        self.check_depth(dir, name, None)?;
        self.may_grow(size)?;
        self.name(dir, name, number, inode.kind() == Kind::Directory, now)?;
        self.next += 1;
        self.resized(0, size);
        self.nodes.insert(number, inode);
        Ok(Node::own(number))
    }

    /// Creates a node without a name, which counts as one.
    pub(crate) fn add_nameless(&mut self, inode: Inode) -> Node {
        let number = self.next;
        self.next += 1;
        self.files += 1;
        self.resized(0, inode.size());
        self.nodes.insert(number, inode);
        Node::own(number)
    }

    /// Adds a new name to a node.
    pub(crate) fn name(
        &mut self,
        dir: u64,
        name: &str,
        number: u64,
        is_dir: bool,
        now: u64,
    ) -> Result<(), Errno> {
        let hash = self.pool.hash_name(name);
        let inode = self.inode_mut(dir)?;
        inode.touch(now);
        let Body::Dir(names) = &mut inode.body else {
            return Err(Errno::Notdir);
        };
        names.add(hash, name.into(), number);
        names.dirs += u32::from(is_dir);
        let counted = u64::from(!names.sealed);
        self.files += counted;
        Ok(())
    }

    /// Removes a name by label, and with the last name the node, unless it is open.
    pub(crate) fn unname(&mut self, dir: u64, label: u64, now: u64) -> Result<(), Errno> {
        let Some(entry) = self.entry(dir, label) else {
            return Err(Errno::Noent);
        };
        self.remove_entry(dir, label, &entry, now)?;
        self.lost_name(entry.number, now)
    }

    pub(crate) fn entry(&self, dir: u64, label: u64) -> Option<Entry> {
        let found = self.dir(dir).ok()?.entries(label).next();
        found.filter(|(at, _)| *at == label).map(|(_, entry)| entry.clone())
    }

    /// Removes a name without touching its node.
    pub(crate) fn remove_entry(
        &mut self,
        dir: u64,
        label: u64,
        entry: &Entry,
        now: u64,
    ) -> Result<(), Errno> {
        let hash = self.pool.hash_name(&entry.name);
        let is_dir = self.inode(entry.number)?.kind() == Kind::Directory;
        let inode = self.inode_mut(dir)?;
        inode.touch(now);
        let Body::Dir(names) = &mut inode.body else {
            return Err(Errno::Notdir);
        };
        names.remove(hash, label);
        names.dirs -= u32::from(is_dir);
        let counted = u64::from(!names.sealed);
        self.files -= counted;
        Ok(())
    }

    /// Records that a node has lost a name.
    pub(crate) fn lost_name(&mut self, number: u64, now: u64) -> Result<(), Errno> {
        let inode = self.inode_mut(number)?;
        inode.ctime = now;
        inode.names -= 1;
        if inode.names == 0 {
            // While open, it counts as the name that it had.
            self.files += 1;
            self.drop_if_unused(number);
        }
        Ok(())
    }

    /// Points an existing name to another node. Returns the previous one.
    pub(crate) fn relead(
        &mut self,
        dir: u64,
        label: u64,
        number: u64,
        now: u64,
    ) -> Result<(), Errno> {
        let inode = self.inode_mut(dir)?;
        inode.touch(now);
        self.dir_mut(dir)?.replace(label, number);
        Ok(())
    }

    /// Updates the count of subdirectories when a name changes between directory and other kinds.
    pub(crate) fn count_dirs(&mut self, dir: u64, before: bool, now: bool) -> Result<(), Errno> {
        let dir = self.dir_mut(dir)?;
        dir.dirs = dir.dirs + u32::from(now) - u32::from(before);
        Ok(())
    }

    /// Reinserts a removed entry under another name.
    pub(crate) fn rename_entry(
        &mut self,
        dir: u64,
        label: u64,
        name: &str,
        number: u64,
        is_dir: bool,
    ) -> Result<(), Errno> {
        let hash = self.pool.hash_name(name);
        let name = name.into();
        let names = self.dir_mut(dir)?;
        names.put(hash, label, Entry { name, number });
        names.dirs += u32::from(is_dir);
        let counted = u64::from(!names.sealed);
        self.files += counted;
        Ok(())
    }

    /// Records the parent and name of a directory.
    pub(crate) fn set_place(&mut self, dir: u64, parent: u64, name: &str) -> Result<(), Errno> {
        let dir = self.dir_mut(dir)?;
        dir.parent = parent;
        dir.name_len = u8::try_from(name.len()).unwrap_or(u8::MAX);
        Ok(())
    }

    pub(crate) fn set_covered(&mut self, number: u64, by: Node) -> Result<(), Errno> {
        self.dir_mut(number)?.covered_by = Some(by);
        Ok(())
    }

    pub(crate) fn set_sealed(&mut self, number: u64, sealed: bool) -> Result<(), Errno> {
        let dir = self.dir_mut(number)?;
        let (names, was) = (dir.len() as u64, dir.sealed);
        dir.sealed = sealed;
        match (was, sealed) {
            (false, true) => self.files -= names,
            (true, false) => self.files += names,
            _ => {}
        }
        Ok(())
    }

    fn drop_if_unused(&mut self, number: u64) {
        let Some(inode) = self.nodes.get(number) else {
            return;
        };
        if inode.names > 0 || self.opens.get(number).is_some() {
            return;
        }
        let size = inode.size();
        self.nodes.remove(number);
        self.files -= 1;
        self.resized(size, 0);
    }

    /// Adds a descriptor under the lowest free number.
    pub(crate) fn open(&mut self, open: Open) -> Result<u32, Errno> {
        self.may_open(&open)?;
        let target = open.target;
        let fd = self.descriptors.push(open)?;
        self.opened(target);
        Ok(fd)
    }

    pub(crate) fn open_as(&mut self, fd: u32, open: Open) -> Result<(), Errno> {
        self.may_open(&open)?;
        let target = open.target;
        self.descriptors.put(fd, open);
        self.opened(target);
        Ok(())
    }

    fn may_open(&self, open: &Open) -> Result<(), Errno> {
        if !open.given && self.descriptors.counted >= self.limits.open {
            return Err(Errno::Mfile);
        }
        Ok(())
    }

    fn opened(&mut self, target: Target) {
        let Target::Node(Node { tree: 0, number }) = target else {
            return;
        };
        match self.opens.get_mut(number) {
            Some(count) => *count += 1,
            None => {
                self.opens.insert(number, 1);
            }
        }
    }

    /// Handles a closed descriptor of this target. Returns the number of a foreign object.
    pub(crate) fn closed(&mut self, target: Target) -> Option<u64> {
        match target {
            Target::Foreign(number) => return Some(number),
            Target::Node(Node { tree: 0, number }) => {
                if let Some(count) = self.opens.get_mut(number).filter(|count| **count > 1) {
                    *count -= 1;
                } else {
                    self.opens.remove(number);
                    self.drop_if_unused(number);
                }
            }
            Target::Node(_) => {}
        }
        None
    }
}

//! The host's own operations: by path from the root, following links only on request.

use crate::content::Content;
use crate::dir::{Dir, FIRST_LABEL};
use crate::errno::Errno;
use crate::files::{Files, MAX_NAME, ROOT};
use crate::namespace::{names, split};
use crate::node::{Body, Inode, Node};
use crate::resolve::Last;
use crate::types::Kind;

/// Upper bound of node numbers. A guest would need 285,000 years at a thousand nodes a second.
const MAX_NUMBER: u64 = 1 << 53;

impl Files {
    /// The node at a path, without following links.
    ///
    /// # Errors
    ///
    /// [`Errno::Noent`], [`Errno::Notdir`], and [`Errno::Loop`] for a link on the way.
    pub fn find(&self, path: &str) -> Result<Node, Errno> {
        let mut node = self.root();
        for name in names(path) {
            node = match self.kind(node)? {
                Kind::Directory => self.child(node, name)?.ok_or(Errno::Noent)?.0,
                Kind::Symlink => return Err(Errno::Loop),
                _ => return Err(Errno::Notdir),
            };
        }
        Ok(node)
    }

    /// The node at a path. Follows links, which cannot leave the tree.
    ///
    /// # Errors
    ///
    /// The same as for a guest.
    pub fn find_through(&self, path: &str) -> Result<Node, Errno> {
        self.resolve(self.root(), path, Last::Follow)?.found()
    }

    /// The node at a path, with links followed, if it is `top` or below it. Checked by the
    /// directory of the last name, without walking the tree.
    ///
    /// # Errors
    ///
    /// [`Errno::Perm`] outside `top`, otherwise the same as for a guest.
    pub fn find_below(&self, top: Node, path: &str) -> Result<Node, Errno> {
        let place = self.resolve(self.root(), path, Last::Follow)?;
        let node = place.found()?;
        let dir = if self.kind(node)? == Kind::Directory {
            node
        } else {
            place.dir
        };
        let is_below = dir.is_own() && top.is_own() && self.is_inside(dir.number, top.number);
        is_below.then_some(node).ok_or(Errno::Perm)
    }

    /// The content of a regular file in the tree.
    #[must_use]
    pub fn content(&self, node: Node) -> Option<&Content> {
        match &self.nodes.get(node.number).filter(|_| node.is_own())?.body {
            Body::File(content) => Some(content),
            _ => None,
        }
    }

    /// The names in a directory of the tree, in listing order.
    pub fn names(&self, dir: Node) -> impl Iterator<Item = (&str, Node)> {
        let dir = if dir.is_own() {
            self.dir(dir.number).ok()
        } else {
            None
        };
        let entries = dir.into_iter().flat_map(|dir| dir.entries(0));
        entries.map(|(_, entry)| (&*entry.name, Node::own(entry.number)))
    }

    /// Creates a directory and its parents, unless they exist. They count like the guest's.
    ///
    /// # Errors
    ///
    /// [`Errno::Nospc`] over the limit, [`Errno::Notdir`] and [`Errno::Loop`] if something else has
    /// one of the names, [`Errno::Inval`] for an invalid name, [`Errno::Perm`] outside of the
    /// directories that the guest may change.
    pub fn put_dir(&mut self, path: &str, now: u64) -> Result<Node, Errno> {
        let mut dir = self.root();
        for name in names(path) {
            let Some((found, _)) = self.child(dir, name)? else {
                check_name(name)?;
                let number = self.changeable(dir)?;
                let now = self.stamp_at(now);
                dir = self.add(number, name, Body::Dir(Dir::new(number, name, false)), now)?;
                continue;
            };
            dir = match self.kind(found)? {
                Kind::Directory => found,
                Kind::Symlink => return Err(Errno::Loop),
                _ => return Err(Errno::Notdir),
            };
        }
        Ok(dir)
    }

    /// Writes a file, and creates its parent directories.
    ///
    /// # Errors
    ///
    /// As [`put_dir`](Self::put_dir), and [`Errno::Isdir`] when a directory has the name.
    pub fn put_file(&mut self, path: &str, content: Content, now: u64) -> Result<Node, Errno> {
        let (around, name) = split(path)?;
        let dir = self.put_dir(around, now)?;
        let Some((node, _)) = self.child(dir, name)? else {
            return self.put(dir, name, Body::File(content), now);
        };
        match self.kind(node)? {
            Kind::File if node.is_own() => {}
            Kind::Directory => return Err(Errno::Isdir),
            Kind::Symlink => return Err(Errno::Loop),
            _ => return Err(Errno::Perm),
        }
        let (before, after) = (self.inode(node.number)?.size(), content.len());
        self.may_grow(after.saturating_sub(before))?;
        let now = self.stamp_at(now);
        let inode = self.inode_mut(node.number)?;
        inode.body = Body::File(content);
        inode.touch(now);
        self.resized(before, after);
        Ok(node)
    }

    /// Creates a symbolic link and its parent directories.
    ///
    /// # Errors
    ///
    /// As [`put_dir`](Self::put_dir), and [`Errno::Exist`] if the name exists.
    pub fn put_link(&mut self, path: &str, target: &str, now: u64) -> Result<Node, Errno> {
        let (around, name) = split(path)?;
        let dir = self.put_dir(around, now)?;
        if self.child(dir, name)?.is_some() {
            return Err(Errno::Exist);
        }
        self.put(dir, name, Body::Link(target.into()), now)
    }

    /// Adds a hard link to a file or symbolic link.
    ///
    /// # Errors
    ///
    /// As [`put_link`](Self::put_link), and [`Errno::Perm`] for a directory.
    pub fn put_name(&mut self, path: &str, node: Node, now: u64) -> Result<(), Errno> {
        let (around, name) = split(path)?;
        let dir = self.put_dir(around, now)?;
        check_name(name)?;
        if self.child(dir, name)?.is_some() {
            return Err(Errno::Exist);
        }
        if !node.is_own() || !matches!(self.kind(node)?, Kind::File | Kind::Symlink) {
            return Err(Errno::Perm);
        }
        let dir = self.changeable(dir)?;
        self.may_add(dir)?;
        self.check_depth(dir, name, None)?;
        let now = self.stamp_at(now);
        self.name(dir, name, node.number, false, now)?;
        self.inode_mut(node.number)?.names += 1;
        Ok(())
    }

    /// Creates a file without a name, to be opened with [`reopen`](Self::reopen). It is dropped
    /// when its last descriptor is closed.
    ///
    /// # Errors
    ///
    /// [`Errno::Nospc`] over the limit.
    pub fn put_nameless(&mut self, content: Content, now: u64) -> Result<Node, Errno> {
        self.may_grow(content.len())?;
        if self.usage().files >= self.limits().files {
            return Err(Errno::Nospc);
        }
        let now = self.stamp_at(now);
        let mut inode = Inode::new(Body::File(content), now);
        inode.names = 0;
        Ok(self.add_nameless(inode))
    }

    fn put(&mut self, dir: Node, name: &str, body: Body, now: u64) -> Result<Node, Errno> {
        check_name(name)?;
        let dir = self.changeable(dir)?;
        let now = self.stamp_at(now);
        self.add(dir, name, body, now)
    }

    /// The labels of a directory's names, in order, and the label of the next name. Listings use
    /// them as cookies. `None` if they are those of a new directory to which the names are added.
    #[must_use]
    pub fn labels(&self, dir: Node) -> Option<(Vec<u64>, u64)> {
        let dir = dir.is_own().then(|| self.dir(dir.number))?.ok()?;
        let labels = || dir.entries(0).map(|(label, _)| label).collect();
        (!dir.has_first_labels()).then(|| (labels(), dir.next_label()))
    }

    /// Gives the names of a directory the labels that [`labels`](Self::labels) returned.
    ///
    /// # Errors
    ///
    /// [`Errno::Inval`] for labels that its names cannot have, [`Errno::Notdir`] for other nodes.
    pub fn put_labels(&mut self, dir: Node, labels: &[u64], next: u64) -> Result<(), Errno> {
        let number = self.changeable(dir)?;
        let are_ordered = labels.is_sorted_by(|one, other| one < other);
        let first = labels.first().copied().unwrap_or(FIRST_LABEL);
        let last = labels.last().map_or(FIRST_LABEL, |last| last.saturating_add(1));
        let are_in_bounds = first >= FIRST_LABEL && last <= next && next <= MAX_NUMBER;
        if labels.len() != self.dir(number)?.len() || !are_ordered || !are_in_bounds {
            return Err(Errno::Inval);
        }
        match &mut self.inode_mut(number)?.body {
            Body::Dir(dir) => dir.relabel(labels, next),
            _ => return Err(Errno::Notdir),
        }
        Ok(())
    }

    /// Number of the next node.
    #[must_use]
    pub fn next_number(&self) -> u64 {
        self.next
    }

    /// Sets the number of the next node, if it is larger than the current one and at most 2^53.
    pub fn number_from(&mut self, next: u64) {
        self.next = self.next.max(next.min(MAX_NUMBER));
    }

    /// Gives the one node that `make` creates this number, if it is unused and below 2^53.
    pub fn numbered<T>(&mut self, number: u64, make: impl FnOnce(&mut Self) -> T) -> T {
        let is_free = (ROOT..MAX_NUMBER).contains(&number) && self.nodes.get(number).is_none();
        if !is_free {
            return make(self);
        }
        let next = std::mem::replace(&mut self.next, number);
        let result = make(self);
        if self.next == number {
            self.next = next;
        }
        self.next = self.next.max(next);
        result
    }

    /// Sets the timestamps of a node.
    ///
    /// # Errors
    ///
    /// [`Errno::Noent`] if it does not exist.
    pub fn put_times(
        &mut self,
        node: Node,
        atime: u64,
        mtime: u64,
        ctime: u64,
    ) -> Result<(), Errno> {
        if !node.is_own() {
            return Err(Errno::Perm);
        }
        let inode = self.inode_mut(node.number)?;
        (inode.atime, inode.mtime, inode.ctime) = (atime, mtime, ctime);
        Ok(())
    }

    /// Removes a name, and with `tree` a directory with its contents.
    ///
    /// # Errors
    ///
    /// [`Errno::Notempty`] for a directory without `tree`, [`Errno::Noent`], and [`Errno::Perm`]
    /// outside of the directories that the guest may change.
    pub fn remove(&mut self, path: &str, tree: bool, now: u64) -> Result<(), Errno> {
        let (around, name) = split(path)?;
        let around = self.find(around)?;
        let (node, label) = self.child(around, name)?.ok_or(Errno::Noent)?;
        let dir = self.changeable(around)?;
        let now = self.stamp_at(now);
        if self.kind(node)? == Kind::Directory && !self.dir(node.number)?.is_empty() {
            if !tree {
                return Err(Errno::Notempty);
            }
            self.empty(node.number, now)?;
        }
        self.unname(dir, label, now)
    }

    /// Removes everything in a directory, at any depth.
    fn empty(&mut self, top: u64, now: u64) -> Result<(), Errno> {
        let mut waiting = vec![top];
        while let Some(dir) = waiting.last().copied() {
            let Some((label, number)) =
                self.dir(dir)?.entries(0).next().map(|(label, entry)| (label, entry.number))
            else {
                waiting.pop();
                continue;
            };
            match self.dir(number) {
                Ok(inner) if !inner.is_empty() => waiting.push(number),
                _ => self.unname(dir, label, now)?,
            }
        }
        Ok(())
    }

    /// Renames a file or directory to a name that does not exist.
    ///
    /// # Errors
    ///
    /// [`Errno::Exist`] if the new name exists, otherwise the same as for a guest.
    pub fn rename(&mut self, from: &str, to: &str, now: u64) -> Result<(), Errno> {
        self.find(from)?;
        match self.find(to) {
            Ok(_) => return Err(Errno::Exist),
            Err(Errno::Noent) => {}
            Err(errno) => return Err(errno),
        }
        let (around, name) = split(to)?;
        check_name(name)?;
        let around = self.find(around)?;
        self.changeable(around)?;
        let root = self.root();
        let from = self.resolve(root, from, Last::Name)?;
        let to = self.resolve(root, to, Last::Name)?;
        match self.rename_places(&from, &to)? {
            None => Ok(()),
            Some((from, to)) => {
                let now = self.stamp_at(now);
                self.move_name(&from, &to, now)
            }
        }
    }

    /// Whether a node has the same content and timestamps in both states.
    #[must_use]
    pub fn is_unchanged(&self, before: &Self, node: Node) -> bool {
        let (Ok(own), Ok(theirs)) = (self.inode(node.number), before.inode(node.number)) else {
            return false;
        };
        let times = |inode: &Inode| (inode.mtime, inode.ctime);
        let is_same = match (&own.body, &theirs.body) {
            (Body::File(own), Body::File(theirs)) => own.is_same(theirs),
            (Body::Link(own), Body::Link(theirs)) => own == theirs,
            (own, theirs) => std::mem::discriminant(own) == std::mem::discriminant(theirs),
        };
        node.is_own() && is_same && times(own) == times(theirs)
    }

    /// Compares identities of names, contents and timestamps: `false` does not mean that they
    /// differ. Ignores descriptors.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        self.nodes.is_same(&other.nodes)
    }

    /// Compares identities of the descriptor tables: `false` does not mean that they differ.
    #[must_use]
    pub fn has_same_open(&self, other: &Self) -> bool {
        self.descriptors.is_same(&other.descriptors)
    }
}

/// Checks that a name from the host is valid for a guest, too.
pub(crate) fn check_name(name: &str) -> Result<(), Errno> {
    match name {
        "" | "." | ".." => Err(Errno::Inval),
        _ if name.contains(['/', '\0']) => Err(Errno::Inval),
        _ if name.len() > MAX_NAME => Err(Errno::Nametoolong),
        _ => Ok(()),
    }
}

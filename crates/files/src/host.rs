//! The host's own way in: by path from the root, and through no link unless that is said.

use crate::content::Content;
use crate::dir::Dir;
use crate::errno::Errno;
use crate::files::{Files, MAX_NAME, ROOT};
use crate::namespace::{names, split};
use crate::node::{Body, Inode, Node};
use crate::resolve::Last;
use crate::types::Kind;

/// No host gives a node this number: a guest would have to make a thousand a second for 285,000 years.
const MAX_NUMBER: u64 = 1 << 53;

impl Files {
    /// The node at a path.
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

    /// The node at a path. Links are followed; they cannot leave the tree.
    ///
    /// # Errors
    ///
    /// As a guest meets them.
    pub fn find_through(&self, path: &str) -> Result<Node, Errno> {
        self.resolve(self.root(), path, Last::Follow)?.found()
    }

    /// The node at a path, with links followed, if it is `top` or below it. The directory that holds the
    /// last name decides, so no walk is needed.
    ///
    /// # Errors
    ///
    /// [`Errno::Perm`] for what is elsewhere, and as a guest meets them.
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

    /// The bytes of a regular file of the tree.
    #[must_use]
    pub fn content(&self, node: Node) -> Option<&Content> {
        match &self.nodes.get(node.number).filter(|_| node.is_own())?.body {
            Body::File(content) => Some(content),
            _ => None,
        }
    }

    /// The names in a directory of the tree, in the order in which they are listed.
    pub fn names(&self, dir: Node) -> impl Iterator<Item = (&str, Node)> {
        let dir = if dir.is_own() {
            self.dir(dir.number).ok()
        } else {
            None
        };
        let entries = dir.into_iter().flat_map(|dir| dir.entries(0));
        entries.map(|(_, entry)| (&*entry.name, Node::own(entry.number)))
    }

    /// Makes a directory with those around it; one that is there stays. They count as the guest's do.
    ///
    /// # Errors
    ///
    /// [`Errno::Nospc`] over the limit, [`Errno::Notdir`] and [`Errno::Loop`] for what is in the way,
    /// [`Errno::Inval`] for a name that is none, [`Errno::Perm`] outside what the guest may change.
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

    /// Makes a file with the directories around it, or gives one that is there another content.
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

    /// Makes a link with the directories around it.
    ///
    /// # Errors
    ///
    /// As [`put_dir`](Self::put_dir), and [`Errno::Exist`] when something has the name.
    pub fn put_link(&mut self, path: &str, target: &str, now: u64) -> Result<Node, Errno> {
        let (around, name) = split(path)?;
        let dir = self.put_dir(around, now)?;
        if self.child(dir, name)?.is_some() {
            return Err(Errno::Exist);
        }
        self.put(dir, name, Body::Link(target.into()), now)
    }

    /// Gives a file or a link a further name.
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

    /// Makes a file without a name, for descriptors that are opened on it again
    /// ([`reopen`](Self::reopen)). It goes when the last of these is closed.
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

    /// The number that the next node gets.
    #[must_use]
    pub fn next_number(&self) -> u64 {
        self.next
    }

    /// Has nodes get numbers from this on, if it is more than the next one and at most 2^53.
    pub fn number_from(&mut self, next: u64) {
        self.next = self.next.max(next.min(MAX_NUMBER));
    }

    /// Has the one node that `make` makes get this number, unless another has it, or it is 2^53 or more.
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

    /// Sets the times of a node.
    ///
    /// # Errors
    ///
    /// [`Errno::Noent`] for one that is not there.
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

    /// Removes a name, and with a `tree` all that is in a directory.
    ///
    /// # Errors
    ///
    /// [`Errno::Notempty`] for a directory without `tree`, [`Errno::Noent`], and [`Errno::Perm`] outside
    /// what the guest may change.
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

    /// Removes everything in a directory, however deep it is.
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

    /// Moves a name to one that nothing has.
    ///
    /// # Errors
    ///
    /// [`Errno::Exist`] when something has it, and as a guest meets them.
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

    /// Whether a node is the same in both, with the same content and times.
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

    /// Whether both have the same names, contents and times as far as that is known at once: `false` does
    /// not say that they differ. What is open is not looked at.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        self.nodes.is_same(&other.nodes)
    }

    /// Whether the same is open in both as far as that is known at once.
    #[must_use]
    pub fn has_same_open(&self, other: &Self) -> bool {
        self.descriptors.is_same(&other.descriptors)
    }
}

/// Whether a name of the host's is one that a guest could give.
pub(crate) fn check_name(name: &str) -> Result<(), Errno> {
    match name {
        "" | "." | ".." => Err(Errno::Inval),
        _ if name.contains(['/', '\0']) => Err(Errno::Inval),
        _ if name.len() > MAX_NAME => Err(Errno::Nametoolong),
        _ => Ok(()),
    }
}

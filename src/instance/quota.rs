//! Keeps a run's files within its bounds, as they are written.
//!
//! The count of bytes adds up the files' sizes, holes included. It only ever overestimates: growth
//! is added as it happens, while deleted, truncated and overwritten bytes are subtracted by measuring
//! the directories again once a bound seems reached. A file that was deleted while it is open still
//! takes its bytes, and no directory shows it: every measurement is given these bytes.

use std::collections::{HashMap, HashSet};
use std::io;

use crate::limits::{MAX_OPEN, MAX_PATH_BYTES, MAX_PATH_NAMES};
use crate::workspace::Tree;

/// Account of what a run wrote, and may still write.
#[derive(Debug)]
pub(crate) struct Quota {
    roots: Vec<(i32, Tree)>,
    max_bytes: u64,
    max_files: u64,
    bytes: u64,
    files: u64,
    open: HashMap<i32, Opened>,
    /// Numbers that directories which the guest was given have, other than their own.
    moved: HashSet<i32>,
    /// Whether there may be links, by which names lie deeper than they look.
    has_links: bool,
    touched: bool,
}

/// A file that the guest has open under one number.
#[derive(Debug)]
struct Opened {
    depth: Depth,
    /// Its absolute path when it was opened.
    path: String,
}

/// How far a name lies below a directory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Depth {
    pub parts: usize,
    pub bytes: usize,
}

impl Depth {
    /// Of a name of which nobody knows where it lies.
    pub(super) const UNKNOWN: Self = Self {
        parts: 1 << 30,
        bytes: 1 << 30,
    };

    /// Of a relative path; `.` and `..` do not count, so this is an upper bound.
    pub(super) fn of(path: &str) -> Self {
        let parts = path.split('/').filter(|p| !matches!(*p, "" | "." | ".."));
        parts.fold(Self::default(), |sum, part| {
            sum + Self {
                parts: 1,
                bytes: part.len() + 1,
            }
        })
    }

    /// The deeper of two.
    pub(super) fn max(self, other: Self) -> Self {
        Self {
            parts: self.parts.max(other.parts),
            bytes: self.bytes.max(other.bytes),
        }
    }

    pub(super) fn is_allowed(self) -> bool {
        self.parts <= MAX_PATH_NAMES && self.bytes <= MAX_PATH_BYTES
    }
}

impl std::ops::Sub for Depth {
    type Output = Self;

    /// By how much it is deeper, if it is.
    fn sub(self, other: Self) -> Self {
        Self {
            parts: self.parts.saturating_sub(other.parts),
            bytes: self.bytes.saturating_sub(other.bytes),
        }
    }
}

impl std::ops::Add for Depth {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            parts: self.parts + other.parts,
            bytes: self.bytes + other.bytes,
        }
    }
}

impl Quota {
    /// A quota over the directories `roots`, by their descriptors, above the bytes and files that are `there` already.
    pub(crate) fn new(roots: Vec<(i32, Tree)>, bytes: u64, files: u64, there: (u64, u64)) -> Self {
        Self {
            roots,
            max_bytes: bytes.saturating_add(there.0),
            max_files: files.saturating_add(there.1),
            bytes: there.0,
            files: there.1,
            open: HashMap::new(),
            moved: HashSet::new(),
            has_links: false,
            touched: false,
        }
    }

    /// Begins a further run, whose host placed so many bytes and files.
    pub(super) fn begin(&mut self, placed: (u64, u64)) {
        self.touched = false;
        self.max_bytes = self.max_bytes.saturating_add(placed.0);
        self.max_files = self.max_files.saturating_add(placed.1);
        self.bytes = self.bytes.saturating_add(placed.0);
        self.files = self.files.saturating_add(placed.1);
    }

    /// Whether anything may have been written.
    pub(crate) fn touched(&self) -> bool {
        self.touched
    }

    /// Notes that the guest changes something.
    pub(super) fn touch(&mut self) {
        self.touched = true;
    }

    /// The largest size that a file may have.
    pub(super) fn max_bytes(&self) -> u64 {
        self.max_bytes
    }

    /// Allows a file to grow by `bytes`, if that fits.
    pub(super) fn grow(&mut self, bytes: u64) -> bool {
        self.touch();
        let sum = self.bytes.checked_add(bytes).filter(|sum| *sum <= self.max_bytes);
        self.bytes = sum.unwrap_or(self.bytes);
        sum.is_some()
    }

    /// Allows another file or directory, if that fits.
    pub(super) fn create(&mut self) -> bool {
        self.touch();
        let fits = self.files < self.max_files;
        self.files += u64::from(fits);
        fits
    }

    /// Counts bytes and files again. `nameless` are the bytes of open files without a name.
    pub(super) fn measure(&mut self, nameless: u64) -> io::Result<()> {
        (self.bytes, self.files) = (nameless, 0);
        for (_, tree) in &self.roots {
            let (bytes, files, has_links) = tree.measure()?;
            self.bytes = self.bytes.saturating_add(bytes);
            self.files += files;
            self.has_links |= has_links;
        }
        Ok(())
    }

    /// How many bytes files may have, and how many they have now that have a name.
    pub(super) fn space(&self) -> io::Result<(u64, u64)> {
        let mut used = 0;
        for (_, tree) in &self.roots {
            used += tree.measure()?.0;
        }
        Ok((self.max_bytes.max(used), used))
    }

    /// The tree below a preopened directory that can be written.
    pub(super) fn root(&self, fd: i32) -> Option<&Tree> {
        self.roots.iter().find_map(|(root, tree)| (*root == fd).then_some(tree))
    }

    /// Whether another descriptor may be opened.
    pub(super) fn may_open(&self) -> bool {
        self.open.len() < MAX_OPEN
    }

    pub(super) fn opened(&mut self, fd: i32, depth: Depth, path: String) {
        self.open.insert(fd, Opened { depth, path });
    }

    /// The path under which a descriptor was opened; `None` for a preopened directory.
    pub(super) fn path(&self, fd: i32) -> Option<&str> {
        self.open.get(&fd).map(|open| open.path.as_str())
    }

    pub(super) fn closed(&mut self, fd: i32) {
        self.open.remove(&fd);
        self.moved.remove(&fd);
    }

    pub(super) fn renumbered(&mut self, from: i32, to: i32) {
        self.closed(to);
        self.moved.remove(&from);
        if let Some(opened) = self.open.remove(&from) {
            self.open.insert(to, opened);
        } else {
            self.moved.insert(to);
        }
    }

    /// Notes that a directory has moved down by so much: any descriptor may lie in it.
    pub(super) fn moved_down(&mut self, by: Depth) {
        for opened in self.open.values_mut() {
            opened.depth = opened.depth + by;
        }
    }

    /// Notes that there are links.
    pub(super) fn linked(&mut self) {
        self.has_links = true;
    }

    pub(super) fn has_links(&self) -> bool {
        self.has_links
    }

    /// The descriptors that the guest has open, beyond those it was given.
    pub(crate) fn open_descriptors(&self) -> Vec<i32> {
        let mut open: Vec<i32> = self.open.keys().copied().collect();
        open.sort_unstable();
        open
    }

    /// How deep a descriptor lies: 0 for a preopened directory.
    pub(super) fn depth(&self, fd: i32) -> Depth {
        if self.moved.contains(&fd) {
            return Depth::UNKNOWN;
        }
        self.open.get(&fd).map(|open| open.depth).unwrap_or_default()
    }

    /// Whether a descriptor is one of the standard streams that the guest was given.
    pub(super) fn is_stream(&self, fd: i32) -> bool {
        fd <= 2 && self.is_preopen(fd)
    }

    /// Whether a descriptor is one that the guest was given.
    pub(super) fn is_preopen(&self, fd: i32) -> bool {
        !self.open.contains_key(&fd)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A quota of 1,000 bytes and 2 files above nothing.
    fn quota(dir: &std::path::Path) -> Quota {
        Quota::new(vec![(5, Tree::new(dir.to_owned()))], 1_000, 2, (0, 0))
    }

    #[test]
    fn each_bound_holds_alone() {
        let dir = tempfile::tempdir().unwrap();
        let mut quota = quota(dir.path());
        assert!(quota.create() && quota.create() && !quota.create());
        assert!(quota.grow(600) && !quota.grow(600) && quota.grow(400) && !quota.grow(1));
        assert!(!quota.grow(u64::MAX));
    }

    #[test]
    fn a_measurement_finds_what_was_deleted_and_keeps_what_has_no_name() {
        let dir = tempfile::tempdir().unwrap();
        let mut quota = quota(dir.path());
        assert!(quota.create() && quota.create() && quota.grow(1_000));
        std::fs::write(dir.path().join("a"), [0; 300]).unwrap();
        quota.measure(500).unwrap();
        assert!(!quota.grow(201) && quota.grow(200));
        assert!(quota.create() && !quota.create());
        // More than the bound: a session whose bound was lowered.
        quota.measure(u64::MAX).unwrap();
        assert!(!quota.grow(1));
    }
}

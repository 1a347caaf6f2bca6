//! Limits on the depth of directories, so that every path stays short enough to be stored.

use crate::errno::Errno;
use crate::files::{Files, ROOT};

/// Distance between two nodes: number of names, and bytes with a slash before each name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Depth {
    names: usize,
    bytes: usize,
}

impl Depth {
    fn and(self, name: usize) -> Self {
        Self {
            names: self.names + 1,
            bytes: self.bytes + 1 + name,
        }
    }

    fn plus(self, other: Self) -> Self {
        Self {
            names: self.names + other.names,
            bytes: self.bytes + other.bytes,
        }
    }

    fn max(self, other: Self) -> Self {
        Self {
            names: self.names.max(other.names),
            bytes: self.bytes.max(other.bytes),
        }
    }
}

impl Files {
    /// Checks that a name in a directory stays within the depth limit. `moved` is the directory
    /// that gets the name and now has another.
    pub(crate) fn check_depth(
        &self,
        dir: u64,
        name: &str,
        moved: Option<(u64, u64, &str)>,
    ) -> Result<(), Errno> {
        let limits = self.limits();
        if limits.depth == usize::MAX && limits.path == usize::MAX {
            return Ok(());
        }
        let is_allowed = |depth: Depth| depth.names <= limits.depth && depth.bytes <= limits.path;
        let to = self.depth(dir)?.and(name.len());
        let height = match moved {
            None => Depth::default(),
            Some((number, around, name)) => {
                let from = self.depth(around)?.and(name.len());
                if to.names <= from.names && to.bytes <= from.bytes {
                    return Ok(());
                }
                self.height(number)?
            }
        };
        is_allowed(to.plus(height)).then_some(()).ok_or(Errno::Nametoolong)
    }

    /// Depth of a directory below the topmost directory that the guest may change.
    fn depth(&self, dir: u64) -> Result<Depth, Errno> {
        let (mut depth, mut at) = (Depth::default(), dir);
        loop {
            let inner = self.dir(at)?;
            if at == ROOT || inner.sealed || self.dir(inner.parent)?.sealed {
                return Ok(depth);
            }
            depth = depth.and(inner.name_len.into());
            at = inner.parent;
        }
    }

    /// Height of the tree in a directory.
    fn height(&self, dir: u64) -> Result<Depth, Errno> {
        let mut highest = Depth::default();
        let mut waiting = vec![(dir, Depth::default())];
        while let Some((dir, above)) = waiting.pop() {
            for (_, entry) in self.dir(dir)?.entries(0) {
                let depth = above.and(entry.name.len());
                highest = highest.max(depth);
                if self.dir(entry.number).is_ok() {
                    waiting.push((entry.number, depth));
                }
            }
        }
        Ok(highest)
    }
}

//! How deep names may lie, so that every path can be written down.

use crate::errno::Errno;
use crate::files::{Files, ROOT};

/// How far something lies below something else: names, and bytes with a slash before each.
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
    /// Whether a name may be made in a directory; `moved` is the directory that is to have it, which is in
    /// another under another name now.
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

    /// How far a directory lies below the topmost one that the guest may change.
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

    /// How far what is in a directory lies below it.
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

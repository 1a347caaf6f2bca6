//! Directory listings: `fd_readdir`.

use crate::dir::FIRST_LABEL;
use crate::errno::Errno;
use crate::files::Files;
use crate::node::Node;
use crate::types::Kind;

/// Length of an entry without its name.
const HEAD: usize = 24;

/// Writes entries into a buffer until the buffer is full.
struct Writer<'a> {
    into: &'a mut [u8],
    used: usize,
}

impl Writer<'_> {
    /// Writes as much of an entry as fits. Returns whether there is room for more.
    fn put(&mut self, next: u64, ino: u64, kind: Kind, name: &str) -> bool {
        let mut head = [0; HEAD];
        head[..8].copy_from_slice(&next.to_le_bytes());
        head[8..16].copy_from_slice(&ino.to_le_bytes());
        head[16..20].copy_from_slice(&(name.len() as u32).to_le_bytes());
        head[20] = kind as u8;
        for part in [&head, name.as_bytes()] {
            let count = part.len().min(self.into.len() - self.used);
            self.into[self.used..self.used + count].copy_from_slice(&part[..count]);
            self.used += count;
        }
        self.used < self.into.len()
    }
}

impl Files {
    /// Lists a directory from a cookie, and returns the number of bytes written. Fills the buffer,
    /// truncating the last entry, unless the listing ends. Cookie 0 starts a listing, which ends
    /// where the directory ended at that time; entries removed meanwhile are left out.
    ///
    /// # Errors
    ///
    /// [`Errno::Notdir`] for anything but a directory, [`Errno::Noent`] if it was removed.
    pub fn fd_readdir(&mut self, fd: u32, into: &mut [u8], cookie: u64) -> Result<usize, Errno> {
        let dir = self.dir_of(fd)?;
        if cookie == 0 && dir.is_own() {
            let end = self.dir(dir.number)?.next_label();
            self.descriptors.get_mut(fd)?.offset = end;
        }
        let end = match self.descriptors.get(fd)?.offset {
            // Started in the middle.
            0 => u64::MAX,
            end => end,
        };
        let mut writer = Writer { into, used: 0 };
        if writer.into.is_empty() {
            return Ok(0);
        }
        self.list(dir, cookie, end, &mut writer)?;
        Ok(writer.used)
    }

    fn list(&self, dir: Node, from: u64, end: u64, to: &mut Writer<'_>) -> Result<(), Errno> {
        if dir.is_own() && self.inode(dir.number)?.names == 0 {
            return Err(Errno::Noent);
        }
        let dots = [(".", dir), ("..", self.parent(dir).unwrap_or(dir))];
        for (label, (name, node)) in (0..FIRST_LABEL).zip(dots) {
            let ino = self.stat(node).map_or(0, |stat| stat.ino);
            if label >= from && !to.put(label + 1, ino, Kind::Directory, name) {
                return Ok(());
            }
        }
        let from = from.max(FIRST_LABEL);
        if !dir.is_own() {
            let tree = self.tree(dir)?;
            let entries = (from..u64::MAX)
                .map_while(|at| Some((at, tree.entry(dir.number, at - FIRST_LABEL)?)));
            for (at, (name, number)) in entries {
                let stat = self.stat(Node { number, ..dir })?;
                if !to.put(at + 1, stat.ino, stat.kind, name) {
                    return Ok(());
                }
            }
            return Ok(());
        }
        for (label, entry) in self.dir(dir.number)?.entries(from) {
            if label >= end {
                break;
            }
            let kind = self.inode(entry.number)?.kind();
            if !to.put(label + 1, entry.number, kind, &entry.name) {
                break;
            }
        }
        Ok(())
    }
}

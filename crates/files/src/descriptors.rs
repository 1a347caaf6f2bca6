//! The descriptor table. It is part of the state: an open file is a node and an offset.

use std::sync::Arc;

use crate::errno::Errno;
use crate::node::Node;
use crate::types::FdFlags;

/// A guest's descriptors by number. A clone is a handle.
#[derive(Clone, Debug, Default)]
pub(crate) struct Descriptors {
    all: Arc<Vec<Option<Open>>>,
    /// Number of descriptors that count against the limit.
    pub counted: usize,
}

/// An open file.
#[derive(Clone, Debug)]
pub(crate) struct Open {
    pub target: Target,
    /// Whether it was opened for reading, and for writing.
    pub read: bool,
    pub write: bool,
    pub flags: FdFlags,
    /// Offset in bytes; in a directory, the label at which the current listing ends.
    pub offset: u64,
    /// Whether the host gave it to the guest. Given descriptors do not count.
    pub given: bool,
    /// The name of a preopened directory.
    pub preopen: Option<Arc<str>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    Node(Node),
    /// An object of the caller, by the caller's number.
    Foreign(u64),
}

impl Descriptors {
    pub(crate) fn get(&self, fd: u32) -> Result<&Open, Errno> {
        self.all.get(fd as usize).and_then(Option::as_ref).ok_or(Errno::Badf)
    }

    pub(crate) fn get_mut(&mut self, fd: u32) -> Result<&mut Open, Errno> {
        self.get(fd)?;
        let all = Arc::make_mut(&mut self.all);
        all.get_mut(fd as usize).and_then(Option::as_mut).ok_or(Errno::Badf)
    }

    /// All open descriptors with their numbers.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &Open)> {
        let all = self.all.iter().enumerate();
        all.filter_map(|(fd, open)| Some((u32::try_from(fd).ok()?, open.as_ref()?)))
    }

    /// Whether both tables share their storage.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.all, &other.all)
    }

    /// Adds a descriptor under the lowest free number.
    pub(crate) fn push(&mut self, open: Open) -> Result<u32, Errno> {
        let free = self.all.iter().position(Option::is_none).unwrap_or(self.all.len());
        let fd = u32::try_from(free).map_err(|_| Errno::Mfile)?;
        self.put(fd, open);
        Ok(fd)
    }

    /// Adds a descriptor under a free number.
    pub(crate) fn put(&mut self, fd: u32, open: Open) {
        let all = Arc::make_mut(&mut self.all);
        if all.len() <= fd as usize {
            all.resize(fd as usize + 1, None);
        }
        self.counted += usize::from(!open.given);
        all[fd as usize] = Some(open);
    }

    pub(crate) fn remove(&mut self, fd: u32) -> Result<Open, Errno> {
        self.get(fd)?;
        let all = Arc::make_mut(&mut self.all);
        let open = all.get_mut(fd as usize).and_then(Option::take).ok_or(Errno::Badf)?;
        self.counted -= usize::from(!open.given);
        while all.last().is_some_and(Option::is_none) {
            all.pop();
        }
        Ok(open)
    }
}

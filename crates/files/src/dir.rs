//! Directories: names, found by their hash and listed in the order in which they were made.

use std::sync::Arc;

use crate::map::Map;
use crate::node::Node;

/// A directory. Every entry has a label that it keeps, and that no other gets, so a listing goes on behind
/// a label whatever was made or removed meanwhile.
#[derive(Clone, Debug)]
pub(crate) struct Dir {
    /// The directory that this one is in.
    pub parent: u64,
    /// Bytes of its name there.
    pub name_len: u8,
    /// Labels by the hash of the name.
    hashes: Map<Labels>,
    entries: Map<Entry>,
    next: u64,
    /// How many directories are in it.
    pub dirs: u32,
    /// Whether its names are the host's, which no guest changes.
    pub sealed: bool,
    /// The node mounted on this directory.
    pub covered_by: Option<Node>,
}

/// A name in a directory.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub name: Arc<str>,
    pub number: u64,
}

/// The labels of names with the same hash.
#[derive(Clone, Debug)]
enum Labels {
    One(u64),
    Many(Vec<u64>),
}

/// Labels below are those of `.` and `..`.
pub(crate) const FIRST_LABEL: u64 = 2;

impl Dir {
    pub(crate) fn new(parent: u64, name: &str, sealed: bool) -> Self {
        Self {
            parent,
            name_len: u8::try_from(name.len()).unwrap_or(u8::MAX),
            hashes: Map::default(),
            entries: Map::default(),
            next: FIRST_LABEL,
            dirs: 0,
            sealed,
            covered_by: None,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// The label that the next name gets.
    pub(crate) fn next_label(&self) -> u64 {
        self.next
    }

    /// The entry of a name with this hash, and its label.
    pub(crate) fn find(&self, hash: u64, name: &str) -> Option<(u64, u64)> {
        let at = |label: u64| {
            let entry = self.entries.get(label)?;
            (*entry.name == *name).then_some((label, entry.number))
        };
        match self.hashes.get(hash)? {
            Labels::One(label) => at(*label),
            Labels::Many(labels) => labels.iter().find_map(|label| at(*label)),
        }
    }

    /// Entries from a label on, in order.
    pub(crate) fn entries(&self, from: u64) -> impl Iterator<Item = (u64, &Entry)> {
        self.entries.range(from)
    }

    /// Visits the entries that another does not share.
    pub(crate) fn beyond<'a>(&'a self, other: &'a Self, visit: &mut dyn FnMut(&'a Entry)) {
        self.entries.beyond(&other.entries, &mut |_, entry, theirs| {
            if theirs.is_none_or(|theirs| !Arc::ptr_eq(&theirs.name, &entry.name)) {
                visit(entry);
            }
        });
    }

    /// Adds a name that is not there.
    pub(crate) fn add(&mut self, hash: u64, name: Arc<str>, number: u64) {
        let label = self.next;
        self.next += 1;
        self.put(hash, label, Entry { name, number });
    }

    /// Adds a name under the label of one that was removed.
    pub(crate) fn put(&mut self, hash: u64, label: u64, entry: Entry) {
        match self.hashes.get_mut(hash) {
            None => {
                self.hashes.insert(hash, Labels::One(label));
            }
            Some(labels) => match labels {
                Labels::One(other) => *labels = Labels::Many(vec![*other, label]),
                Labels::Many(all) => all.push(label),
            },
        }
        self.entries.insert(label, entry);
    }

    /// Removes a name by its hash and label.
    pub(crate) fn remove(&mut self, hash: u64, label: u64) {
        let is_last = match self.hashes.get_mut(hash) {
            Some(Labels::Many(labels)) => {
                labels.retain(|other| *other != label);
                labels.is_empty()
            }
            _ => true,
        };
        if is_last {
            self.hashes.remove(hash);
        }
        self.entries.remove(label);
    }

    /// Has a name lead to another node.
    pub(crate) fn replace(&mut self, label: u64, number: u64) {
        if let Some(entry) = self.entries.get_mut(label) {
            entry.number = number;
        }
    }
}

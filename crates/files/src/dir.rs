//! Directories: names, found by hash and listed in order of creation.

use std::collections::HashMap;
use std::sync::Arc;

use crate::map::Map;
use crate::node::Node;

/// A directory. Every entry has a label that is never reused, so a listing can continue after a
/// label whatever was added or removed meanwhile.
#[derive(Clone, Debug)]
pub(crate) struct Dir {
    /// The parent directory.
    pub parent: u64,
    /// Length of its name in the parent.
    pub name_len: u8,
    /// Labels by the hash of the name.
    hashes: Map<Labels>,
    entries: Map<Entry>,
    next: u64,
    /// Number of subdirectories.
    pub dirs: u32,
    /// Whether the names belong to the host, so that no guest can change them.
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

/// Labels of the names that share a hash.
#[derive(Clone, Debug)]
enum Labels {
    One(u64),
    Many(Vec<u64>),
}

/// Smaller labels are those of `.` and `..`.
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

    /// The label for the next name.
    pub(crate) fn next_label(&self) -> u64 {
        self.next
    }

    /// Whether the labels are those of names that were added in a row, none of which was removed.
    pub(crate) fn has_first_labels(&self) -> bool {
        self.next - FIRST_LABEL == self.len() as u64
    }

    /// Gives the entries other labels, in their order, and the next name `next`.
    pub(crate) fn relabel(&mut self, labels: &[u64], next: u64) {
        let mut entries = Map::default();
        let mut renamed: HashMap<u64, u64> = HashMap::new();
        for ((before, entry), label) in self.entries.iter().zip(labels) {
            entries.insert(*label, entry.clone());
            renamed.insert(before, *label);
        }
        let mut hashes = self.hashes.clone();
        for (hash, _) in self.hashes.iter() {
            match hashes.get_mut(hash) {
                Some(Labels::One(label)) => relabel(label, &renamed),
                Some(Labels::Many(all)) => all.iter_mut().for_each(|one| relabel(one, &renamed)),
                None => {}
            }
        }
        (self.entries, self.hashes, self.next) = (entries, hashes, next);
    }

    /// Finds the entry of a name with this hash, and its label.
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

    /// Entries from a label onwards, in order.
    pub(crate) fn entries(&self, from: u64) -> impl Iterator<Item = (u64, &Entry)> {
        self.entries.range(from)
    }

    /// Visits the entries that `other` does not share.
    pub(crate) fn beyond<'a>(&'a self, other: &'a Self, visit: &mut dyn FnMut(&'a Entry)) {
        self.entries.beyond(&other.entries, &mut |_, entry, theirs| {
            if theirs.is_none_or(|theirs| !Arc::ptr_eq(&theirs.name, &entry.name)) {
                visit(entry);
            }
        });
    }

    /// Adds a name that does not exist yet.
    pub(crate) fn add(&mut self, hash: u64, name: Arc<str>, number: u64) {
        let label = self.next;
        self.next += 1;
        self.put(hash, label, Entry { name, number });
    }

    /// Adds a name under the label of a removed one.
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

    /// Points a name to another node.
    pub(crate) fn replace(&mut self, label: u64, number: u64) {
        if let Some(entry) = self.entries.get_mut(label) {
            entry.number = number;
        }
    }
}

fn relabel(label: &mut u64, renamed: &HashMap<u64, u64>) {
    if let Some(other) = renamed.get(label) {
        *label = *other;
    }
}

//! A persistent ordered map with integer keys, which all other structures are built on.
//!
//! A radix tree with 32 children per node and no chains of single children, so dense keys (inode
//! numbers, blocks of a file) and hashes both take few steps. A clone is a handle. A change copies
//! the shared nodes on the path, and updates unshared ones in place.

use std::sync::{Arc, Weak};

const BITS: u32 = 5;
const MASK: u64 = (1 << BITS) - 1;
/// Maximum number of levels.
const LEVELS: usize = 13;

/// A persistent map with integer keys, in order.
#[derive(Clone, Debug)]
pub(crate) struct Map<V> {
    root: Option<Arc<Node<V>>>,
    len: usize,
}

/// A subtree: its keys share all bits above `shift + BITS` with `base`, whose lower bits are zero.
#[derive(Clone, Debug)]
struct Node<V> {
    base: u64,
    shift: u32,
    /// Bit set of the slots in use.
    taken: u32,
    slots: Slots<V>,
}

#[derive(Clone, Debug)]
enum Slots<V> {
    /// At shift 0.
    Values(Vec<V>),
    Nodes(Vec<Arc<Node<V>>>),
}

fn base_of(key: u64, shift: u32) -> u64 {
    let above = shift + BITS;
    if above >= u64::BITS {
        0
    } else {
        key >> above << above
    }
}

impl<V> Node<V> {
    fn holds(&self, key: u64) -> bool {
        base_of(key, self.shift) == self.base
    }

    fn bit(&self, key: u64) -> u32 {
        1 << ((key >> self.shift) & MASK)
    }

    /// Index of this bit's slot among those in use.
    fn position(&self, bit: u32) -> usize {
        (self.taken & (bit - 1)).count_ones() as usize
    }

    fn leaf(key: u64, value: V) -> Self {
        Self {
            base: base_of(key, 0),
            shift: 0,
            taken: 1 << (key & MASK),
            slots: Slots::Values(vec![value]),
        }
    }
}

impl<V> Default for Map<V> {
    fn default() -> Self {
        Self { root: None, len: 0 }
    }
}

impl<V> Map<V> {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(crate) fn get(&self, key: u64) -> Option<&V> {
        let mut node = self.root.as_ref()?;
        loop {
            let bit = node.bit(key);
            if !node.holds(key) || node.taken & bit == 0 {
                return None;
            }
            let position = node.position(bit);
            match &node.slots {
                Slots::Values(values) => return values.get(position),
                Slots::Nodes(nodes) => node = nodes.get(position)?,
            }
        }
    }

    /// Entries from a key onwards, in order.
    pub(crate) fn range(&self, from: u64) -> Range<'_, V> {
        Range {
            from,
            stack: self.root.iter().map(|root| (&**root, 0)).collect(),
        }
    }

    /// All entries, in order.
    pub(crate) fn iter(&self) -> Range<'_, V> {
        self.range(0)
    }

    /// The last entry.
    pub(crate) fn last(&self) -> Option<(u64, &V)> {
        let mut node = self.root.as_ref()?;
        loop {
            match &node.slots {
                Slots::Values(values) => {
                    let slot = u64::from(node.taken.checked_ilog2()?);
                    return values.last().map(|value| (node.base | slot, value));
                }
                Slots::Nodes(nodes) => node = nodes.last()?,
            }
        }
    }

    /// The address of the tree; 0 if it is empty.
    pub(crate) fn id(&self) -> usize {
        self.root.as_ref().map_or(0, |root| Arc::as_ptr(root).addr())
    }

    pub(crate) fn downgrade(&self) -> WeakMap<V> {
        WeakMap {
            root: self.root.as_ref().map(Arc::downgrade),
            len: self.len,
        }
    }

    /// Whether both are the same tree. Equal maps may be different trees.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        match (&self.root, &other.root) {
            (None, None) => true,
            (Some(own), Some(theirs)) => Arc::ptr_eq(own, theirs),
            _ => false,
        }
    }

    /// Visits the entries in nodes that `other` does not share, each with its value in `other`.
    pub(crate) fn beyond<'a>(
        &'a self,
        other: &'a Self,
        visit: &mut dyn FnMut(u64, &'a V, Option<&'a V>),
    ) {
        if let Some(root) = &self.root {
            beyond(root, other.root.as_ref(), other, visit);
        }
    }
}

/// A weak handle to a map.
#[derive(Clone, Debug)]
pub(crate) struct WeakMap<V> {
    root: Option<Weak<Node<V>>>,
    len: usize,
}

impl<V> WeakMap<V> {
    pub(crate) fn upgrade(&self) -> Option<Map<V>> {
        let root = match &self.root {
            Some(root) => Some(root.upgrade()?),
            None => None,
        };
        Some(Map {
            root,
            len: self.len,
        })
    }
}

fn beyond<'a, V>(
    own: &'a Arc<Node<V>>,
    theirs: Option<&'a Arc<Node<V>>>,
    other: &'a Map<V>,
    visit: &mut dyn FnMut(u64, &'a V, Option<&'a V>),
) {
    let theirs = counterpart(theirs, own.base, own.shift);
    if theirs.is_some_and(|theirs| Arc::ptr_eq(own, theirs)) {
        return;
    }
    match &own.slots {
        Slots::Values(values) => {
            let slots = (0..32u64).filter(|slot| own.taken & (1 << slot) != 0);
            for (slot, value) in slots.zip(values) {
                let key = own.base | slot;
                visit(key, value, other.get(key));
            }
        }
        Slots::Nodes(nodes) => {
            for node in nodes {
                beyond(node, theirs, other, visit);
            }
        }
    }
}

/// The topmost node at or below `node` that covers only keys of a node with this base and shift.
fn counterpart<V>(mut node: Option<&Arc<Node<V>>>, base: u64, shift: u32) -> Option<&Arc<Node<V>>> {
    while let Some(found) = node {
        if found.shift <= shift {
            return (base_of(found.base, shift) == base).then_some(found);
        }
        let bit = found.bit(base);
        if !found.holds(base) || found.taken & bit == 0 {
            return None;
        }
        node = match &found.slots {
            Slots::Values(_) => None,
            Slots::Nodes(nodes) => nodes.get(found.position(bit)),
        };
    }
    None
}

impl<V: Clone> Map<V> {
    pub(crate) fn get_mut(&mut self, key: u64) -> Option<&mut V> {
        // Copies nothing if the key does not exist.
        self.get(key)?;
        let mut node = Arc::make_mut(self.root.as_mut()?);
        loop {
            let position = node.position(node.bit(key));
            match &mut node.slots {
                Slots::Values(values) => return values.get_mut(position),
                Slots::Nodes(nodes) => node = Arc::make_mut(nodes.get_mut(position)?),
            }
        }
    }

    pub(crate) fn insert(&mut self, key: u64, value: V) -> Option<V> {
        let before = match &mut self.root {
            None => {
                self.root = Some(Arc::new(Node::leaf(key, value)));
                None
            }
            Some(root) => insert(root, key, value),
        };
        self.len += usize::from(before.is_none());
        before
    }

    pub(crate) fn remove(&mut self, key: u64) -> Option<V> {
        self.get(key)?;
        let root = self.root.as_mut()?;
        let (removed, is_empty) = remove(root, key);
        if is_empty {
            self.root = None;
        }
        self.len -= usize::from(removed.is_some());
        removed
    }

    /// Removes all entries from a key onwards.
    pub(crate) fn truncate(&mut self, from: u64) {
        while let Some((key, _)) = self.last().filter(|(key, _)| *key >= from) {
            self.remove(key);
        }
    }
}

fn insert<V: Clone>(link: &mut Arc<Node<V>>, key: u64, value: V) -> Option<V> {
    if !link.holds(key) {
        // The lowest level at which both fit into one node.
        let differing = (link.base ^ key).checked_ilog2().unwrap_or_default();
        let shift = differing / BITS * BITS;
        let other = Arc::clone(link);
        let leaf = Arc::new(Node::leaf(key, value));
        let mut parent = Node {
            base: base_of(key, shift),
            shift,
            taken: 0,
            slots: Slots::Nodes(Vec::new()),
        };
        let (other_bit, own_bit) = (parent.bit(other.base), parent.bit(key));
        parent.taken = other_bit | own_bit;
        let mut nodes = vec![other, leaf];
        if own_bit < other_bit {
            nodes.reverse();
        }
        parent.slots = Slots::Nodes(nodes);
        *link = Arc::new(parent);
        return None;
    }
    let node = Arc::make_mut(link);
    let bit = node.bit(key);
    let position = node.position(bit);
    let is_taken = node.taken & bit != 0;
    node.taken |= bit;
    match &mut node.slots {
        Slots::Values(values) if is_taken => {
            Some(std::mem::replace(values.get_mut(position)?, value))
        }
        Slots::Values(values) => {
            values.insert(position, value);
            None
        }
        Slots::Nodes(nodes) if is_taken => insert(nodes.get_mut(position)?, key, value),
        Slots::Nodes(nodes) => {
            nodes.insert(position, Arc::new(Node::leaf(key, value)));
            None
        }
    }
}

/// Removes an existing key. Returns whether the subtree is now empty.
fn remove<V: Clone>(link: &mut Arc<Node<V>>, key: u64) -> (Option<V>, bool) {
    let node = Arc::make_mut(link);
    let bit = node.bit(key);
    let position = node.position(bit);
    let (removed, is_empty) = match &mut node.slots {
        Slots::Values(values) => (Some(values.remove(position)), true),
        Slots::Nodes(nodes) => match nodes.get_mut(position) {
            Some(below) => {
                let (removed, is_empty) = remove(below, key);
                if is_empty {
                    nodes.remove(position);
                }
                (removed, is_empty)
            }
            None => (None, false),
        },
    };
    if is_empty {
        node.taken &= !bit;
    }
    // An only child replaces its parent, so that no chains remain.
    if let Slots::Nodes(nodes) = &mut node.slots
        && nodes.len() == 1
        && let Some(only) = nodes.pop()
    {
        *link = only;
        return (removed, false);
    }
    let is_gone = link.taken == 0;
    (removed, is_gone)
}

/// Entries of a map in order.
#[derive(Debug)]
pub(crate) struct Range<'a, V> {
    from: u64,
    /// Nodes, each with its first unvisited slot.
    stack: Vec<(&'a Node<V>, u32)>,
}

impl<'a, V> Iterator for Range<'a, V> {
    type Item = (u64, &'a V);

    fn next(&mut self) -> Option<Self::Item> {
        debug_assert!(self.stack.len() <= LEVELS);
        while let Some((node, slot)) = self.stack.last_mut() {
            let node = *node;
            let mut first = *slot;
            if self.from > node.base {
                if node.holds(self.from) {
                    first = first.max(((self.from >> node.shift) & MASK) as u32);
                } else {
                    // The whole node is before the start.
                    first = 32;
                }
            }
            let rest = if first < 32 {
                node.taken >> first << first
            } else {
                0
            };
            if rest == 0 {
                self.stack.pop();
                continue;
            }
            let found = rest.trailing_zeros();
            *slot = found + 1;
            let position = node.position(1 << found);
            match &node.slots {
                Slots::Values(values) => {
                    return values.get(position).map(|value| (node.base | u64::from(found), value));
                }
                Slots::Nodes(nodes) => {
                    if let Some(below) = nodes.get(position) {
                        self.stack.push((below, 0));
                    }
                }
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Debug)]
    enum Step {
        Insert(u64, u32),
        Remove(u64),
        Change(u64, u32),
        Truncate(u64),
        Snapshot,
        Restore,
    }

    fn key() -> impl Strategy<Value = u64> {
        prop_oneof![
            0..80u64,
            any::<u64>(),
            (0..40u64).prop_map(|n| n << 20),
            u64::MAX - 40..=u64::MAX
        ]
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            8 => (key(), any::<u32>()).prop_map(|(k, v)| Step::Insert(k, v)),
            4 => key().prop_map(Step::Remove),
            2 => (key(), any::<u32>()).prop_map(|(k, v)| Step::Change(k, v)),
            1 => key().prop_map(Step::Truncate),
            1 => Just(Step::Snapshot),
            1 => Just(Step::Restore),
        ]
    }

    proptest! {
        #[test]
        fn it_is_a_sorted_map(steps in prop::collection::vec(step(), 0..200), from in key()) {
            let (mut map, mut model) = (Map::default(), BTreeMap::new());
            let mut kept = (map.clone(), model.clone());
            for step in steps {
                match step {
                    Step::Insert(k, v) => prop_assert_eq!(map.insert(k, v), model.insert(k, v)),
                    Step::Remove(k) => prop_assert_eq!(map.remove(k), model.remove(&k)),
                    Step::Change(k, v) => {
                        let (own, theirs) = (map.get_mut(k), model.get_mut(&k));
                        prop_assert_eq!(&own, &theirs);
                        if let (Some(own), Some(theirs)) = (own, theirs) {
                            (*own, *theirs) = (v, v);
                        }
                    }
                    Step::Truncate(k) => {
                        map.truncate(k);
                        model.split_off(&k);
                    }
                    Step::Snapshot => kept = (map.clone(), model.clone()),
                    Step::Restore => (map, model) = kept.clone(),
                }
                prop_assert_eq!(map.len(), model.len());
                prop_assert_eq!(map.last().map(|(k, v)| (k, *v)), model.last_key_value().map(|(k, v)| (*k, *v)));
            }
            let all = |map: &Map<u32>| map.iter().map(|(k, v)| (k, *v)).collect::<Vec<_>>();
            prop_assert_eq!(all(&map), model.clone().into_iter().collect::<Vec<_>>());
            prop_assert_eq!(all(&kept.0), kept.1.clone().into_iter().collect::<Vec<_>>());
            let tail: Vec<_> = map.range(from).map(|(k, v)| (k, *v)).collect();
            prop_assert_eq!(tail, model.range(from..).map(|(k, v)| (*k, *v)).collect::<Vec<_>>());
            for (key, value) in &model {
                prop_assert_eq!(map.get(*key), Some(value));
            }
            // All differences are visited.
            let mut seen = BTreeMap::new();
            map.beyond(&kept.0, &mut |k, v, other| { seen.insert(k, (*v, other.copied())); });
            for (key, value) in &model {
                let other = kept.1.get(key).copied();
                let found = seen.get(key).copied().unwrap_or((*value, Some(*value)));
                prop_assert_eq!(found, (*value, other));
            }
        }
    }

    #[test]
    fn a_clone_shares_all_that_is_not_changed() {
        let mut map: Map<u64> = Map::default();
        for key in 0..100_000 {
            map.insert(key, key);
        }
        let before = map.clone();
        *map.get_mut(50_000).unwrap() = 0;
        let mut visited = 0;
        map.beyond(&before, &mut |_, _, _| visited += 1);
        assert_eq!(visited, 32);
    }
}

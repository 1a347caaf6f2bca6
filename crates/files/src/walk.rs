//! Walking a directory tree, for the host to list, copy and compare.

use std::collections::{HashMap, HashSet};

use crate::dir::Entry;
use crate::files::{Files, MAX_PATH};
use crate::node::Node;
use crate::types::Kind;

/// A node found by a walk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Its path relative to the start of the walk.
    pub path: String,
    /// The node.
    pub node: Node,
    /// The type of the file.
    pub kind: Kind,
}

/// Walks a directory of the tree, parents before their contents, in listing order.
///
/// Does not follow links or enter mounted trees. Uses no recursion. Nodes with paths of more than
/// 4,095 bytes, which a guest can create step by step, are skipped and counted.
pub struct Walk<'a> {
    files: &'a Files,
    path: String,
    /// Current directories: the length of their paths, and their remaining entries.
    stack: Vec<(usize, Entries<'a>)>,
    skipped: u64,
}

/// One step of a walk.
struct Step {
    /// Number of directories on the path, the top included.
    depth: usize,
    /// Where the name begins in the path.
    name: usize,
    node: Node,
    kind: Kind,
}

type Entries<'a> = Box<dyn Iterator<Item = (u64, &'a Entry)> + 'a>;

impl std::fmt::Debug for Walk<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Walk").field("path", &self.path).finish_non_exhaustive()
    }
}

impl Files {
    /// Walks everything in a directory.
    #[must_use]
    pub fn walk(&self, top: Node) -> Walk<'_> {
        let mut walk = Walk {
            files: self,
            path: String::new(),
            stack: Vec::new(),
            skipped: 0,
        };
        walk.enter(top);
        walk
    }

    /// Regular files and links below a directory that are new or changed since `before`. Names are
    /// compared only in directories that changed, and files only if their nodes did.
    #[must_use]
    pub fn changes(&self, before: &Self, top: Node) -> Vec<Found> {
        let mut touched = HashSet::new();
        self.nodes.beyond(&before.nodes, &mut |number, _, _| {
            touched.insert(number);
        });
        let mut changes = Vec::new();
        if touched.is_empty() {
            return changes;
        }
        // The directories on the path, each with the node that had its path before.
        let mut around = vec![(top, Some(top))];
        let mut walk = self.walk(top);
        while let Some(Step {
            depth,
            name,
            node,
            kind,
        }) = walk.step()
        {
            around.truncate(depth);
            let was = match around.last() {
                Some((dir, Some(was))) if dir == was && !touched.contains(&dir.number) => {
                    Some(node)
                }
                Some((_, Some(was))) => {
                    let found = before.child(*was, &walk.path[name..]);
                    found.ok().flatten().map(|(was, _)| was)
                }
                _ => None,
            };
            if kind == Kind::Directory {
                around.push((node, was));
            } else if was != Some(node)
                || touched.contains(&node.number) && !self.is_unchanged(before, node)
            {
                let path = walk.path.clone();
                changes.push(Found { path, node, kind });
            }
        }
        changes
    }

    /// The paths of nodes, found in a single walk. Leaves out nodes without a name and those whose
    /// paths are too long.
    #[must_use]
    pub fn paths_of(&self, nodes: impl IntoIterator<Item = Node>) -> HashMap<Node, String> {
        let is_named = |node: &Node| {
            node.is_own() && self.inode(node.number).is_ok_and(|inode| inode.names > 0)
        };
        let mut wanted = HashSet::new();
        let mut paths = HashMap::new();
        for node in nodes {
            if is_named(&node) {
                wanted.insert(node);
            } else if let Some(path) = self.attached_path(node) {
                paths.insert(node, path);
            }
        }
        if wanted.remove(&self.root()) {
            paths.insert(self.root(), "/".into());
        }
        let mut walk = self.walk(self.root());
        while !wanted.is_empty()
            && let Some(Found { path, node, .. }) = walk.next()
        {
            if wanted.remove(&node) {
                paths.insert(node, format!("/{path}"));
            }
        }
        paths
    }
}

impl Walk<'_> {
    /// Number of nodes skipped because their paths are too long, not counting their contents.
    #[must_use]
    pub fn skipped(&self) -> u64 {
        self.skipped
    }

    /// Finds the next node, whose path is then in `path`.
    fn step(&mut self) -> Option<Step> {
        loop {
            let depth = self.stack.len();
            let (length, entries) = self.stack.last_mut()?;
            self.path.truncate(*length);
            let Some((_, entry)) = entries.next() else {
                self.stack.pop();
                continue;
            };
            if *length + 1 + entry.name.len() > MAX_PATH {
                self.skipped += 1;
                continue;
            }
            if *length > 0 {
                self.path.push('/');
            }
            let name = self.path.len();
            self.path.push_str(&entry.name);
            let node = Node::own(entry.number);
            let Ok(kind) = self.files.kind(node) else {
                continue;
            };
            self.enter(node);
            return Some(Step {
                depth,
                name,
                node,
                kind,
            });
        }
    }

    fn enter(&mut self, node: Node) {
        if node.is_own()
            && let Ok(dir) = self.files.dir(node.number)
            && dir.covered_by.is_none()
        {
            self.stack.push((self.path.len(), Box::new(dir.entries(0))));
        }
    }
}

impl Iterator for Walk<'_> {
    type Item = Found;

    fn next(&mut self) -> Option<Found> {
        let Step { node, kind, .. } = self.step()?;
        let path = self.path.clone();
        Some(Found { path, node, kind })
    }
}

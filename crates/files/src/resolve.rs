//! Path resolution: the only place that walks paths.

use crate::dir::Dir;
use crate::errno::Errno;
use crate::files::{Files, MAX_NAME, MAX_PATH, ROOT};
use crate::node::{Body, Node};
use crate::types::Kind;

/// Maximum number of links followed while resolving a path.
pub const MAX_LINKS: usize = 40;

/// How a link at the end of a path is treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Last {
    /// Follow it.
    Follow,
    /// Return the link itself, unless a slash follows, which asks for a directory.
    Keep,
    /// Return the link itself: the name is about to be created, moved or removed.
    Name,
    /// A file is about to be created. The name of a file cannot be followed by a slash.
    Make { follow: bool },
}

/// The result of resolving a path.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place<'a> {
    /// The directory of the last name. If the path ends with `.`, `..` or the root, that directory.
    pub dir: Node,
    /// The last name.
    pub name: Name<'a>,
    /// The node with that name.
    pub node: Option<Node>,
    /// The label of the name, in a directory of the tree.
    pub label: u64,
    /// Whether a slash follows the name.
    pub slash: bool,
}

/// The last component of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Name<'a> {
    Normal(&'a str),
    Dot,
    DotDot,
    Root,
}

/// Why resolution stopped before the end of the path.
#[derive(Debug)]
pub(crate) enum Stop {
    Errno(Errno),
    /// The path leads into a portal: the caller's number, and the rest of the path.
    Portal(u64, String),
}

impl From<Errno> for Stop {
    fn from(errno: Errno) -> Self {
        Self::Errno(errno)
    }
}

impl From<Stop> for Errno {
    fn from(stop: Stop) -> Self {
        match stop {
            Stop::Errno(errno) => errno,
            // The caller handles portals first.
            Stop::Portal(..) => Self::Perm,
        }
    }
}

impl Place<'_> {
    /// The node, which must exist.
    pub(crate) fn found(&self) -> Result<Node, Errno> {
        self.check_length()?;
        self.node.ok_or(Errno::Noent)
    }

    /// Checks the length of the last name. With two paths, both directories are resolved first.
    pub(crate) fn check_length(&self) -> Result<(), Errno> {
        match self.name {
            Name::Normal(name) if name.len() > MAX_NAME => Err(Errno::Nametoolong),
            _ => Ok(()),
        }
    }
}

/// Checks that a path is valid.
pub(crate) fn check_path(path: &str) -> Result<(), Errno> {
    match path {
        "" => Err(Errno::Noent),
        _ if path.len() > MAX_PATH => Err(Errno::Nametoolong),
        _ if path.as_bytes().contains(&0) => Err(Errno::Inval),
        _ => Ok(()),
    }
}

/// The rest of a path: link targets first, then the names after the links.
struct Rest<'a> {
    text: &'a str,
    behind: Vec<&'a str>,
}

impl<'a> Rest<'a> {
    /// The next component, without slashes.
    fn next(&mut self) -> Option<&'a str> {
        loop {
            self.text = self.text.trim_start_matches('/');
            if !self.text.is_empty() {
                let end = self.text.find('/').unwrap_or(self.text.len());
                let (part, text) = self.text.split_at(end);
                self.text = text;
                return Some(part);
            }
            self.text = self.behind.pop()?;
        }
    }

    /// Whether only slashes follow.
    fn is_over(&self) -> bool {
        let is_empty = |text: &str| text.bytes().all(|byte| byte == b'/');
        is_empty(self.text) && self.behind.iter().all(|text| is_empty(text))
    }

    fn has_slash(&self) -> bool {
        !self.text.is_empty() || !self.behind.is_empty()
    }

    fn follow(&mut self, target: &'a str) {
        if !self.text.is_empty() {
            self.behind.push(self.text);
        }
        self.text = target;
    }

    fn into_string(self) -> String {
        let behind = self.behind.into_iter().rev();
        let all: Vec<&str> = std::iter::once(self.text).chain(behind).collect();
        all.concat().trim_start_matches('/').to_owned()
    }
}

impl Files {
    /// Resolves a path relative to a directory.
    pub(crate) fn resolve<'a>(
        &'a self,
        start: Node,
        path: &'a str,
        last: Last,
    ) -> Result<Place<'a>, Stop> {
        check_path(path)?;
        let mut rest = Rest {
            text: path,
            behind: Vec::new(),
        };
        let root = Node::own(ROOT);
        let mut dir = if path.starts_with('/') { root } else { start };
        let mut ending = Name::Root;
        let mut links = 0;
        while let Some(part) = rest.next() {
            match part {
                "." => {
                    ending = Name::Dot;
                    continue;
                }
                ".." => {
                    ending = Name::DotDot;
                    dir = self.parent(dir)?;
                    continue;
                }
                _ => {}
            }
            let is_over = rest.is_over();
            let slash = rest.has_slash();
            if is_over && slash && matches!(last, Last::Make { .. }) {
                return Err(Errno::Isdir.into());
            }
            let found = match self.child(dir, part) {
                Err(Errno::Nametoolong) if is_over && last == Last::Name => None,
                found => found?,
            };
            let Some((node, label)) = found else {
                if is_over {
                    return Ok(Place {
                        dir,
                        name: Name::Normal(part),
                        node: None,
                        label: 0,
                        slash,
                    });
                }
                return Err(Errno::Noent.into());
            };
            let follows = match last {
                _ if !is_over => true,
                Last::Follow => true,
                Last::Keep => slash,
                Last::Name => false,
                Last::Make { follow } => follow,
            };
            if follows && let Some(target) = self.target(node) {
                links += 1;
                if links > MAX_LINKS {
                    return Err(Errno::Loop.into());
                }
                rest.follow(target);
                if target.starts_with('/') {
                    dir = root;
                }
                ending = Name::Root;
                continue;
            }
            if (!is_over || last != Last::Name)
                && let Some(number) = self.portal_number(node)
            {
                return Err(Stop::Portal(number, rest.into_string()));
            }
            let is_dir = self.kind(node)? == Kind::Directory;
            if is_over {
                if slash && last != Last::Name && !is_dir {
                    return Err(Errno::Notdir.into());
                }
                return Ok(Place {
                    dir,
                    name: Name::Normal(part),
                    node: Some(node),
                    label,
                    slash,
                });
            }
            if !is_dir {
                return Err(Errno::Notdir.into());
            }
            dir = node;
        }
        // A removed directory stays while it is open, but has no name.
        if dir.is_own() {
            self.dir(dir.number)?;
        }
        Ok(Place {
            dir,
            name: ending,
            node: Some(dir),
            label: 0,
            slash: false,
        })
    }

    /// Finds a name in a directory. Returns its node and label.
    pub(crate) fn child(&self, dir: Node, name: &str) -> Result<Option<(Node, u64)>, Errno> {
        if name.len() > MAX_NAME {
            return Err(Errno::Nametoolong);
        }
        if !dir.is_own() {
            let found = self.tree(dir)?.lookup(dir.number, name);
            return Ok(found.map(|number| (Node { number, ..dir }, 0)));
        }
        let names = self.dir(dir.number)?;
        let found = names.find(self.pool.hash_name(name), name);
        Ok(found.map(|(label, number)| (self.uncover(Node::own(number)), label)))
    }

    /// The node mounted on a node, otherwise the node itself.
    fn uncover(&self, node: Node) -> Node {
        let covered = self.dir(node.number).ok().and_then(|dir| dir.covered_by);
        covered.unwrap_or(node)
    }

    /// Checks that a place does not belong to the host: no guest can move or remove those.
    pub(crate) fn check_movable(&self, place: &Place<'_>) -> Result<(), Errno> {
        let entry = if place.dir.is_own() {
            self.entry(place.dir.number, place.label)
        } else {
            None
        };
        let Some(number) = entry.map(|entry| entry.number) else {
            return Ok(());
        };
        let is_covered = place.node != Some(Node::own(number));
        if is_covered || self.portal_number(Node::own(number)).is_some() {
            return Err(Errno::Busy);
        }
        Ok(())
    }

    /// The parent of a directory.
    pub(crate) fn parent(&self, dir: Node) -> Result<Node, Errno> {
        if dir.is_own() {
            return self.dir(dir.number).map(|dir| Node::own(dir.parent));
        }
        if dir.number == 0 {
            let around = self.attached.get(dir.tree as usize - 1).ok_or(Errno::Noent)?.around;
            return Ok(Node::own(around));
        }
        let number = self.tree(dir)?.parent(dir.number);
        Ok(Node { number, ..dir })
    }

    /// The target of a symbolic link.
    #[must_use]
    pub fn target(&self, node: Node) -> Option<&str> {
        match &self.nodes.get(node.number).filter(|_| node.is_own())?.body {
            Body::Link(target) => Some(target),
            _ => None,
        }
    }

    fn portal_number(&self, node: Node) -> Option<u64> {
        match &self.nodes.get(node.number).filter(|_| node.is_own())?.body {
            Body::Portal(number) => Some(*number),
            _ => None,
        }
    }

    /// Whether a directory is another one or lies in it.
    pub(crate) fn is_inside(&self, inner: u64, outer: u64) -> bool {
        let mut at = inner;
        loop {
            if at == outer {
                return true;
            }
            match self.dir(at).map(|dir: &Dir| dir.parent) {
                Ok(parent) if parent != at => at = parent,
                _ => return false,
            }
        }
    }
}

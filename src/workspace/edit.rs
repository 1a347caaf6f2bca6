//! Looking at contents that are kept, and changing them, by path: no directory of the host is touched,
//! and no link is followed, so that nothing outside can be reached.

use std::fmt;
use std::io::{self, Read, Seek, SeekFrom};

use super::contents::{Bytes, WORKSPACE};
use super::{Contents, Node, StoredFile};
use crate::limits::{MAX_PATH_BYTES, MAX_PATH_NAMES};

/// Why something cannot be done with a path of a session's workspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PathProblem {
    /// There is nothing of that name.
    NotFound,
    /// There is something of that name.
    Exists,
    /// It is a directory.
    IsDirectory,
    /// It, or what it lies in, is no directory.
    NotDirectory,
    /// It, or what it lies in, is a symbolic link; none is followed.
    IsLink,
    /// It is the workspace itself.
    IsRoot,
    /// A directory cannot be moved into itself.
    Inside,
    /// The path is none that a workspace can have.
    Invalid(&'static str),
    /// More names or bytes of names than a path may have.
    TooDeep,
    /// The files would take more bytes than the session may have.
    TooManyBytes,
    /// There would be more files and directories than the session may have.
    TooManyFiles,
}

impl fmt::Display for PathProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotFound => "there is no such file or directory",
            Self::Exists => "there is something of that name",
            Self::IsDirectory => "it is a directory",
            Self::NotDirectory => "it is not in a directory",
            Self::IsLink => "it is a symbolic link, and none is followed",
            Self::IsRoot => "it is the workspace itself",
            Self::Inside => "a directory cannot be moved into itself",
            Self::Invalid(why) => return write!(f, "the path {why}"),
            Self::TooDeep => "the path has too many names or bytes",
            Self::TooManyBytes => "the session's files would take more bytes than they may",
            Self::TooManyFiles => "the session would have more files than it may",
        })
    }
}

/// What became of a name, by its whole path here: its new one, or none.
#[derive(Debug)]
pub(crate) struct Moved {
    from: String,
    to: Option<String>,
}

impl Moved {
    /// Where something is now that was at `key`.
    pub(crate) fn find(&self, key: &str) -> Option<String> {
        let below = key.strip_prefix(self.from.as_str());
        match below.filter(|rest| rest.is_empty() || rest.starts_with('/')) {
            None => Some(key.to_owned()),
            Some(rest) => self.to.as_ref().map(|to| format!("{to}{rest}")),
        }
    }
}

impl Contents {
    /// What has this path in the workspace. That of the workspace itself is empty.
    pub(crate) fn look(&self, path: &str) -> Result<&Node, PathProblem> {
        if path.is_empty() {
            return Ok(&Node::Directory);
        }
        self.parents(path)?;
        self.0.get(&key(path)).ok_or(PathProblem::NotFound)
    }

    /// What lies in a directory of the workspace, down to so many names below it, by path.
    pub(crate) fn below(
        &self,
        dir: &str,
        depth: usize,
    ) -> Result<impl Iterator<Item = (&str, &Node)>, PathProblem> {
        match self.look(dir)? {
            Node::Directory => {}
            Node::Link(_) => return Err(PathProblem::IsLink),
            Node::File(_) => return Err(PathProblem::NotDirectory),
        }
        let prefix = format!("{}/", key(dir));
        let start = prefix.clone();
        Ok(self
            .0
            .range(start..)
            .map_while(move |(key, node)| {
                let inside = key.strip_prefix(&prefix)?;
                Some((inside.split('/').count(), &key[WORKSPACE.len() + 1..], node))
            })
            .filter(move |(names, ..)| *names <= depth)
            .map(|(_, path, node)| (path, node)))
    }

    /// Puts a file there, in the place of one that has the path; its directories are made if missing.
    pub(crate) fn put(&mut self, path: &str, file: StoredFile) -> Result<(), PathProblem> {
        self.make_parents(path)?;
        match self.0.get(&key(path)) {
            Some(Node::Directory) => return Err(PathProblem::IsDirectory),
            Some(Node::Link(_)) => return Err(PathProblem::IsLink),
            Some(Node::File(_)) | None => {}
        }
        self.0.insert(key(path), Node::File(file));
        Ok(())
    }

    /// Makes a directory, and those that it lies in; one that is there is left as it is.
    pub(crate) fn make_directory(&mut self, path: &str) -> Result<(), PathProblem> {
        self.make_parents(path)?;
        match self.0.get(&key(path)) {
            Some(Node::Directory) => Ok(()),
            Some(Node::Link(_)) => Err(PathProblem::IsLink),
            Some(Node::File(_)) => Err(PathProblem::Exists),
            None => {
                self.0.insert(key(path), Node::Directory);
                Ok(())
            }
        }
    }

    /// Gives something another path, in the place of a file or link that has it.
    pub(crate) fn rename(&mut self, from: &str, to: &str) -> Result<Moved, PathProblem> {
        if from.is_empty() {
            return Err(PathProblem::IsRoot);
        }
        let node = self.look(from)?.clone();
        if self.parents(to)?.is_some() {
            return Err(PathProblem::NotFound);
        }
        check(to)?;
        let (old, new) = (key(from), key(to));
        let moved = Moved {
            from: old.clone(),
            to: Some(new.clone()),
        };
        if old == new {
            return Ok(moved);
        }
        if new.starts_with(&format!("{old}/")) {
            return Err(PathProblem::Inside);
        }
        match (self.0.get(&new), &node) {
            (Some(Node::Directory), _) | (Some(_), Node::Directory) => {
                return Err(PathProblem::Exists);
            }
            _ => {}
        }
        let inside = self.keys_below(&old);
        let names: Vec<_> =
            inside.iter().map(|key| format!("{new}{}", &key[old.len()..])).collect();
        for name in &names {
            check(&name[WORKSPACE.len() + 1..])?;
        }
        self.0.remove(&old);
        self.0.insert(new, node);
        for (key, name) in inside.iter().zip(names) {
            if let Some(node) = self.0.remove(key) {
                self.0.insert(name, node);
            }
        }
        Ok(moved)
    }

    /// Removes something, a directory with all that is in it, a link and not what it points to.
    pub(crate) fn remove(&mut self, path: &str) -> Result<Moved, PathProblem> {
        if path.is_empty() {
            return Err(PathProblem::IsRoot);
        }
        self.look(path)?;
        let from = key(path);
        for inside in self.keys_below(&from) {
            self.0.remove(&inside);
        }
        self.0.remove(&from);
        Ok(Moved { from, to: None })
    }

    /// Whether both hold the same, without a look at the bytes of files that are kept twice.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        let is_same = |pair: ((&String, &Node), (&String, &Node))| {
            let ((key, node), (other_key, other)) = pair;
            key == other_key
                && match (node, other) {
                    (Node::Directory, Node::Directory) => true,
                    (Node::Link(target), Node::Link(other)) => target == other,
                    (Node::File(file), Node::File(other)) => {
                        file.address() == other.address() && file.modified == other.modified
                    }
                    _ => false,
                }
        };
        self.0.len() == other.0.len() && self.0.iter().zip(&other.0).all(is_same)
    }

    /// The path here of what the guest knows by an absolute one, all links followed.
    pub(crate) fn resolve(&self, guest: &str) -> Option<String> {
        const MAX_LINKS: usize = 40;
        let mut waiting: Vec<&str> = guest.split('/').rev().collect();
        let mut at: Vec<&str> = Vec::new();
        let mut links = 0;
        while let Some(name) = waiting.pop() {
            match name {
                "" | "." => continue,
                ".." if at.len() > 1 => drop(at.pop()),
                ".." => return None,
                name => at.push(name),
            }
            if let Some(Node::Link(target)) = self.0.get(&at.join("/")) {
                links += 1;
                if links > MAX_LINKS || target.starts_with('/') {
                    return None;
                }
                at.pop();
                waiting.extend(target.split('/').rev());
            }
        }
        let key = at.join("/");
        (at.len() == 1 || self.0.contains_key(&key)).then_some(key)
    }

    /// The first directory on the way to a path that is missing.
    fn parents(&self, path: &str) -> Result<Option<usize>, PathProblem> {
        for (end, _) in path.match_indices('/') {
            match self.0.get(&key(&path[..end])) {
                Some(Node::Directory) => {}
                Some(Node::Link(_)) => return Err(PathProblem::IsLink),
                Some(Node::File(_)) => return Err(PathProblem::NotDirectory),
                None => return Ok(Some(end)),
            }
        }
        Ok(None)
    }

    fn make_parents(&mut self, path: &str) -> Result<(), PathProblem> {
        if path.is_empty() {
            return Err(PathProblem::IsRoot);
        }
        check(path)?;
        if let Some(first) = self.parents(path)? {
            for (end, _) in path.match_indices('/').filter(|(end, _)| *end >= first) {
                self.0.insert(key(&path[..end]), Node::Directory);
            }
        }
        Ok(())
    }

    fn keys_below(&self, key: &str) -> Vec<String> {
        let prefix = format!("{key}/");
        let inside = self.0.range(prefix.clone()..).map(|(key, _)| key);
        inside.take_while(|key| key.starts_with(&prefix)).cloned().collect()
    }
}

impl StoredFile {
    /// Its bytes from `start` on, at most so many.
    pub(crate) fn read_range(&self, start: u64, max: u64) -> io::Result<Vec<u8>> {
        match &self.bytes {
            Bytes::Memory(bytes) => {
                let clamp = |at: u64| usize::try_from(at).unwrap_or(usize::MAX).min(bytes.len());
                let start = clamp(start);
                Ok(bytes[start..start.max(clamp((start as u64).saturating_add(max)))].to_vec())
            }
            Bytes::Disk(file) => {
                let mut file = std::fs::File::open(file.path())?;
                file.seek(SeekFrom::Start(start))?;
                let mut bytes = Vec::new();
                file.take(max).read_to_end(&mut bytes)?;
                Ok(bytes)
            }
        }
    }
}

fn key(path: &str) -> String {
    if path.is_empty() {
        WORKSPACE.to_owned()
    } else {
        format!("{WORKSPACE}/{path}")
    }
}

/// Whether a path is as deep as one that the guest could make.
fn check(path: &str) -> Result<(), PathProblem> {
    let too_deep = path.split('/').count() > MAX_PATH_NAMES
        || path.len() >= MAX_PATH_BYTES
        || path.split('/').any(|name| name.len() > MAX_NAME_BYTES);
    if too_deep {
        Err(PathProblem::TooDeep)
    } else {
        Ok(())
    }
}

/// The longest name that file systems take, in bytes.
const MAX_NAME_BYTES: usize = 255;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::Spool;

    fn contents(paths: &[(&str, Option<&str>)]) -> Contents {
        let parent = tempfile::tempdir().unwrap();
        let spool = Spool::create(parent.path()).unwrap();
        let mut contents = Contents::default();
        for (path, text) in paths {
            let node = match text {
                None => Node::Directory,
                Some(text) => {
                    let bytes = text.as_bytes();
                    let now = std::time::SystemTime::now();
                    let file = spool.store(&mut &*bytes, bytes.len() as u64, now).unwrap();
                    text.strip_prefix("-> ").map_or(Node::File(file), |to| Node::Link(to.into()))
                }
            };
            contents.0.insert(key(path), node);
        }
        contents
    }

    fn paths(contents: &Contents, dir: &str, depth: usize) -> Vec<String> {
        contents.below(dir, depth).unwrap().map(|(path, _)| path.to_owned()).collect()
    }

    #[test]
    fn a_listing_goes_as_deep_as_asked() {
        let c = contents(&[("a", None), ("a/b", None), ("a/b/c", Some("1")), ("a.txt", Some("2"))]);
        assert_eq!(paths(&c, "", 1), ["a", "a.txt"]);
        assert_eq!(paths(&c, "a", 1), ["a/b"]);
        assert_eq!(paths(&c, "a", 2), ["a/b", "a/b/c"]);
        assert_eq!(paths(&c, "", 0), [""; 0]);
        assert_eq!(c.below("a.txt", 1).err(), Some(PathProblem::NotDirectory));
        assert_eq!(c.below("b", 1).err(), Some(PathProblem::NotFound));
    }

    #[test]
    fn no_link_is_followed() {
        let mut c = contents(&[
            ("d", None),
            ("d/f", Some("1")),
            ("l", Some("-> d")),
            ("up", Some("-> ..")),
        ]);
        assert_eq!(c.look("l/f").err(), Some(PathProblem::IsLink));
        assert_eq!(c.below("l", 1).err(), Some(PathProblem::IsLink));
        assert_eq!(c.make_directory("up/x").err(), Some(PathProblem::IsLink));
        assert_eq!(c.remove("l/f").err(), Some(PathProblem::IsLink));
        assert_eq!(c.rename("d/f", "up/f").err(), Some(PathProblem::IsLink));
        assert!(c.remove("l").is_ok());
        assert_eq!(paths(&c, "", 9), ["d", "d/f", "up"]);
    }

    #[test]
    fn a_directory_is_moved_with_all_that_is_in_it() {
        let mut c =
            contents(&[("a", None), ("a/b", None), ("a/b/c", Some("1")), ("ab", Some("2"))]);
        assert_eq!(c.rename("a", "a/b/x").err(), Some(PathProblem::Inside));
        assert_eq!(c.rename("a", "ab").err(), Some(PathProblem::Exists));
        assert_eq!(c.rename("ab", "a").err(), Some(PathProblem::Exists));
        assert_eq!(c.rename("a", "x/y").err(), Some(PathProblem::NotFound));
        assert_eq!(c.rename("", "x").err(), Some(PathProblem::IsRoot));
        let moved = c.rename("a", "z").unwrap();
        assert_eq!(paths(&c, "", 9), ["ab", "z", "z/b", "z/b/c"]);
        assert_eq!(moved.find("workspace/a/b/c").as_deref(), Some("workspace/z/b/c"));
        assert_eq!(moved.find("workspace/ab").as_deref(), Some("workspace/ab"));
        assert_eq!(c.remove("z").unwrap().find("workspace/z/b"), None);
        assert_eq!(paths(&c, "", 9), ["ab"]);
        let deep = ["d"; MAX_PATH_NAMES + 1].join("/");
        assert_eq!(c.make_directory(&deep).err(), Some(PathProblem::TooDeep));
        assert_eq!(c.make_directory(&"n".repeat(256)).err(), Some(PathProblem::TooDeep));
        assert_eq!(c.make_directory("ab/c").err(), Some(PathProblem::NotDirectory));
    }

    #[test]
    fn a_moved_tree_is_no_deeper_than_one_may_be() {
        let mut c = contents(&[]);
        c.make_directory(&["d"; MAX_PATH_NAMES - 1].join("/")).unwrap();
        c.make_directory("e/f").unwrap();
        assert_eq!(c.rename("d", "e/f/d").err(), Some(PathProblem::TooDeep));
        assert!(c.rename("d", "e/d").is_ok());
    }

    #[test]
    fn names_of_open_files_are_found_behind_links() {
        let c = contents(&[
            ("d", None),
            ("d/f", Some("1")),
            ("l", Some("-> d")),
            ("loop", Some("-> loop")),
            ("out", Some("-> ../../etc")),
        ]);
        assert_eq!(c.resolve("/workspace/l/f").as_deref(), Some("workspace/d/f"));
        assert_eq!(c.resolve("/workspace/l/../d/./f").as_deref(), Some("workspace/d/f"));
        assert_eq!(c.resolve("/workspace").as_deref(), Some("workspace"));
        assert_eq!(c.resolve("/workspace/loop"), None);
        assert_eq!(c.resolve("/workspace/out/passwd"), None);
        assert_eq!(c.resolve("/workspace/none"), None);
    }

    #[test]
    fn a_range_is_read_as_far_as_there_is_one() {
        let c = contents(&[("f", Some("0123456789"))]);
        let Node::File(file) = c.look("f").unwrap() else {
            panic!();
        };
        let read = |start, max| String::from_utf8(file.read_range(start, max).unwrap()).unwrap();
        assert_eq!(
            (read(2, 3), read(8, 9), read(10, 1)),
            ("234".into(), "89".into(), String::new())
        );
        assert_eq!((read(99, 1), read(0, u64::MAX)), (String::new(), "0123456789".into()));
    }
}

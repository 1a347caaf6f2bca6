//! Reads and changes a guest's files by path. Links are not followed.

use std::fmt;

use belljar_files::{Content, Errno, Files, Kind, Node};

use super::{ROOT, TEMPORARY};
use crate::limits::{MAX_PATH_BYTES, MAX_PATH_NAMES};

/// Why an operation on a path of a session's workspace is impossible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PathProblem {
    /// The path does not exist.
    NotFound,
    /// The path exists already.
    Exists,
    /// The path is a directory.
    IsDirectory,
    /// The path or its parent is not a directory.
    NotDirectory,
    /// The path or its parent is a symbolic link, which is not followed.
    IsLink,
    /// The path is the workspace itself, or the directory for temporary files.
    IsRoot,
    /// A directory cannot be moved into itself.
    Inside,
    /// The path is invalid in a workspace.
    Invalid(&'static str),
    /// The path has too many names or bytes.
    TooDeep,
    /// The files would exceed the session's limit on bytes.
    TooManyBytes,
    /// The files would exceed the session's limit on files and directories.
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
            Self::IsRoot => "it is a directory that every session has",
            Self::Inside => "a directory cannot be moved into itself",
            Self::Invalid(why) => return write!(f, "the path {why}"),
            Self::TooDeep => "the path has too many names or bytes",
            Self::TooManyBytes => "the session's files would take more bytes than they may",
            Self::TooManyFiles => "the session would have more files than it may",
        })
    }
}

impl From<Errno> for PathProblem {
    fn from(errno: Errno) -> Self {
        match errno {
            Errno::Noent => Self::NotFound,
            Errno::Exist | Errno::Notempty => Self::Exists,
            Errno::Isdir => Self::IsDirectory,
            Errno::Notdir => Self::NotDirectory,
            Errno::Loop => Self::IsLink,
            Errno::Inval => Self::Inside,
            Errno::Nametoolong => Self::TooDeep,
            _ => Self::TooManyBytes,
        }
    }
}

/// An entry in a workspace.
#[derive(Clone, Copy)]
pub(crate) struct Look<'f> {
    pub node: Node,
    pub kind: Kind,
    pub size: u64,
    /// Modification time, in nanoseconds since 1970.
    pub modified: u64,
    pub target: Option<&'f str>,
    pub content: Option<&'f Content>,
}

/// Access to a guest's files by path: relative to the workspace, whose own path is empty, or
/// absolute in `/workspace` or `/tmp`. Times are in nanoseconds since 1970.
pub(crate) trait Editor {
    /// Returns the entry at a path.
    fn look(&self, path: &str) -> Result<Look<'_>, PathProblem>;

    /// Lists a directory down to `depth` levels, sorted by path.
    fn below(&self, dir: &str, depth: usize) -> Result<Vec<(String, Look<'_>)>, PathProblem>;

    /// Puts a file at a path, replacing an existing file. Missing directories are created.
    fn put(&mut self, path: &str, content: Content, now: u64) -> Result<(), PathProblem>;

    /// Creates a directory and its missing parents. An existing directory is unchanged.
    fn make_directory(&mut self, path: &str, now: u64) -> Result<(), PathProblem>;

    /// Moves an entry to another path, replacing an existing file or link.
    fn move_to(&mut self, from: &str, to: &str, now: u64) -> Result<(), PathProblem>;

    /// Removes an entry; a directory with its contents, a link without its target.
    fn take_away(&mut self, path: &str, now: u64) -> Result<(), PathProblem>;
}

impl Editor for Files {
    fn look(&self, path: &str) -> Result<Look<'_>, PathProblem> {
        let node = self.find(&absolute(path))?;
        look(self, node)
    }

    fn below(&self, dir: &str, depth: usize) -> Result<Vec<(String, Look<'_>)>, PathProblem> {
        let mut found = Vec::new();
        let mut waiting = vec![(dir.to_owned(), is_directory(self.look(dir)?)?, 0)];
        while let Some((dir, node, above)) = waiting.pop() {
            if above == depth {
                continue;
            }
            for (name, node) in self.names(node) {
                let path = if dir.is_empty() {
                    name.to_owned()
                } else {
                    format!("{dir}/{name}")
                };
                let look = look(self, node)?;
                if look.kind == Kind::Directory {
                    waiting.push((path.clone(), node, above + 1));
                }
                found.push((path, look));
            }
        }
        found.sort_by(|(one, _), (other, _)| one.cmp(other));
        Ok(found)
    }

    fn put(&mut self, path: &str, content: Content, now: u64) -> Result<(), PathProblem> {
        check(path)?;
        match there(self, path)?.map(|look| look.kind) {
            Some(Kind::Directory) => return Err(PathProblem::IsDirectory),
            Some(Kind::Symlink) => return Err(PathProblem::IsLink),
            _ => {}
        }
        self.put_file(&absolute(path), content, now)?;
        Ok(())
    }

    fn make_directory(&mut self, path: &str, now: u64) -> Result<(), PathProblem> {
        check(path)?;
        match there(self, path)?.map(|look| look.kind) {
            Some(Kind::Directory) => Ok(()),
            Some(Kind::Symlink) => Err(PathProblem::IsLink),
            Some(_) => Err(PathProblem::Exists),
            None => {
                self.put_dir(&absolute(path), now)?;
                Ok(())
            }
        }
    }

    fn move_to(&mut self, from: &str, to: &str, now: u64) -> Result<(), PathProblem> {
        if is_top(from) {
            return Err(PathProblem::IsRoot);
        }
        let moved = self.look(from)?.kind;
        check(to)?;
        if from == to {
            return Ok(());
        }
        if to.strip_prefix(from).is_some_and(|rest| rest.starts_with('/')) {
            return Err(PathProblem::Inside);
        }
        let parent = to.rsplit_once('/').map_or("", |(parent, _)| parent);
        is_directory(self.look(parent)?)?;
        if let Some(replaced) = there(self, to)? {
            if replaced.kind == Kind::Directory || moved == Kind::Directory {
                return Err(PathProblem::Exists);
            }
            self.remove(&absolute(to), false, now)?;
        }
        self.rename(&absolute(from), &absolute(to), now)?;
        Ok(())
    }

    fn take_away(&mut self, path: &str, now: u64) -> Result<(), PathProblem> {
        if is_top(path) {
            return Err(PathProblem::IsRoot);
        }
        self.look(path)?;
        self.remove(&absolute(path), true, now)?;
        Ok(())
    }
}

/// Returns the entry at a path, if it exists.
fn there<'f>(files: &'f Files, path: &str) -> Result<Option<Look<'f>>, PathProblem> {
    match files.look(path) {
        Ok(look) => Ok(Some(look)),
        Err(PathProblem::NotFound) => Ok(None),
        Err(why) => Err(why),
    }
}

fn look(files: &Files, node: Node) -> Result<Look<'_>, PathProblem> {
    let stat = files.stat(node)?;
    Ok(Look {
        node,
        kind: stat.kind,
        size: if stat.kind == Kind::Directory {
            0
        } else {
            stat.size
        },
        modified: stat.mtime,
        target: files.target(node),
        content: files.content(node),
    })
}

fn is_directory(look: Look<'_>) -> Result<Node, PathProblem> {
    match look.kind {
        Kind::Directory => Ok(look.node),
        Kind::Symlink => Err(PathProblem::IsLink),
        _ => Err(PathProblem::NotDirectory),
    }
}

fn absolute(path: &str) -> String {
    if path.starts_with('/') {
        return path.to_owned();
    }
    format!("{ROOT}/{path}").trim_end_matches('/').to_owned()
}

/// Returns the path relative to the workspace or to the directory for temporary files, if an
/// absolute path is in one of them.
pub(crate) fn below_top(path: &str) -> Option<&str> {
    [ROOT, TEMPORARY].iter().find_map(|top| match path.strip_prefix(top)? {
        "" => Some(""),
        rest => rest.strip_prefix('/').filter(|inside| !inside.is_empty()),
    })
}

fn is_top(path: &str) -> bool {
    below_top(path).unwrap_or(path).is_empty()
}

/// Checks that a path is within the limits of guests' paths.
fn check(path: &str) -> Result<(), PathProblem> {
    if is_top(path) {
        return Err(PathProblem::IsRoot);
    }
    let path = below_top(path).unwrap_or(path);
    let too_deep = path.split('/').count() > MAX_PATH_NAMES
        || path.len() >= MAX_PATH_BYTES
        || path.split('/').any(|name| name.len() > MAX_NAME_BYTES);
    if too_deep {
        Err(PathProblem::TooDeep)
    } else {
        Ok(())
    }
}

/// Maximum length of a name in common file systems, in bytes.
const MAX_NAME_BYTES: usize = 255;

#[cfg(test)]
mod tests {
    use belljar_files::{Limits, Pool, PoolOptions};

    use super::*;

    /// Creates a workspace with directories (no text), links (`-> `) and files.
    fn files(paths: &[(&str, Option<&str>)]) -> Files {
        let pool = Pool::new(PoolOptions::default());
        let mut files = Files::new(&pool, Limits::NONE);
        files.make_dirs(ROOT, true).unwrap();
        for (path, text) in paths {
            let path = absolute(path);
            match text.map(|text| text.strip_prefix("-> ").ok_or(text)) {
                None => files.put_dir(&path, 0).map(drop),
                Some(Ok(target)) => files.put_link(&path, target, 0).map(drop),
                Some(Err(text)) => {
                    let content = pool.content(text.as_bytes()).unwrap();
                    files.put_file(&path, content, 0).map(drop)
                }
            }
            .unwrap();
        }
        files
    }

    fn paths(files: &Files, dir: &str, depth: usize) -> Vec<String> {
        files.below(dir, depth).unwrap().into_iter().map(|(path, _)| path).collect()
    }

    #[track_caller]
    fn problem<T>(result: Result<T, PathProblem>) -> PathProblem {
        result.err().unwrap()
    }

    #[test]
    fn a_listing_goes_as_deep_as_asked() {
        let f = files(&[("a", None), ("a/b", None), ("a/b/c", Some("1")), ("a.txt", Some("2"))]);
        assert_eq!(paths(&f, "", 1), ["a", "a.txt"]);
        assert_eq!(paths(&f, "a", 1), ["a/b"]);
        assert_eq!(paths(&f, "a", 2), ["a/b", "a/b/c"]);
        assert_eq!(paths(&f, "", 0), [""; 0]);
        assert_eq!(problem(f.below("a.txt", 1)), PathProblem::NotDirectory);
        assert_eq!(problem(f.below("b", 1)), PathProblem::NotFound);
    }

    #[test]
    fn no_link_is_followed() {
        let mut f =
            files(&[("d", None), ("d/f", Some("1")), ("l", Some("-> d")), ("up", Some("-> .."))]);
        assert_eq!(problem(f.look("l/f")), PathProblem::IsLink);
        assert_eq!(problem(f.below("l", 1)), PathProblem::IsLink);
        assert_eq!(problem(f.make_directory("up/x", 0)), PathProblem::IsLink);
        assert_eq!(problem(f.take_away("l/f", 0)), PathProblem::IsLink);
        assert_eq!(problem(f.move_to("d/f", "up/f", 0)), PathProblem::IsLink);
        f.take_away("l", 0).unwrap();
        assert_eq!(paths(&f, "", 9), ["d", "d/f", "up"]);
    }

    #[test]
    fn a_directory_is_moved_with_all_that_is_in_it() {
        let mut f = files(&[("a", None), ("a/b", None), ("a/b/c", Some("1")), ("ab", Some("2"))]);
        assert_eq!(problem(f.move_to("a", "a/b/x", 0)), PathProblem::Inside);
        assert_eq!(problem(f.move_to("a", "ab", 0)), PathProblem::Exists);
        assert_eq!(problem(f.move_to("ab", "a", 0)), PathProblem::Exists);
        assert_eq!(problem(f.move_to("a", "x/y", 0)), PathProblem::NotFound);
        assert_eq!(problem(f.move_to("", "x", 0)), PathProblem::IsRoot);
        f.move_to("a", "z", 0).unwrap();
        assert_eq!(paths(&f, "", 9), ["ab", "z", "z/b", "z/b/c"]);
        f.move_to("ab", "z/b/c", 0).unwrap();
        assert_eq!(f.look("z/b/c").unwrap().size, 1);
        f.take_away("z", 0).unwrap();
        assert_eq!(paths(&f, "", 9), [""; 0]);
        let deep = ["d"; MAX_PATH_NAMES + 1].join("/");
        assert_eq!(problem(f.make_directory(&deep, 0)), PathProblem::TooDeep);
        assert_eq!(problem(f.make_directory(&"n".repeat(256), 0)), PathProblem::TooDeep);
    }

    /// Otherwise a checkpoint could contain paths that cannot be restored.
    #[test]
    fn a_moved_tree_is_no_deeper_than_one_may_be() {
        let mut f = files(&[]);
        let deep =
            |name: &str, names: usize| [&[name][..], &vec!["x"; names - 1]].concat().join("/");
        f.set_limits(Limits {
            depth: MAX_PATH_NAMES,
            path: MAX_PATH_BYTES,
            ..Limits::NONE
        });
        f.make_directory(&deep("d", 60), 0).unwrap();
        f.make_directory(&deep("e", 10), 0).unwrap();
        assert_eq!(
            problem(f.move_to("d", &format!("{}/d", deep("e", 10)), 0)),
            PathProblem::TooDeep
        );
        f.move_to("d", "e/d", 0).unwrap();
        assert_eq!(f.below("", usize::MAX).unwrap().len(), 70);
    }
}

//! Copies a guest's files to a directory of the caller.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use belljar_files::{Content, Files, Kind};
use cap_std::ambient_authority;
use cap_std::fs::{Dir, OpenOptions};
use data_encoding::HEXLOWER;

use super::{RunFile, WorkspaceError, failed, find};
use crate::util::host_names::are_host_names;

/// Copies into one directory. The guest has chosen the names: nothing outside the directory is
/// written, and a link with a file's name is replaced instead of followed.
#[derive(Debug)]
pub(crate) struct Copies {
    to: PathBuf,
    dir: Dir,
    copied: Vec<PathBuf>,
    failures: Vec<(PathBuf, io::Error)>,
    /// First name of each file, by number: a guest may give a file a thousand names.
    names: HashMap<u64, PathBuf>,
}

impl Copies {
    /// Copies regular files of a workspace to the directory `to`, which is created if missing,
    /// under their paths there. Returns the paths of the copies. If a file cannot be copied, the
    /// others still are.
    pub(crate) fn make<'a>(
        to: PathBuf,
        files: &Files,
        names: impl IntoIterator<Item = &'a String>,
    ) -> Result<Vec<PathBuf>, WorkspaceError> {
        let mut copies = Self::into(to)?;
        for name in names {
            let node = find(files, name);
            if let Some((node, content)) = node.and_then(|node| Some((node, files.content(node)?)))
            {
                copies.copy(name, node.number(), content);
            }
        }
        copies.done()
    }

    fn into(to: PathBuf) -> Result<Self, WorkspaceError> {
        let dir = fs::create_dir_all(&to)
            .and_then(|()| Dir::open_ambient_dir(&to, ambient_authority()))
            .map_err(failed("copy files to", &to))?;
        Ok(Self {
            to,
            dir,
            copied: Vec::new(),
            failures: Vec::new(),
            names: HashMap::new(),
        })
    }

    fn done(self) -> Result<Vec<PathBuf>, WorkspaceError> {
        let Self {
            to,
            copied,
            failures,
            ..
        } = self;
        if failures.is_empty() {
            Ok(copied)
        } else {
            Err(WorkspaceError::Copies {
                to,
                copied,
                failures,
            })
        }
    }

    /// `number` is the same for all names of a file.
    fn copy(&mut self, name: &str, number: u64, content: &Content) {
        let first = self.names.get(&number);
        let copied = self.replace(name, |fresh| {
            if first.is_some_and(|first| self.dir.hard_link(first, &self.dir, fresh).is_ok()) {
                return Ok(());
            }
            let mut options = OpenOptions::new();
            let mut to = self.dir.open_with(fresh, options.write(true).create_new(true))?;
            io::copy(&mut RunFile::of(content), &mut to).map(drop)
        });
        // The next name is linked to the latest copy, because file systems limit the number of
        // links.
        if copied.is_ok() {
            self.names.insert(number, name.into());
        }
        self.note(name, copied);
    }

    fn note(&mut self, name: &str, copied: io::Result<()>) {
        let to = self.to.join(name);
        match copied {
            Ok(()) => self.copied.push(to),
            Err(error) => self.failures.push((to, error)),
        }
    }

    /// Replaces `name` by the file that `write` creates, atomically.
    fn replace(&self, name: &str, write: impl FnOnce(&Path) -> io::Result<()>) -> io::Result<()> {
        let name = host_path(name)?;
        let parent = name.parent().unwrap_or(Path::new(""));
        if !parent.as_os_str().is_empty() {
            self.dir.create_dir_all(parent)?;
        }
        let mut random = [0; 8];
        getrandom::fill(&mut random)?;
        let fresh = parent.join(format!(".belljar-{}", HEXLOWER.encode(&random)));
        let replaced = write(&fresh).and_then(|()| self.dir.rename(&fresh, &self.dir, name));
        if replaced.is_err() {
            let _ = self.dir.remove_file(&fresh);
        }
        replaced
    }
}

/// Writes all entries below `top` to an empty directory: files, links and directories. Links that
/// lead outside are omitted, because they would lead elsewhere on the host.
pub(crate) fn copy_whole(files: &Files, top: &str, to: &Path) -> Result<(), WorkspaceError> {
    let mut copies = Copies::into(to.to_owned())?;
    let root = files.find(top).map_err(|errno| failed("list", Path::new(top))(errno.into()))?;
    for found in files.walk(root) {
        let name = found.path.as_str();
        let made = match found.kind {
            Kind::Directory => host_path(name).and_then(|name| copies.dir.create_dir_all(name)),
            Kind::Symlink => match files.target(found.node) {
                Some(target) if stays_inside(name, target) => {
                    host_path(name).and_then(|name| symlink(&copies.dir, target, name))
                }
                _ => continue,
            },
            _ => {
                if let Some(content) = files.content(found.node) {
                    copies.copy(name, found.node.number(), content);
                }
                continue;
            }
        };
        copies.note(name, made);
    }
    copies.done().map(drop)
}

/// A guest's path, which must not mean something else on this system.
fn host_path(path: &str) -> io::Result<&Path> {
    if are_host_names(path) {
        Ok(Path::new(path))
    } else {
        Err(io::Error::new(io::ErrorKind::InvalidFilename, "a name has `:` or `\\`"))
    }
}

/// Whether a link leads to a path inside the copied directory, whatever the other links are.
///
/// `..` is allowed only before the first name: that name may be a link, and `..` behind it would
/// start from the link's target.
fn stays_inside(link: &str, target: &str) -> bool {
    let mut above = link.matches('/').count();
    let mut descends = false;
    !target.starts_with('/')
        && are_host_names(target)
        && target.split('/').all(|name| match name {
            "" | "." => true,
            ".." => !descends && above.checked_sub(1).inspect(|left| above = *left).is_some(),
            _ => {
                descends = true;
                true
            }
        })
}

#[cfg(unix)]
fn symlink(dir: &Dir, target: &str, name: &Path) -> io::Result<()> {
    dir.symlink_contents(target, name)
}

#[cfg(not(unix))]
fn symlink(dir: &Dir, target: &str, name: &Path) -> io::Result<()> {
    dir.symlink_file(target, name)
}

/// Describes the files that could not be copied, with the reasons.
pub(super) fn describe(to: &Path, copied: usize, failures: &[(PathBuf, io::Error)]) -> String {
    const MOST: usize = 5;
    let all = copied + failures.len();
    let shown = failures.iter().take(MOST).map(|(path, e)| format!("{}: {e}", path.display()));
    let mut reasons: Vec<String> = shown.collect();
    if let Some(more @ 1..) = failures.len().checked_sub(MOST) {
        reasons.push(format!("and {more} more"));
    }
    let (reasons, to) = (reasons.join("; "), to.display());
    format!("cannot copy {} of {all} files to {to}: {reasons}", failures.len())
}

#[cfg(all(test, unix))]
mod tests {
    use belljar_files::{Limits, Pool, PoolOptions};

    use super::*;

    #[test]
    fn no_chain_of_links_leads_out_of_a_copy() {
        let mut files = Files::new(&Pool::new(PoolOptions::default()), Limits::NONE);
        files.make_dirs("/workspace", true).unwrap();
        let content = files.pool().clone().content(b"inside").unwrap();
        files.put_file("/workspace/a/b/file.txt", content, 0).unwrap();
        for (link, target) in [
            ("a/b/up", "../.."),
            ("a/b/out", "up/../secret.txt"),
            ("a/b/further", "up/../../../../secret.txt"),
            ("a/out", "../../secret.txt"),
            ("absolute", "/workspace/a"),
            ("a/b/again", "up/a/b/file.txt"),
            ("a/across", ".././a/b//file.txt"),
        ] {
            files.put_link(&format!("/workspace/{link}"), target, 0).unwrap();
        }
        let place = tempfile::tempdir().unwrap();
        fs::write(place.path().join("secret.txt"), "outside").unwrap();
        let to = place.path().join("copy");
        copy_whole(&files, "/workspace", &to).unwrap();
        for link in ["a/b/out", "a/b/further", "a/out", "absolute"] {
            assert!(fs::symlink_metadata(to.join(link)).is_err(), "{link}");
        }
        for link in ["a/b/again", "a/across", "a/b/up/a/b/file.txt"] {
            assert_eq!(fs::read_to_string(to.join(link)).unwrap(), "inside", "{link}");
        }
    }
}

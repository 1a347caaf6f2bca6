//! Brings files that a guest made to a directory of the caller's.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use cap_std::ambient_authority;
use cap_std::fs::{Dir, File, OpenOptions};

use super::contents::number_if_linked;
use super::{Contents, Workspace, WorkspaceError, failed};
use crate::hex;

/// Copies into one directory. The guest has chosen the names: what lies outside of the directory is
/// never written to, and a link that has a file's name is replaced and not followed.
#[derive(Debug)]
pub(crate) struct Copies {
    to: PathBuf,
    dir: Dir,
    copied: Vec<PathBuf>,
    failures: Vec<(PathBuf, io::Error)>,
    /// The first name of each file, by what identifies it: a guest may give one a thousand.
    names: HashMap<u64, PathBuf>,
}

impl Copies {
    /// Copies files to `to`, which is made if missing, and returns the paths of the copies. `add`
    /// adds the one of a name.
    pub(crate) fn make<'a>(
        to: PathBuf,
        names: impl IntoIterator<Item = &'a String>,
        mut add: impl FnMut(&mut Self, &str),
    ) -> Result<Vec<PathBuf>, WorkspaceError> {
        let dir = fs::create_dir_all(&to)
            .and_then(|()| Dir::open_ambient_dir(&to, ambient_authority()))
            .map_err(failed("copy files to", &to))?;
        let mut copies = Self {
            to,
            dir,
            copied: Vec::new(),
            failures: Vec::new(),
            names: HashMap::new(),
        };
        for name in names {
            add(&mut copies, name);
        }
        let Self {
            to,
            copied,
            failures,
            ..
        } = copies;
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

    /// Copies a regular file of `workspace`, under its path there. One that cannot be copied costs
    /// only itself.
    pub(crate) fn add(&mut self, workspace: &Workspace, name: &str) {
        if let Ok(mut file) = workspace.open(name) {
            let identity = file.metadata().ok().as_ref().and_then(number_if_linked);
            self.copy(name, identity, |to| io::copy(&mut file, to).map(|_| ()));
        }
    }

    /// The same with a file that is kept.
    pub(crate) fn add_kept(&mut self, contents: &Contents, name: &str) {
        if let Some(file) = contents.file(name) {
            self.copy(name, Some(file.address() as u64), |to| file.write_to(to));
        }
    }

    /// `identity` is the same for all names of a file.
    fn copy(
        &mut self,
        name: &str,
        identity: Option<u64>,
        write: impl FnOnce(&mut File) -> io::Result<()>,
    ) {
        let first = identity.and_then(|identity| self.names.get(&identity));
        let copied = self.replace(Path::new(name), |fresh| {
            if first.is_some_and(|first| self.dir.hard_link(first, &self.dir, fresh).is_ok()) {
                return Ok(());
            }
            let mut options = OpenOptions::new();
            write(&mut self.dir.open_with(fresh, options.write(true).create_new(true))?)
        });
        let to = self.to.join(name);
        match copied {
            Ok(()) => {
                self.copied.push(to);
                if let Some(identity) = identity {
                    self.names.entry(identity).or_insert_with(|| name.into());
                }
            }
            Err(error) => self.failures.push((to, error)),
        }
    }

    /// Puts what `write` makes in the place of what has the name, all at once or not at all.
    fn replace(&self, name: &Path, write: impl FnOnce(&Path) -> io::Result<()>) -> io::Result<()> {
        let parent = name.parent().unwrap_or(Path::new(""));
        if !parent.as_os_str().is_empty() {
            self.dir.create_dir_all(parent)?;
        }
        let mut random = [0; 8];
        getrandom::fill(&mut random)?;
        let fresh = parent.join(format!(".belljar-{}", hex::encode(&random)));
        let replaced = write(&fresh).and_then(|()| self.dir.rename(&fresh, &self.dir, name));
        if replaced.is_err() {
            let _ = self.dir.remove_file(&fresh);
        }
        replaced
    }
}

/// Says what could not be copied, and why.
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

//! The directories that a guest is given: by number, as the C library in every image remembers
//! them, and by path.

use std::cmp::Reverse;
use std::sync::LazyLock;

use crate::module::PINS;

// Their order is part of the image format.
const FIRST_FD: i32 = 3;
pub(super) const WORKSPACE_FD: i32 = FIRST_FD + 2;
pub(super) const TEMPORARY_FD: i32 = FIRST_FD + 3;
pub(super) const ROOT_FD: i32 = FIRST_FD + 4;
const FIRST_MOUNT_FD: i32 = FIRST_FD + 5;

/// The guest's working directory.
pub(crate) const WORKSPACE_PATH: &str = "/workspace";
/// The guest's directory for temporary files.
pub(crate) const TEMPORARY_PATH: &str = "/tmp";

/// The paths of those that every guest has, in the order of their numbers.
pub(super) static OWN: LazyLock<[String; 5]> = LazyLock::new(|| {
    let abi = &PINS.abi;
    [
        abi.library_dir.clone(),
        format!("{}/{}/matplotlib/mpl-data", abi.library_dir, abi.library_zip),
        WORKSPACE_PATH.to_owned(),
        TEMPORARY_PATH.to_owned(),
        "/".to_owned(),
    ]
});

/// A mounted directory, or another path of the workspace, which the guest finds below its root.
pub(super) struct MountPoint {
    path: String,
    pub fd: i32,
}

impl MountPoint {
    /// Those with the given names, in the order in which they are opened, and other paths of the
    /// workspace. The longest name comes first, for one may lie below another.
    pub(super) fn of<'a>(names: impl Iterator<Item = &'a str>, aliases: &[String]) -> Vec<Self> {
        let mut all: Vec<Self> = (FIRST_MOUNT_FD..)
            .zip(names)
            .map(|(fd, name)| Self {
                path: format!("/{name}"),
                fd,
            })
            .collect();
        all.extend(aliases.iter().map(|alias| Self {
            path: alias.clone(),
            fd: WORKSPACE_FD,
        }));
        all.sort_by_key(|mount| Reverse(mount.path.len()));
        all
    }

    /// Whether it is a directory of the host.
    pub(super) fn is_mounted(&self) -> bool {
        self.fd != WORKSPACE_FD
    }

    /// What of a path below the guest's root lies in here.
    pub(super) fn inside<'a>(&self, path: &'a str) -> Option<&'a str> {
        below(path, &self.path[1..])
    }
}

/// The absolute path of a directory that the guest was given.
pub(super) fn path_of(fd: i32, mounts: &[MountPoint]) -> Option<&str> {
    all(mounts).find(|(_, known)| *known == fd).map(|(path, _)| path)
}

/// The directory that an absolute path lies in, and the path from there.
pub(super) fn split<'a>(path: &'a str, mounts: &[MountPoint]) -> (i32, &'a str) {
    let inside = |(root, fd): (&str, i32)| {
        let rest = below(path, root.trim_end_matches('/'))?;
        Some((root.len(), fd, if rest.is_empty() { "." } else { rest }))
    };
    let deepest = all(mounts).filter_map(inside).max_by_key(|(length, ..)| *length);
    deepest.map_or((ROOT_FD, "."), |(_, fd, rest)| (fd, rest))
}

fn all(mounts: &[MountPoint]) -> impl Iterator<Item = (&str, i32)> {
    let own = OWN.iter().map(String::as_str).zip(FIRST_FD..);
    own.chain(mounts.iter().map(|mount| (mount.path.as_str(), mount.fd)))
}

/// The part of `path` that follows `dir`, which has no `/` at its end.
fn below<'a>(path: &'a str, dir: &str) -> Option<&'a str> {
    let rest = path.strip_prefix(dir)?;
    let inner = rest.trim_start_matches('/');
    let is_below = dir.is_empty() || rest.is_empty() || rest.starts_with('/');
    is_below.then_some(inner)
}

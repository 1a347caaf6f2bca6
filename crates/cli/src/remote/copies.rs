//! Copies the files that a run left on a server.

use std::io::{self, Write};
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use belljar::Error;
use belljar::error::WorkspaceError;
use belljar::outcome::FileEntry;
use cap_std::ambient_authority;
use cap_std::fs::{Dir, OpenOptions};
use hyper::Method;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use tokio::time::{Instant, timeout_at};

use super::RemoteError;
use super::link::{Ask, Link, SILENCE};
use super::order::random;

/// Characters of a path that a URL has as they are.
pub(super) const PLAIN: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'/').remove(b'-').remove(b'_').remove(b'~');

/// How long copying may take: this, and the time for so many bytes per second.
const PATIENCE: Duration = Duration::from_mins(2);
const RATE: u64 = 100 << 10;

/// Copies the regular files of a run into a directory, of at most so many bytes together. The
/// server and the code have chosen the names: nothing outside the directory is written, and links
/// are replaced, not followed.
pub(crate) async fn copy(
    link: &Link,
    files: &str,
    entries: &[FileEntry],
    to: &Path,
    most: u64,
) -> Result<Vec<PathBuf>, Error> {
    let opened = Dir::open_ambient_dir(to, ambient_authority());
    let dir = opened.map_err(|source| WorkspaceError::Io {
        action: "copy files to",
        path: to.to_owned(),
        source,
    })?;
    let (mut copied, mut failures, mut is_gone) = (Vec::new(), Vec::new(), false);
    let (mut left, end) = (most, Instant::now() + PATIENCE + Duration::from_secs(most / RATE));
    for entry in entries.iter().filter(|entry| entry.symlink.is_none()) {
        let path = to.join(&entry.path);
        let done = if is_gone {
            Err(io::Error::other("the server is gone"))
        } else if entry.size > left {
            Err(io::Error::other("the files are larger than the limit on the workspace"))
        } else {
            left -= entry.size;
            one(link, files, entry, &dir, end).await
        };
        match done {
            Ok(()) => copied.push(path),
            Err(error) => {
                let cause = error.get_ref().and_then(|error| error.downcast_ref::<RemoteError>());
                is_gone |= end <= Instant::now();
                is_gone |= cause.is_some_and(RemoteError::is_lost);
                failures.push((path, error));
            }
        }
    }
    if failures.is_empty() {
        return Ok(copied);
    }
    Err(WorkspaceError::Copies {
        to: to.to_owned(),
        copied,
        failures,
    }
    .into())
}

/// Copies a file, which has its name when it is complete.
async fn one(
    link: &Link,
    files: &str,
    entry: &FileEntry,
    dir: &Dir,
    end: Instant,
) -> io::Result<()> {
    let name = Path::new(&entry.path);
    let is_inside = name.components().all(|part| matches!(part, Component::Normal(_)));
    // On Windows, a drive or a stream could be named within a path.
    let is_foreign = cfg!(windows) && entry.path.contains([':', '\\']);
    if !is_inside || is_foreign || entry.path.is_empty() || entry.path.contains('\0') {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a path in a directory"));
    }
    let path = format!("{files}/{}", utf8_percent_encode(&entry.path, PLAIN));
    let ask = Ask::new(Method::GET, &path);
    let response = timeout_at(end, link.ask(&ask)).await?.map_err(io::Error::other)?;
    let parent = name.parent().unwrap_or(Path::new(""));
    if !parent.as_os_str().is_empty() {
        dir.create_dir_all(parent)?;
    }
    let part = parent.join(format!(".belljar-{}", random()?));
    let mut file = dir.open_with(&part, OpenOptions::new().write(true).create_new(true))?;
    let received = async {
        let (mut body, mut left) = (response.into_body(), entry.size);
        while let Some(piece) = link.piece(&mut body, SILENCE).await.map_err(io::Error::other)? {
            left = left
                .checked_sub(piece.len() as u64)
                .ok_or_else(|| io::Error::other("the server sent more than the file's size"))?;
            file.write_all(&piece)?;
        }
        if left > 0 {
            return Err(io::Error::other("the server sent less than the file's size"));
        }
        dir.rename(&part, dir, name)
    };
    let received = timeout_at(end, received).await.unwrap_or_else(|late| Err(late.into()));
    if received.is_err() {
        let _ = dir.remove_file(&part);
    }
    received
}

/// Removes the files of a run from its server early.
pub(crate) async fn forget(link: &Link, run: &str) {
    let path = format!("/v1/runs/{run}");
    // They are removed after a while anyway.
    let _ = link.ask(&Ask::new(Method::DELETE, &path)).await;
}

//! The file that a session was last written to or restored from. Its chunks are copied into the
//! next file after verification against their names, without compressing them again.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::runtime::Handle;

use super::chunk_index::ChunkIndex;
use super::chunk_reader::Carried;
use super::chunk_table::Listing;
use super::contents::Frozen;
use super::lazy::{Named, Reused};
use crate::artifact::cache::seal::Identity;
use crate::artifact::cache::{CacheError, create_atomically};

/// A checkpoint file and the parts of a session that are in its chunks. Other processes may remove
/// or replace the file.
pub(in crate::session) struct Filed {
    path: PathBuf,
    identity: Identity,
    /// Offset of the chunks.
    start: u64,
    known: Arc<Named>,
}

impl Filed {
    /// Describes the file that a session was restored from.
    pub(super) fn found(
        path: PathBuf,
        identity: Option<Identity>,
        start: Option<u64>,
        known: &Arc<Named>,
    ) -> Option<Self> {
        Some(Self {
            path: std::path::absolute(path).ok()?,
            identity: identity?,
            start: start?,
            known: Arc::clone(known),
        })
    }

    /// Writes a session to `path` atomically, copying chunks from `before`. Returns the new file if
    /// the platform can identify files. Blocks.
    pub(super) fn write(
        frozen: &Frozen,
        path: &Path,
        before: Option<&Self>,
    ) -> Result<Option<Self>, CacheError> {
        if let Some(before) = before
            && let Some((reused, file)) = before.reused()
        {
            let written = write(frozen, path, Some((&reused, &|| before.is_in(&file))));
            close((reused, file));
            if written.is_ok() {
                return written;
            }
        }
        // Chunks that could not be copied are written from memory, and so is everything if the
        // previous file is unusable.
        write(frozen, path, None)
    }

    /// Returns the file's chunks, if the file is unchanged.
    fn reused(&self) -> Option<(Reused, File)> {
        let file = File::open(&self.path).ok()?;
        if !self.is_in(&file) {
            return None;
        }
        let index = self.known.index();
        let listed = index.chunks.clone();
        let from = Box::new(file.try_clone().ok()?);
        let carried = Carried::find(from, self.start, listed.len()).ok()?;
        let listing = Arc::new(Listing::of(listed, Box::new(carried), Vec::new()));
        let reused = Reused {
            index,
            listing,
            is_own: false,
        };
        Some((reused, file))
    }

    fn is_in(&self, file: &File) -> bool {
        Identity::of_open(file).is_ok_and(|found| found.as_ref() == Some(&self.identity))
    }
}

/// Closes a file on another thread. The file has usually been replaced, and freeing its space takes
/// time.
fn close(file: (Reused, File)) {
    if let Ok(handle) = Handle::try_current() {
        handle.spawn_blocking(move || drop(file));
    }
}

/// Writes a session to `path`, reusing chunks if no other process writes to the old file meanwhile.
fn write(
    frozen: &Frozen,
    path: &Path,
    reused: Option<(&Reused, &dyn Fn() -> bool)>,
) -> Result<Option<Filed>, CacheError> {
    let mut written: Option<(File, u64, ChunkIndex)> = None;
    create_atomically(path, |file| {
        let same = file.try_clone()?;
        let mut file = BufWriter::with_capacity(1 << 20, file);
        let (start, index) = frozen.write(&mut file, reused.map(|(reused, _)| reused))?;
        file.flush()?;
        if reused.is_some_and(|(_, is_same)| !is_same()) {
            return Err(io::Error::other("what it was copied from was written to"));
        }
        written = Some((same, start, index));
        Ok(())
    })?;
    Ok(written.and_then(|(file, start, index)| {
        Some(Filed {
            path: path.to_owned(),
            // Identity of the open file, because another file may have its path by now.
            identity: Identity::of_open(&file).ok()??,
            start,
            known: Arc::new(Named::laid(index, None)),
        })
    }))
}

#[cfg(test)]
mod tests {
    use super::super::goldens::golden;
    use super::*;
    use crate::session::checkpoint::read::Opened;

    /// Returns all bytes after the manifest.
    fn chunks(path: &Path) -> Vec<u8> {
        let opened = Opened::open(Box::new(File::open(path).unwrap()), path).unwrap();
        std::fs::read(path).unwrap().split_off(opened.chunks.unwrap() as usize)
    }

    #[test]
    fn what_is_in_a_file_is_copied_as_long_as_it_is_sound() {
        let dir = tempfile::tempdir().unwrap();
        let (one, two) = (dir.path().join("one"), dir.path().join("two"));
        let session = golden();
        let filed = Filed::write(&session, &one, None).unwrap().unwrap();
        let sound = chunks(&one);
        Filed::write(&session, &two, Some(&filed)).unwrap().unwrap();
        assert!(chunks(&two) == sound);

        let mut bytes = std::fs::read(&one).unwrap();
        *bytes.last_mut().unwrap() ^= 1;
        std::fs::write(&one, bytes).unwrap();
        Filed::write(&session, &two, Some(&filed)).unwrap().unwrap();
        assert!(chunks(&two) == sound, "it was written to");

        // A faulty disk may return different bytes with the same times and inode.
        let identity = Identity::of_open(&File::open(&one).unwrap()).unwrap().unwrap();
        let deceived = Filed { identity, ..filed };
        Filed::write(&session, &two, Some(&deceived)).unwrap().unwrap();
        assert!(chunks(&one) != sound && chunks(&two) == sound, "a damaged chunk was copied");
    }
}

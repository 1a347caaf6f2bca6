//! The file that a session was last written to or restored from. Chunks of the session that it has are
//! copied into the next file, once they were compared with their names, and not compressed again.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::runtime::Handle;

use super::chunks::Carried;
use super::frozen::Frozen;
use super::later::{Named, Reused};
use super::layout::Known;
use super::listing::Listing;
use crate::cache::seal::Identity;
use crate::cache::{CacheError, create_atomically};

/// A checkpoint in a file, and what of a session is in its chunks. The file is anybody's: it may be gone, or another,
/// when it is asked for.
pub(in crate::session) struct Filed {
    path: PathBuf,
    identity: Identity,
    /// Where the chunks begin.
    start: u64,
    known: Arc<Named>,
}

impl Filed {
    /// The one that a session was restored from.
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

    /// Writes a session to `path`, all at once; what is in `before` is copied from there. Returns the new one, where
    /// files can be told apart. It blocks.
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
        // What could not be copied is written from memory, and so are files that nothing is known of.
        write(frozen, path, None)
    }

    /// Its chunks, if it is as it was.
    fn reused(&self) -> Option<(Reused, File)> {
        let file = File::open(&self.path).ok()?;
        if !self.is_in(&file) {
            return None;
        }
        let known = self.known.known();
        let listed = known.chunks().to_vec();
        let from = Box::new(file.try_clone().ok()?);
        let carried = Carried::find(from, self.start, listed.len()).ok()?;
        let listing = Arc::new(Listing::of(listed, Box::new(carried), Vec::new()));
        let reused = Reused {
            known,
            listing,
            is_own: false,
        };
        Some((reused, file))
    }

    fn is_in(&self, file: &File) -> bool {
        Identity::of_open(file).is_ok_and(|found| found.as_ref() == Some(&self.identity))
    }
}

/// Closes a file, mostly one in whose place is another by now: nobody waits for the system to take back what it
/// held.
fn close(file: (Reused, File)) {
    if let Ok(handle) = Handle::try_current() {
        handle.spawn_blocking(move || drop(file));
    }
}

/// Writes a session to `path`; what can be reused is, if nobody has written to it by the end.
fn write(
    frozen: &Frozen,
    path: &Path,
    reused: Option<(&Reused, &dyn Fn() -> bool)>,
) -> Result<Option<Filed>, CacheError> {
    let mut written: Option<(File, u64, Known)> = None;
    create_atomically(path, |file| {
        let same = file.try_clone()?;
        let mut file = BufWriter::with_capacity(1 << 20, file);
        let (start, known) = frozen.write(&mut file, reused.map(|(reused, _)| reused))?;
        file.flush()?;
        if reused.is_some_and(|(_, is_same)| !is_same()) {
            return Err(io::Error::other("what it was copied from was written to"));
        }
        written = Some((same, start, known));
        Ok(())
    })?;
    Ok(written.and_then(|(file, start, known)| {
        Some(Filed {
            path: path.to_owned(),
            // That of what was written, whatever has its name by now.
            identity: Identity::of_open(&file).ok()??,
            start,
            known: Arc::new(Named::laid(known, None)),
        })
    }))
}

#[cfg(test)]
mod tests {
    use super::super::goldens::golden;
    use super::*;
    use crate::session::checkpoint::read::Opened;

    /// Everything behind the manifest.
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

        // A disk that gives other bytes than were written changes neither times nor inodes.
        let identity = Identity::of_open(&File::open(&one).unwrap()).unwrap().unwrap();
        let deceived = Filed { identity, ..filed };
        Filed::write(&session, &two, Some(&deceived)).unwrap().unwrap();
        assert!(chunks(&one) != sound && chunks(&two) == sound, "a damaged chunk was copied");
    }
}

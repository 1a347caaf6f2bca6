//! Checkpoints: a session as one file. `docs/internals/checkpoints.md` specifies the format.

#[cfg(test)]
mod bounded;
mod caps;
mod chunks;
mod copies;
mod documents;
mod fetched;
mod filed;
mod format;
mod frozen;
mod garbage;
#[cfg(test)]
mod goldens;
mod input;
mod json;
mod known;
mod later;
mod layout;
mod listing;
mod opened;
mod pieces;
mod problem;
mod read;
mod rules;
mod second;
mod since;
mod stored;
mod waiting;
mod wanted;
mod write;

use std::fs::File;
use std::io::{BufWriter, Read as _, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use belljar_files::{BLOCK, Content};

pub(super) use self::filed::Filed;
pub(super) use self::frozen::Frozen;
pub use self::garbage::{CHUNK_GRACE, Collected, collect_chunks};
use self::input::Input;
pub(super) use self::later::{Named, Reused};
use self::read::Opened;
pub(super) use self::rules::Given;
pub use self::stored::Saved;
pub(super) use self::stored::{Written, open as fetch, save as save_apart};
use super::SessionError;
use super::context::Context;
use super::error::FileAction;
use super::options::FixedSettings;
use super::past::{Elsewhere, Past};
use super::pending::Pending;
use super::storage::Storage;
use super::times::Times;
use crate::api::policy::Bounds;
use crate::api::request::ImageChoice;
use crate::cache::CacheError;
use crate::cache::seal::Identity;
use crate::error::Error;
use crate::image::Image;
use crate::shared::on_blocking_thread;
use crate::store::{Store, Version};

/// A session that was put away.
pub(super) struct Suspended {
    content: Content,
    /// What is not in it.
    elsewhere: Elsewhere,
}

/// The name of one in errors.
const SUSPENDED: &str = "(a suspended session)";

impl Suspended {
    /// Reads it back: the latest state, and the others when somebody asks for them. What it takes is kept until
    /// then.
    pub(super) async fn read(&self, context: &Context) -> Result<(Past, Arc<Named>), Error> {
        let reader = Box::new(self.content.reader());
        let opened = blocking(move || Checkpoint::read_manifest(reader, SUSPENDED.into())).await?;
        let storage = Arc::clone(&context.storage);
        let (image, given) = (
            Arc::clone(&context.image),
            Given {
                mounts: context.fixed.mounts.clone(),
                ..Given::default()
            },
        );
        // What this process wrote may be as large as it is.
        let bounds = (context.engine.ceilings, u64::MAX);
        let read = opened.read(image, given, storage, bounds).await?;
        Ok((read.past.with(&self.elsewhere), read.known))
    }
}

/// Puts a session away: what is there already is copied. It blocks.
pub(super) fn suspend(
    context: &Context,
    (frozen, reused): (&Frozen, Option<&Reused>),
    elsewhere: Elsewhere,
) -> Result<Suspended, Error> {
    let mut to = BufWriter::with_capacity(BLOCK, context.storage.put_away());
    let written = frozen.write(&mut to, reused).and_then(|_| to.flush());
    written.map_err(io(FileAction::Write, Path::new(SUSPENDED)))?;
    let (to, _) = to.into_parts();
    Ok(Suspended {
        content: to.into_content(),
        elsewhere,
    })
}

/// Writes a session to `path`, all at once. What is in a file already, if that is as it was `filed`, is copied.
pub(super) async fn save(
    frozen: Frozen,
    path: PathBuf,
    filed: Option<Arc<Filed>>,
) -> Result<Option<Filed>, Error> {
    let path = std::path::absolute(&path).unwrap_or(path);
    blocking(move || {
        let written = Filed::write(&frozen, &path, filed.as_deref());
        written.map_err(|error| match error {
            CacheError::Io { source, .. } => io(FileAction::Write, &path)(source).into(),
            error => Error::from(error),
        })
    })
    .await
}

/// Writes a session to `writer`.
pub(super) async fn stream(
    frozen: Frozen,
    mut writer: impl Write + Send + 'static,
) -> Result<(), Error> {
    blocking(move || {
        let written = frozen.write(&mut writer, None).and_then(|_| writer.flush());
        Ok(written.map_err(io(FileAction::Write, Path::new("(a writer)")))?)
    })
    .await
}

/// Opens a checkpoint and reads its manifest.
pub(super) async fn open(path: &Path) -> Result<Checkpoint, Error> {
    let path = path.to_owned();
    blocking(move || {
        let file = File::open(&path).map_err(io(FileAction::Open, &path))?;
        let identity = Identity::of_open(&file).map_err(io(FileAction::Open, &path))?;
        let mut checkpoint = Checkpoint::read_manifest(Box::new(file), path)?;
        checkpoint.identity = identity;
        Ok(checkpoint)
    })
    .await
}

/// Bytes that a checkpoint may have besides memory and files: its manifest, and what compression
/// adds to what cannot be compressed.
const OVERHEAD: u64 = 128 << 20;

/// Takes a checkpoint of at most `max` bytes of memory and files from a reader, and reads its manifest.
pub(super) async fn receive(
    reader: Box<dyn std::io::Read + Send>,
    storage: Arc<Storage>,
    max: u64,
) -> Result<Checkpoint, Error> {
    blocking(move || {
        let path = PathBuf::from("(a reader)");
        let max = max.saturating_add(OVERHEAD);
        let mut to = BufWriter::with_capacity(BLOCK, storage.put_away());
        let read = std::io::copy(&mut reader.take(max.saturating_add(1)), &mut to);
        let read = read.and_then(|read| to.flush().map(|()| read));
        if read.map_err(io(FileAction::Read, &path))? > max {
            let reason = "it holds more than this runtime restores";
            return Err(SessionError::Format { path, reason }.into());
        }
        let (to, _) = to.into_parts();
        Checkpoint::read_manifest(Box::new(to.into_content().reader()), path)
    })
    .await
}

/// A checkpoint whose manifest was read.
pub(super) struct Checkpoint {
    opened: Opened,
    path: PathBuf,
    /// That of the file, if it is one that stays and has all chunks.
    identity: Option<Identity>,
    /// The store that has its chunks, the key of its manifest, and when that was surely there. `None`
    /// for a checkpoint that carries its chunks, wherever it came from.
    stored: Option<(Arc<dyn Store>, String, Version)>,
}

/// Contents of a checkpoint.
pub(super) struct Read {
    pub fixed: FixedSettings,
    pub past: Past,
    /// What of it is in chunks of the checkpoint.
    pub known: Arc<Named>,
    /// The file that they are in.
    pub filed: Option<Filed>,
    /// The store that they are in.
    pub written: Option<Written>,
    pub execution: u64,
    pub fuel: u64,
    pub times: Times,
    pub pending: Option<Pending>,
}

impl Checkpoint {
    /// Reads the manifest of a file; `path` is its name in errors. It blocks.
    fn read_manifest(file: Box<dyn Input>, path: PathBuf) -> Result<Self, Error> {
        let opened = Opened::open(file, &path)?;
        Ok(Self {
            opened,
            path,
            identity: None,
            stored: None,
        })
    }

    /// The image that it is made from.
    pub(super) fn image(&self) -> &ImageChoice {
        &self.opened.image
    }

    /// Reads everything, for a runtime that allows at most `ceilings`, and `max` bytes of memory
    /// and files.
    pub(super) async fn read(
        self,
        image: Arc<Image>,
        given: Given,
        storage: Arc<Storage>,
        (ceilings, max): (Bounds, u64),
    ) -> Result<Read, Error> {
        let Self {
            opened,
            path,
            identity,
            stored,
        } = self;
        blocking(move || {
            let chunks = opened.chunks;
            let mut read = opened.read(&image, given, storage, (&ceilings, max), &path)?;
            read.filed = Filed::found(path, identity, chunks, &read.known);
            if let Some((store, key, version)) = stored {
                let known = Arc::clone(&read.known);
                read.written = Some(Written::read(&store, &key, version, known));
            }
            Ok(read)
        })
        .await
    }
}

/// Runs `work` on a thread that may block.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    on_blocking_thread(work).await?
}

fn io(action: FileAction, path: &Path) -> impl FnOnce(std::io::Error) -> SessionError {
    move |source| SessionError::Io {
        action,
        path: path.to_owned(),
        source,
    }
}

/// Reads a checkpoint as if its image had no memory, into a store of its own: the entry for
/// fuzzing. Returns whether it is whole.
pub(crate) fn parse_checkpoint(bytes: &[u8], check_sum: bool) -> bool {
    read::parse(bytes, check_sum).is_some()
}

//! Checkpoints: a session as one file. `docs/internals/checkpoints.md` specifies the format.

mod apart;
mod baseline;
mod chunk_index;
pub(crate) mod chunk_key;
mod chunk_reader;
mod chunk_table;
mod chunker;
mod contents;
mod fetch;
mod format;
#[cfg(test)]
mod goldens;
mod input;
mod json;
mod lazy;
mod manifest_reader;
mod manifest_writer;
mod open_files;
mod pending;
mod problem;
mod read;
#[cfg(test)]
mod round_trips;
mod state_reader;
mod store_reader;
mod trim;
mod validate;
mod write;

use std::fs::File;
use std::io::{BufWriter, Read as _, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_recursion::async_recursion as boxed;
use belljar_files::{BLOCK, Content};

pub use self::apart::Saved;
pub(crate) use self::apart::{Apart, Last, Written};
pub(super) use self::baseline::Filed;
pub(crate) use self::contents::Frozen;
pub(crate) use self::format::Name;
use self::input::Input;
pub(super) use self::lazy::{Named, Reused};
use self::read::Opened;
pub(super) use self::store_reader::open as fetch;
pub(super) use self::validate::Given;
use super::SessionError;
use super::clock::Times;
use super::context::Context;
use super::options::FixedSettings;
use super::pending::Pending;
use super::storage::Storage;
use super::timeline::{Elsewhere, Past};
use crate::api::policy::RunLimits;
use crate::api::request::ImageChoice;
use crate::artifact::cache::CacheError;
use crate::artifact::cache::seal::Identity;
use crate::artifact::image::Image;
use crate::engine::on_blocking_thread;
use crate::error::Error;
use crate::error::session::FileAction;
use crate::store::{Store, Version};

/// A suspended session.
pub(super) struct Suspended {
    content: Content,
    /// States that are not in the file.
    elsewhere: Elsewhere,
}

/// Name of a suspended session in errors.
const SUSPENDED: &str = "(a suspended session)";

impl Suspended {
    /// Reads the session. The latest state is read now and the others on demand; their data is kept
    /// until then.
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
        // This process wrote the data, so its size is not limited.
        let bounds = (context.engine.ceilings, u64::MAX);
        let read = opened.read(image, given, storage, bounds).await?;
        Ok((read.past.with(&self.elsewhere), read.known))
    }
}

/// Suspends a session. Existing chunks are copied. Blocks.
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

/// Writes a session to `path`, atomically. Chunks in the file `filed`, if it is unchanged, are
/// copied.
#[boxed]
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
#[boxed]
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

/// Maximum size of a checkpoint beyond its memory and files: its manifest, and the overhead of
/// compressing incompressible data.
const OVERHEAD: u64 = 128 << 20;

/// Receives a checkpoint of at most `max` bytes of memory and files from a reader, and reads its
/// manifest.
#[boxed]
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

/// A checkpoint whose manifest is read.
pub(super) struct Checkpoint {
    opened: Opened,
    path: PathBuf,
    /// Identity of the file, if it is permanent and contains all chunks.
    identity: Option<Identity>,
    /// The store that contains the chunks, the key of the manifest, and a version under which the
    /// manifest existed. `None` for a checkpoint that contains its chunks.
    stored: Option<(Arc<dyn Store>, String, Version)>,
}

/// Contents of a checkpoint.
pub(super) struct Read {
    pub fixed: FixedSettings,
    pub past: Past,
    /// The parts of the session that are chunks of the checkpoint.
    pub known: Arc<Named>,
    /// The file that contains the chunks.
    pub filed: Option<Filed>,
    /// The store that contains the chunks.
    pub written: Option<Written>,
    pub execution: u64,
    pub fuel: u64,
    pub times: Times,
    pub pending: Option<Pending>,
}

impl Checkpoint {
    /// Reads the manifest of a file; `path` is its name in errors. Blocks.
    fn read_manifest(file: Box<dyn Input>, path: PathBuf) -> Result<Self, Error> {
        let opened = Opened::open(file, &path)?;
        Ok(Self {
            opened,
            path,
            identity: None,
            stored: None,
        })
    }

    /// Returns the image that the checkpoint is based on.
    pub(super) fn image(&self) -> &ImageChoice {
        &self.opened.image
    }

    /// Reads everything, for a runtime with the given `ceilings`, up to `max` bytes of memory and
    /// files.
    pub(super) async fn read(
        self,
        image: Arc<Image>,
        given: Given,
        storage: Arc<Storage>,
        (ceilings, max): (RunLimits, u64),
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

/// Whether bytes are a checkpoint or the manifest of a stored session.
pub(crate) fn is_manifest(bytes: &[u8]) -> bool {
    bytes.starts_with(format::MAGIC)
}

/// Returns the chunks that a manifest names. Returns `None` if this version cannot read it.
pub(crate) fn named_chunks(bytes: &[u8]) -> Option<impl Iterator<Item = Name> + use<>> {
    let (manifest, _) = manifest_reader::manifest(bytes, true).ok()?;
    Some(manifest.chunks.into_iter().map(|(name, _)| name))
}

/// Returns a manifest that names these chunks, for tests of their collection.
#[cfg(test)]
pub(crate) fn manifest_of(names: impl IntoIterator<Item = Name>) -> Vec<u8> {
    let session = goldens::golden();
    let mut layout =
        manifest_writer::Layout::of(&session, chunk_index::ChunkIndex::default()).unwrap();
    layout.manifest.carried = 0;
    layout.manifest.chunks = names.into_iter().map(|name| (name, 1)).collect();
    let head = write::head(&layout.manifest).unwrap();
    assert!(head.len() > format::HEAD);
    head
}

/// Runs `work` on a blocking thread.
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

/// Reads a checkpoint as if its image had no memory, into its own store. Entry point for fuzzing.
/// Returns whether the checkpoint is complete.
#[cfg(feature = "fuzzing")]
pub(crate) fn parse_checkpoint(bytes: &[u8], check_sum: bool) -> bool {
    read::parse(bytes, check_sum).is_some()
}

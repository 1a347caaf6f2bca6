//! Reads a session. All bytes are untrusted: a checksum detects damage, not malice.

use std::io::{Read, Seek};
use std::path::Path;
use std::sync::Arc;

use super::chunk_reader::{Carried, Chunks};
use super::format::{FIRST_VERSION, MAGIC, Manifest, Settings, VERSION};
use super::input::Input;
use super::manifest_reader::{Second, manifest};
use super::problem::Problem;
use super::validate::{Given, Room, fixed};
use crate::api::policy::RunLimits;
use crate::api::request::ImageChoice;
use crate::artifact::image::Image;
use crate::engine::run::no_files;
use crate::session::SessionError;
use crate::session::history::History;
use crate::session::storage::Storage;

/// A checkpoint whose manifest has been read.
pub(super) struct Opened {
    settings: Settings,
    rest: Second,
    pub image: ImageChoice,
    /// Offset of the chunks, in a file that contains all of them.
    pub chunks: Option<u64>,
}

impl Opened {
    /// Reads the manifest of a file that contains its chunks.
    pub(super) fn open(from: Box<dyn Input>, path: &Path) -> Result<Self, crate::error::Error> {
        Self::manifest(from, true).map_err(|problem| problem.at(path))
    }

    /// Uses a manifest whose chunks are stored elsewhere.
    pub(super) fn apart(manifest: Manifest, chunks: Box<dyn Chunks>) -> Self {
        let (settings, rest) = Second::of(manifest, chunks);
        Self {
            image: ImageChoice::Named(settings.image.name.clone()),
            settings,
            rest,
            chunks: None,
        }
    }

    fn manifest(mut from: Box<dyn Input>, is_summed: bool) -> Result<Self, Problem> {
        if !(FIRST_VERSION..=VERSION).contains(&version(&mut from)?) {
            return Err(Problem::OtherVersion);
        }
        let (manifest, start) = manifest(&mut from, is_summed)?;
        let is_whole = manifest.carried == manifest.chunks.len();
        let chunks = Carried::find(from, start, manifest.carried)?;
        let opened = Self::apart(manifest, Box::new(chunks));
        Ok(Self {
            chunks: is_whole.then_some(start),
            ..opened
        })
    }

    /// Reads the remaining data, for a runtime with the given `ceilings`, up to `max` bytes of
    /// memory and files.
    pub(super) fn read(
        mut self,
        image: &Image,
        given: Given,
        storage: Arc<Storage>,
        (ceilings, max): (&RunLimits, u64),
        path: &Path,
    ) -> Result<super::Read, crate::error::Error> {
        if self.settings.image.memory != image.identity {
            return Err(SessionError::Image {
                path: path.to_owned(),
                image: self.settings.image.name,
            }
            .into());
        }
        let fixed = fixed(&self.settings, given, ceilings, path)?;
        let files = storage.roots.files(&fixed.mounts, image.packages.as_ref());
        let files = files.map_err(no_files)?;
        let mut room = Room::of(&fixed, image.memory.len() as u64, max, files);
        let pending = self.rest.waiting(&mut room, &storage).map_err(|p| p.at(path))?;
        let history = History::new(fixed.history);
        let (execution, fuel) = (self.settings.execution, self.settings.fuel);
        let times = self.settings.times();
        let past = self.rest.read(&self.settings, room, storage, history, path);
        let (past, known) = past.map_err(|problem| problem.at(path))?;
        Ok(super::Read {
            fixed,
            past,
            known: known.into(),
            filed: None,
            written: None,
            execution,
            fuel,
            times,
            pending,
        })
    }
}

/// Checks the magic, reads the version, and rewinds to the start.
fn version(from: &mut Box<dyn Input>) -> Result<u32, Problem> {
    let mut head = Vec::with_capacity(12);
    from.by_ref().take(12).read_to_end(&mut head)?;
    if !head.starts_with(&MAGIC[..head.len().min(MAGIC.len())]) {
        return Err(Problem::NotCheckpoint);
    }
    let version = head.get(8..12).and_then(|word| word.try_into().ok());
    let version = version.ok_or(Problem::Format("it ends too early"))?;
    from.rewind()?;
    Ok(u32::from_le_bytes(version))
}

/// Entry point for fuzzing: reads all data that needs no image.
#[cfg(feature = "fuzzing")]
pub(super) fn parse(bytes: &[u8], is_summed: bool) -> Option<()> {
    use crate::sandbox::Roots;
    use crate::session::lazy::Earlier;

    let opened =
        Opened::manifest(Box::new(std::io::Cursor::new(bytes.to_vec())), is_summed).ok()?;
    let path = Path::new("(bytes)");
    let Opened {
        settings, mut rest, ..
    } = opened;
    let fixed = fixed(&settings, Given::default(), &RunLimits::CEILINGS, path).ok()?;
    // Larger inputs find nothing new and are slow.
    let dir = std::env::temp_dir();
    let suspended = Storage::room(&dir);
    let storage = Storage::create(Roots::without_library(dir).ok()?, suspended).ok()?;
    let files = storage.roots.files(&fixed.mounts, None).ok()?;
    let mut room = Room::of(&fixed, 0, 32 << 20, files);
    rest.waiting(&mut room, &storage).ok()?;
    let history = History::new(fixed.history);
    let (mut past, _) = rest.read(&settings, room, Arc::new(storage), history, path).ok()?;
    // First each state by itself until one fails, then all of them.
    let earlier = past.history.entries().map(|entry| &entry.state);
    let _ = earlier
        .chain([&past.origin])
        .map(Earlier::read)
        .fold(0, |read, state| read + usize::from(state.is_ok()));
    past.settle().ok()
}

//! Reads a session, in whichever version of the format. Every byte is taken for hostile: a checksum
//! tells damage, not intent.

use std::io::{self, Read, Seek};
use std::path::Path;
use std::sync::Arc;

use super::chunks::{Carried, Chunks};
use super::first::First;
use super::format::{MAGIC, Manifest, Settings, VERSION};
use super::input::Input;
use super::later::Named;
use super::layout::Known;
use super::problem::Problem;
use super::rules::{Room, fixed};
use super::second::{Second, manifest};
use super::stored::Written;
use crate::api::policy::Bounds;
use crate::api::request::{ImageChoice, Mount};
use crate::image::Image;
use crate::memory::PageStore;
use crate::session::SessionError;
use crate::session::earlier::Earlier;
use crate::session::history::History;
use crate::session::past::Past;
use crate::session::storage::Storage;
use crate::workspace::Spool;

/// A checkpoint whose manifest has been read.
pub(super) struct Opened {
    settings: Settings,
    rest: Rest,
    pub image: ImageChoice,
    /// Where the chunks begin, in a file that carries them all.
    pub chunks: Option<u64>,
}

/// Everything else, by the version of the format.
enum Rest {
    First(First<Box<dyn Input>>),
    Second(Second),
}

impl Opened {
    /// Reads the manifest of a file that carries its chunks.
    pub(super) fn open(from: Box<dyn Input>, path: &Path) -> Result<Self, crate::error::Error> {
        Self::manifest(from, true).map_err(|problem| problem.at(path))
    }

    /// Takes a manifest whose chunks are elsewhere.
    pub(super) fn apart(manifest: Manifest, chunks: Box<dyn Chunks>) -> Self {
        let (settings, second) = Second::of(manifest, chunks);
        Self::of(settings, Rest::Second(second))
    }

    fn manifest(mut from: Box<dyn Input>, is_summed: bool) -> Result<Self, Problem> {
        match version(&mut from)? {
            1 => {
                let (settings, first) = First::open(from, is_summed)?;
                Ok(Self::of(settings, Rest::First(first)))
            }
            VERSION => {
                let (manifest, start) = manifest(&mut from, is_summed)?;
                let is_whole = manifest.carried == manifest.chunks.len();
                let chunks = Carried::find(from, start, manifest.carried)?;
                let opened = Self::apart(manifest, Box::new(chunks));
                Ok(Self {
                    chunks: is_whole.then_some(start),
                    ..opened
                })
            }
            _ => Err(Problem::OtherVersion),
        }
    }

    fn of(settings: Settings, rest: Rest) -> Self {
        Self {
            image: ImageChoice::Named(settings.image.name.clone()),
            settings,
            rest,
            chunks: None,
        }
    }

    /// Reads everything else, for a runtime that allows at most `ceilings`, and `max` bytes of
    /// memory and files.
    pub(super) fn read(
        mut self,
        image: &Image,
        mounts: Vec<Mount>,
        storage: Arc<Storage>,
        (ceilings, max): (&Bounds, u64),
        path: &Path,
    ) -> Result<super::Read, crate::error::Error> {
        if self.settings.image.memory != image.identity {
            return Err(SessionError::Image {
                path: path.to_owned(),
                image: self.settings.image.name,
            }
            .into());
        }
        let (fixed, bounds) = fixed(&self.settings, mounts, ceilings, path)?;
        let room = Room {
            image: image.memory.len() as u64,
            bounds,
            mounts: fixed.mounts.len(),
            history: self.settings.history_bounds.bytes,
            max,
        };
        let pending = self.settings.waiting.take().map(|entry| {
            entry.read().ok_or(Problem::Format("the run that waits is not written as one"))
        });
        let pending = pending.transpose().map_err(|problem| problem.at(path))?;
        let history = History::new(fixed.history);
        let (execution, fuel) = (self.settings.execution, self.settings.fuel);
        let (past, known) =
            self.past(room, storage, history, path).map_err(|problem| problem.at(path))?;
        Ok(super::Read {
            fixed,
            past,
            known: known.into(),
            filed: None,
            written: Written::default(),
            execution,
            fuel,
            pending,
        })
    }

    fn past(
        self,
        room: Room,
        storage: Arc<Storage>,
        history: History,
        path: &Path,
    ) -> Result<(Past, Named), Problem> {
        match self.rest {
            Rest::First(first) => {
                let past = first.read(&self.settings, &room, &storage, history)?;
                Ok((past, Known::default().into()))
            }
            Rest::Second(second) => second.read(&self.settings, room, storage, history, path),
        }
    }
}

/// Checks the magic, reads the version, and goes back to the start.
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

/// The entry for fuzzing: everything that can be read without an image.
pub(super) fn parse(bytes: &[u8], is_summed: bool) -> Option<()> {
    let opened = Opened::manifest(Box::new(io::Cursor::new(bytes.to_vec())), is_summed).ok()?;
    let path = Path::new("(bytes)");
    let (fixed, bounds) = fixed(&opened.settings, Vec::new(), &Bounds::CEILINGS, path).ok()?;
    let room = Room {
        image: 0,
        bounds,
        mounts: 0,
        history: opened.settings.history_bounds.bytes,
        // Larger ones are as good, and slow.
        max: 32 << 20,
    };
    let storage = Storage {
        pages: PageStore::new().ok()?,
        spool: Spool::create(&std::env::temp_dir()).ok()?,
    };
    let history = History::new(fixed.history);
    let (mut past, _) = opened.past(room, Arc::new(storage), history, path).ok()?;
    // One by one as far as they can be read, and then all of them.
    let earlier = past.history.entries().map(|entry| &entry.state);
    let _ = earlier
        .chain([&past.origin])
        .map(Earlier::read)
        .fold(0, |read, state| read + usize::from(state.is_ok()));
    past.settle().ok()
}

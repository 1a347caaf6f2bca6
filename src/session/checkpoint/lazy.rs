//! Lazy states: states of a checkpoint that are read on demand.

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use belljar_files::Files;
use belljar_memory::Pages;

use super::chunk_index::ChunkIndex;
use super::chunk_table::Listing;
use super::fetch::{Faded, Fetched};
use super::format::Name;
use super::problem::Problem;
use super::state_reader::{Documents, Made};
use super::validate::Room;
use crate::error::Error;
use crate::session::lazy::{Earlier, Source, Unread};
use crate::session::state::State;
use crate::session::storage::Storage;

/// A checkpoint of which only the latest state has been read.
pub(in crate::session) struct Later {
    path: PathBuf,
    stage: Mutex<Stage>,
    /// Places of its states. Places that no session holds are skipped.
    places: OnceLock<Vec<Weak<Unread>>>,
}

enum Stage {
    Unread(Box<Rest>),
    /// Metadata of all requested states is loaded; their pages are not.
    Outlined(Box<(Rest, Made)>),
    /// All requested states are loaded; the parts that are in chunks.
    Read(ChunkIndex),
}

/// The data needed to read the remaining states.
pub(super) struct Rest {
    listing: Arc<Listing>,
    /// The latest state, which shares most of its pages and files with the others.
    latest: Weak<State>,
    name: Name,
    fetched: Faded,
    contents: Option<(Name, Weak<Files>, Vec<u32>)>,
    /// Remaining limit on the documents' size, in bytes.
    left: u64,
    /// Bytes placed by the host in the latest state.
    placed: u64,
    room: Room,
    storage: Arc<Storage>,
}

/// The parts of a session that are in chunks of the file or store that it was restored from or last
/// written to.
pub(crate) struct Named {
    index: ChunkIndex,
    later: Option<Arc<Later>>,
    /// Whether the session was written since then; `index` then includes all data read from
    /// `later`.
    is_laid: bool,
}

/// Chunks that can be copied unchanged, and the parts of a session in them.
pub(in crate::session) struct Reused {
    pub(super) index: ChunkIndex,
    pub(super) listing: Arc<Listing>,
    /// The chunks are in a private file of this process, so they are copied without verification.
    pub(super) is_own: bool,
}

impl Named {
    pub(super) fn of(index: ChunkIndex, later: Option<Arc<Later>>) -> Self {
        Self {
            index,
            later,
            is_laid: false,
        }
    }

    /// Describes a session that was just written, after some of its states were only `outlined`.
    pub(super) fn laid(index: ChunkIndex, outlined: Option<&Self>) -> Self {
        Self {
            index,
            later: outlined.and_then(|outlined| outlined.later.clone()),
            is_laid: true,
        }
    }

    /// Returns the source that the session was restored from. States need no pages to be written
    /// back there.
    pub(in crate::session) fn source(&self) -> Option<Arc<dyn Source>> {
        self.later.clone().map(|later| later as _)
    }

    /// Returns the chunks, while some of them are still unread.
    pub(in crate::session) fn reused(&self) -> Option<Reused> {
        let stage = self.later.as_ref()?.lock();
        let (index, rest) = match &*stage {
            Stage::Unread(rest) => (self.index.clone(), &**rest),
            Stage::Outlined(both) => (both.1.index.with_documents_of(&self.index), &both.0),
            Stage::Read(_) => return None,
        };
        let listing = Arc::clone(&rest.listing);
        Some(Reused {
            index,
            listing,
            is_own: true,
        })
    }

    /// Returns the index of all data read so far.
    pub(super) fn index(&self) -> ChunkIndex {
        if self.is_laid {
            return self.index.clone();
        }
        let read = self.later.as_ref().and_then(|later| match &*later.lock() {
            Stage::Unread(_) => None,
            Stage::Outlined(both) => Some(both.1.index.with_documents_of(&self.index)),
            Stage::Read(index) => Some(index.with_documents_of(&self.index)),
        });
        read.unwrap_or_else(|| self.index.clone())
    }
}

impl Rest {
    /// Returns the data that remains after the latest state was built.
    pub(super) fn after(
        listing: Listing,
        (latest, name, made): (&Arc<State>, Name, Made),
        (left, placed): (u64, u64),
        room: Room,
        storage: Arc<Storage>,
    ) -> Self {
        let contents = made.contents.into_iter().next();
        Self {
            listing: listing.into(),
            latest: Arc::downgrade(latest),
            name,
            fetched: made.fetched.fade(),
            contents: contents.map(|(name, (tree, chunks))| (name, Arc::downgrade(&tree), chunks)),
            left,
            placed,
            room,
            storage,
        }
    }

    /// Reads states, based on the latest state if it still exists.
    fn read(&self, names: &BTreeSet<Name>, with_pages: bool) -> Result<Made, Problem> {
        let latest = self.latest.upgrade();
        let pages: Option<Arc<Pages>> =
            latest.as_ref().map(|latest| Arc::clone(&latest.kept.pages));
        let before = match &latest {
            Some(_) => self.fetched.again(),
            None => Fetched::default(),
        };
        let mut documents = Documents::beside(&self.listing, &before, self.left);
        documents.placed = self.placed;
        if let Some((name, contents, chunks)) = &self.contents
            && let Some(contents) = contents.upgrade()
        {
            documents.know(*name, contents, chunks.clone());
        }
        documents.read(names)?;
        documents.make(&self.room, pages.as_ref(), &self.storage, with_pages)
    }
}

impl Later {
    /// Returns the remaining checkpoint, and the places of its states by number.
    pub(super) fn of(
        rest: Rest,
        latest: &Arc<State>,
        path: &Path,
    ) -> (Option<Arc<Self>>, Vec<Earlier>) {
        let (names, name) = (rest.listing.states.clone(), rest.name);
        if names.iter().all(|other| *other == name) {
            return (None, names.iter().map(|_| Arc::clone(latest).into()).collect());
        }
        let later = Arc::new(Self {
            path: path.to_owned(),
            stage: Mutex::new(Stage::Unread(Box::new(rest))),
            places: OnceLock::new(),
        });
        // A state that is listed twice is read once.
        let mut unread: HashMap<Name, Arc<Unread>> = HashMap::new();
        let (mut states, mut places) = (Vec::with_capacity(names.len()), Vec::new());
        for (number, own) in names.iter().enumerate() {
            if *own == name {
                states.push(Arc::clone(latest).into());
                continue;
            }
            let new = || Arc::new(Unread::new(Arc::clone(&later) as Arc<dyn Source>, number));
            let place = unread.entry(*own).or_insert_with(|| {
                let place = new();
                places.push(Arc::downgrade(&place));
                place
            });
            states.push(Earlier::There(Arc::clone(place)));
        }
        let _ = later.places.set(places);
        (Some(later), states)
    }

    fn lock(&self) -> MutexGuard<'_, Stage> {
        self.stage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the empty places that are still in use, each once.
    fn wanted(&self) -> Vec<Arc<Unread>> {
        let places = self.places.get().into_iter().flatten();
        places.filter_map(Weak::upgrade).filter(|place| !place.is_read()).collect()
    }

    fn make(
        &self,
        rest: &Rest,
        places: &[Arc<Unread>],
        with_pages: bool,
        put: impl Fn(&Unread, Arc<State>),
    ) -> Result<Made, Error> {
        let name = |place: &Arc<Unread>| rest.listing.states[place.number()];
        let names: BTreeSet<Name> = places.iter().map(name).collect();
        let made = rest.read(&names, with_pages);
        let made = made.map_err(|problem| problem.at(&self.path))?;
        for place in places {
            if let Some(state) = made.states.get(&name(place)) {
                put(place, Arc::clone(state));
            }
        }
        Ok(made)
    }
}

impl Source for Later {
    fn read(&self, places: &[Arc<Unread>]) -> Result<(), Error> {
        let mut stage = self.lock();
        let wanted = self.wanted();
        let (rest, read) = match &*stage {
            Stage::Read(_) => return Ok(()),
            Stage::Unread(rest) => {
                (&**rest, self.make(rest, &wanted, true, Unread::fill).map(|made| made.index))
            }
            Stage::Outlined(both) => {
                let (rest, made) = &**both;
                let filled = made.fetched.fill(rest.listing.source());
                let filled = filled.map(|()| {
                    for place in &wanted {
                        place.fill_outline();
                    }
                    made.index.clone()
                });
                (rest, filled.map_err(|problem| problem.at(&self.path)))
            }
        };
        match read {
            Ok(index) => *stage = Stage::Read(index),
            // There are no other places to fall back on.
            Err(error) if wanted.len() <= places.len() => return Err(error),
            Err(_) => drop(self.make(rest, places, true, Unread::fill)?),
        }
        Ok(())
    }

    fn outline(&self) -> Result<(), Error> {
        let mut stage = self.lock();
        let Stage::Unread(rest) = &*stage else {
            return Ok(());
        };
        let made = self.make(rest, &self.wanted(), false, Unread::set_outline)?;
        let index = Stage::Read(ChunkIndex::default());
        if let Stage::Unread(rest) = std::mem::replace(&mut *stage, index) {
            *stage = Stage::Outlined(Box::new((*rest, made)));
        }
        Ok(())
    }
}

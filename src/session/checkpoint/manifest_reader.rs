//! Reads a manifest and its states: the latest state at once, the others on demand.

use std::collections::BTreeSet;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use super::chunk_reader::Chunks;
use super::chunk_table::Listing;
use super::fetch::Fetched;
use super::format::{HEAD, Manifest, Name, SUM, Settings};
use super::json;
use super::lazy::{Later, Named, Rest};
use super::pending;
use super::problem::Problem;
use super::state_reader::Documents;
use super::validate::{Room, past};
use crate::limits::MAX_CHECKPOINT_MANIFEST;
use crate::session::history::{History, HistoryEntry};
use crate::session::pending::Pending;
use crate::session::storage::Storage;
use crate::session::timeline::Past;

/// Reads the manifest. Also returns the offset of the chunks.
pub(super) fn manifest(mut from: impl Read, is_summed: bool) -> Result<(Manifest, u64), Problem> {
    let (mut head, mut sum) = ([0; HEAD], [0; SUM]);
    from.read_exact(&mut head)?;
    from.read_exact(&mut sum)?;
    let word = |at: usize| u32::from_le_bytes(head[at..at + 4].try_into().unwrap_or_default());
    let (length, compressed) = (word(12), word(16));
    if length > MAX_CHECKPOINT_MANIFEST || compressed > MAX_CHECKPOINT_MANIFEST {
        return Err(Problem::Format("its manifest is too long"));
    }
    let mut bytes = Vec::new();
    from.take(u64::from(compressed)).read_to_end(&mut bytes)?;
    if bytes.len() < compressed as usize {
        return Err(Problem::Format("it ends too early"));
    }
    let mut found = blake3::Hasher::new();
    found.update(&head).update(&bytes);
    if is_summed && *found.finalize().as_bytes() != sum {
        return Err(Problem::Format("it was cut short or altered: its checksum does not match"));
    }
    let manifest = zstd::bulk::decompress(&bytes, length as usize)
        .map_err(|_| Problem::Format("its manifest cannot be decompressed"))?;
    Ok((json::manifest(&manifest)?, (HEAD + SUM) as u64 + u64::from(compressed)))
}

/// The part of a manifest after the session's settings.
pub(super) struct Second {
    listing: Listing,
    origin: usize,
    current: usize,
    history: Vec<(HistoryEntry, usize)>,
    waiting: Vec<Name>,
}

impl Second {
    /// Splits a manifest and its chunks into the settings and the rest.
    pub(super) fn of(manifest: Manifest, chunks: Box<dyn Chunks>) -> (Settings, Self) {
        let second = Self {
            listing: Listing::of(manifest.chunks, chunks, manifest.states),
            origin: manifest.origin,
            current: manifest.current,
            history: manifest.history,
            waiting: manifest.waiting,
        };
        (manifest.session, second)
    }

    /// Reads the waiting run, if there is one, within the total limit of `room`.
    pub(super) fn waiting(
        &mut self,
        room: &mut Room,
        storage: &Storage,
    ) -> Result<Option<Pending>, Problem> {
        let names = std::mem::take(&mut self.waiting);
        if names.is_empty() {
            return Ok(None);
        }
        let (pending, bytes) = pending::read(&self.listing, &names, room.max, storage)?;
        room.max = room.max.saturating_sub(bytes);
        Ok(Some(pending))
    }

    /// Reads the latest state, and fails if it exceeds `room`. The other states are read on demand;
    /// their errors name `path`.
    pub(super) fn read(
        self,
        settings: &Settings,
        room: Room,
        storage: Arc<Storage>,
        history: History,
        path: &Path,
    ) -> Result<(Past, Named), Problem> {
        let Self {
            listing,
            origin,
            current,
            history: runs,
            waiting: _,
        } = self;
        if !settings.is_in_bounds(listing.states.len(), runs.len()) {
            return Err(Problem::Format("its history is too long"));
        }
        listing.check()?;
        let no_state = Problem::Format("it names a state that is not there");
        let latest = *listing.states.get(current).ok_or(no_state)?;
        let nothing = Fetched::default();
        let mut documents = Documents::beside(&listing, &nothing, room.documents());
        documents.read(&BTreeSet::from([latest]))?;
        let (left, placed) = (documents.left, documents.placed);
        let mut made = documents.make(&room, None, &storage, true)?;
        let state = made.states.remove(&latest).ok_or(Problem::Format("its state was not read"))?;
        let index = std::mem::take(&mut made.index);
        let rest = Rest::after(listing, (&state, latest, made), (left, placed), room, storage);
        let (later, states) = Later::of(rest, &state, path);
        let past = past(&states, (origin, current), runs, settings.execution, history)?;
        Ok((past, Named::of(index, later)))
    }
}

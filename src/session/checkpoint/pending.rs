//! The waiting run of a session: its request is a document, and its inputs are chunks.

use std::io::{self, Read};

use belljar_files::Content;
use serde::{Deserialize, Serialize};

use super::chunk_table::Listing;
use super::format::{FILE_CHUNK, Name, PieceEntry};
use super::json::{self, VALUE_BYTES};
use super::problem::Problem;
use super::state_reader::Documents;
use super::validate::too_much;
use crate::session::pending::{Pending, PendingEntry};
use crate::session::storage::Storage;

/// A waiting run. Its inputs are pieces of chunks, by their index in `chunks`.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WaitingDocument {
    pub chunks: Vec<Name>,
    /// Number of pieces of each input: standard input, then each input file.
    pub inputs: Vec<u32>,
    pub pieces: Vec<PieceEntry>,
    pub run: PendingEntry,
}

/// Splits a document or an input into parts, each of which gets its own chunk.
pub(super) fn parts(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    bytes.chunks(FILE_CHUNK as usize)
}

/// Reads the run whose document is in the chunks `names`, up to `max` bytes. Also returns its size.
pub(super) fn read(
    listing: &Listing,
    names: &[Name],
    max: u64,
    storage: &Storage,
) -> Result<(Pending, u64), Problem> {
    let numbers = listing.numbers(names)?;
    let whole: Vec<PieceEntry> =
        (0..).zip(&numbers).map(|(place, number)| (place, 0, listing.length(*number))).collect();
    let counts = [whole.len() as u32];
    let files = Documents::fetch_files(listing, (&counts, &whole, names), max, storage)?;
    let text = read_all(files.first().ok_or(INVALID)?)?;
    let values = json::values(&text).saturating_mul(VALUE_BYTES);
    let own = (text.len() as u64).saturating_add(values);
    let left = max.checked_sub(own).ok_or_else(too_much)?;
    let document: WaitingDocument = serde_json::from_slice(&text).map_err(|_| INVALID)?;
    let WaitingDocument {
        chunks,
        inputs,
        pieces,
        run,
    } = document;
    let files = Documents::fetch_files(listing, (&inputs, &pieces, &chunks), left, storage)?;
    let size: u64 = files.iter().map(Content::len).sum();
    let bytes = files.iter().map(read_all).collect::<Result<Vec<_>, _>>()?;
    let pending = run.with_inputs(bytes).ok_or(INVALID)?;
    Ok((pending, own.saturating_add(size)))
}

fn read_all(file: &Content) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.reader().read_to_end(&mut bytes)?;
    Ok(bytes)
}

const INVALID: Problem = Problem::Format("the run that waits is not valid");

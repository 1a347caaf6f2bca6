//! The lists of a manifest: a session's chunks, and its states among them.

use std::collections::HashMap;

use super::chunk_reader::Chunks;
use super::format::Name;
use super::problem::Problem;

/// All chunks of a checkpoint.
pub(super) struct Listing {
    /// Names and sizes of the chunks, by number.
    pub listed: Vec<(Name, u32)>,
    pub chunks: Box<dyn Chunks>,
    numbers: HashMap<Name, u32>,
    /// Documents of the states.
    pub states: Vec<Name>,
}

impl Listing {
    pub(super) fn of(listed: Vec<(Name, u32)>, chunks: Box<dyn Chunks>, states: Vec<Name>) -> Self {
        let numbers = listed.iter().zip(0..).map(|((name, _), number)| (*name, number));
        Self {
            numbers: numbers.collect(),
            listed,
            chunks,
            states,
        }
    }

    /// Checks that each chunk is listed once, and that every state is listed.
    pub(super) fn check(&self) -> Result<(), Problem> {
        if self.numbers.len() != self.listed.len() {
            return Err(Problem::Format("it lists a chunk twice"));
        }
        self.numbers(&self.states).map(drop)
    }

    /// Returns the source of the chunks, with their names and sizes.
    pub(super) fn source(&self) -> (&dyn Chunks, &[(Name, u32)]) {
        (&*self.chunks, &self.listed)
    }

    /// Returns the size of a chunk, in bytes.
    pub(super) fn length(&self, number: u32) -> u32 {
        self.listed[number as usize].1
    }

    pub(super) fn number(&self, name: Name) -> Result<u32, Problem> {
        let unlisted = Problem::Format("it names a chunk that it does not list");
        self.numbers.get(&name).copied().ok_or(unlisted)
    }

    pub(super) fn numbers(&self, names: &[Name]) -> Result<Vec<u32>, Problem> {
        names.iter().map(|name| self.number(*name)).collect()
    }
}

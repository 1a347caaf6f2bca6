//! What every system but Linux has in common here: files are read and written, and nothing says which
//! pages of memory were written.
#![expect(
    unsafe_code,
    reason = "has the signatures of the functions that map memory elsewhere"
)]

mod files;

use std::fs::File;
use std::ops::Range;
use std::sync::Arc;

pub(in crate::memory) use files::{
    anonymous_file, memory_of, read_exact_at, release, reserve, without_holes, write_all_at,
};

use wasmtime::StackCreator;

use crate::memory::MemoryError;

/// The file of a page store is not looked at as memory.
#[derive(Debug)]
pub(in crate::memory) enum View {}

impl View {
    pub(in crate::memory) fn of(_file: &File) -> Option<Self> {
        None
    }

    pub(in crate::memory) fn is_same(&self, _at: u64, _bytes: &[u8]) -> Option<bool> {
        match *self {}
    }

    pub(in crate::memory) fn read(&self, _at: u64, _target: &mut [u8]) -> bool {
        match *self {}
    }

    /// # Safety
    ///
    /// None is needed: there is no view to write through.
    pub(in crate::memory) unsafe fn write(&self, _at: u64, _slices: &[&[u8]]) -> bool {
        match *self {}
    }
}

/// Leave to map pages into a region. There is none.
#[derive(Clone, Debug)]
pub(crate) enum Extent {}

impl Extent {
    /// Replaces `target` by what `file` has from `at` on.
    ///
    /// # Safety
    ///
    /// None is needed: there is no extent to map into.
    pub(in crate::memory) unsafe fn map_over(
        &self,
        _target: &mut [u8],
        _file: &File,
        _at: u64,
    ) -> Result<(), MemoryError> {
        match *self {}
    }
}

/// `None`: wasmtime makes its stacks itself.
pub(crate) fn stacks() -> Option<Arc<dyn StackCreator>> {
    None
}

/// Has the system note which pages of `range` are written; it cannot.
pub(in crate::memory) fn watch(_range: Range<usize>) -> bool {
    false
}

/// Has the system protect all of `range`; it cannot.
pub(in crate::memory) fn protect(_range: Range<usize>) -> bool {
    false
}

/// What is not protected any more; nobody knows.
pub(in crate::memory) fn unprotected_pages(
    _range: Range<usize>,
    _protect: bool,
) -> Option<Vec<Range<usize>>> {
    None
}

/// What was written since the last protection; nobody knows.
pub(in crate::memory) fn written_pages(
    _range: Range<usize>,
    _protect: bool,
) -> Option<Vec<Range<usize>>> {
    None
}

/// What was written since the image was mapped; nobody knows.
pub(in crate::memory) fn private_pages(
    _range: Range<usize>,
    _max_bytes: usize,
) -> Option<Vec<Range<usize>>> {
    None
}

/// A number that no process has that this one was forked from, unless the system gave it again.
pub(in crate::memory) fn process_number() -> u64 {
    u64::from(std::process::id())
}

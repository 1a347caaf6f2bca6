//! Shared implementation for all systems except Linux: files are read and written, and the system
//! does not report which pages were written.
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

/// A memory view of a page store's file, which does not exist here.
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
    /// No requirements: no view exists.
    pub(in crate::memory) unsafe fn write(&self, _at: u64, _slices: &[&[u8]]) -> bool {
        match *self {}
    }
}

/// Permission to map pages into a region, which does not exist here.
#[derive(Clone, Debug)]
pub(crate) enum Extent {}

impl Extent {
    /// Replaces `target` by the bytes of `file` at offset `at`.
    ///
    /// # Safety
    ///
    /// No requirements: no extent exists.
    pub(in crate::memory) unsafe fn map_over(
        &self,
        _target: &mut [u8],
        _file: &File,
        _at: u64,
    ) -> Result<(), MemoryError> {
        match *self {}
    }
}

/// Returns `None`: wasmtime creates stacks itself.
pub(crate) fn stacks() -> Option<Arc<dyn StackCreator>> {
    None
}

/// Returns false: the system cannot watch pages.
pub(in crate::memory) fn watch(_range: Range<usize>) -> bool {
    false
}

/// Returns false: the system cannot protect pages for this purpose.
pub(in crate::memory) fn protect(_range: Range<usize>) -> bool {
    false
}

/// Returns `None`: the system does not report unprotected pages.
pub(in crate::memory) fn unprotected_pages(
    _range: Range<usize>,
    _protect: bool,
) -> Option<Vec<Range<usize>>> {
    None
}

/// Returns `None`: the system does not report written pages.
pub(in crate::memory) fn written_pages(
    _range: Range<usize>,
    _protect: bool,
) -> Option<Vec<Range<usize>>> {
    None
}

/// Returns `None`: the system does not report private pages.
pub(in crate::memory) fn private_pages(
    _range: Range<usize>,
    _max_bytes: usize,
) -> Option<Vec<Range<usize>>> {
    None
}

/// Returns a number that differs from those of all ancestor processes, unless the system has reused
/// it.
pub(in crate::memory) fn process_number() -> u64 {
    u64::from(std::process::id())
}

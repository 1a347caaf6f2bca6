//! Shared implementation for all systems except Linux: files are read and written, and the system
//! does not report which pages were written.
#![expect(
    unsafe_code,
    reason = "has the signatures of the functions that map memory elsewhere"
)]

mod files;

use std::fs::File;
use std::ops::Range;

pub(crate) use files::{
    anonymous_file, memory_of, read_exact_at, release, reserve, without_holes, write_all_at,
};

use crate::MemoryError;

/// A memory view of a page store's file, which does not exist here.
#[derive(Debug)]
pub(crate) enum View {}

impl View {
    pub(crate) fn of(_file: &File) -> Option<Self> {
        None
    }

    pub(crate) fn is_same(&self, _at: u64, _bytes: &[u8]) -> Option<bool> {
        match *self {}
    }

    pub(crate) fn read(&self, _at: u64, _target: &mut [u8]) -> bool {
        match *self {}
    }

    /// # Safety
    ///
    /// No requirements: no view exists.
    pub(crate) unsafe fn write(&self, _at: u64, _slices: &[&[u8]]) -> bool {
        match *self {}
    }
}

/// Permission to map pages into a region, which does not exist here.
#[derive(Clone, Debug)]
pub enum Extent {}

impl Extent {
    /// Replaces `target` by the bytes of `file` at offset `at`.
    ///
    /// # Safety
    ///
    /// No requirements: no extent exists.
    pub(crate) unsafe fn map_over(
        &self,
        _target: &mut [u8],
        _file: &File,
        _at: u64,
    ) -> Result<(), MemoryError> {
        match *self {}
    }
}

/// Stacks of guests, which are not reused here.
#[derive(Debug)]
pub enum Stacks {}

impl Stacks {
    /// Returns `None`: the engine creates stacks itself.
    pub fn new() -> Option<Self> {
        None
    }

    /// Returns a stack.
    ///
    /// # Errors
    ///
    /// None: no stacks exist.
    pub fn take(&self, _size: usize) -> Result<Stack, MemoryError> {
        match *self {}
    }
}

/// A stack, which does not exist here.
#[derive(Debug)]
pub enum Stack {}

impl Stack {
    /// Returns the end of the stack.
    pub fn top(&self) -> *mut u8 {
        match *self {}
    }

    /// Returns the addresses of the stack.
    pub fn range(&self) -> Range<usize> {
        match *self {}
    }

    /// Returns the inaccessible memory below the stack.
    pub fn guard(&self) -> Range<*mut u8> {
        match *self {}
    }
}

/// Returns false: the system cannot watch pages.
pub(crate) fn watch(_range: Range<usize>) -> bool {
    false
}

/// Returns false: the system cannot protect pages for this purpose.
pub(crate) fn protect(_range: Range<usize>) -> bool {
    false
}

/// Returns `None`: the system does not report unprotected pages.
pub(crate) fn unprotected_pages(_range: Range<usize>, _protect: bool) -> Option<Vec<Range<usize>>> {
    None
}

/// Returns `None`: the system does not report written pages.
pub(crate) fn written_pages(_range: Range<usize>, _protect: bool) -> Option<Vec<Range<usize>>> {
    None
}

/// Returns `None`: the system does not report private pages.
pub(crate) fn private_pages(_range: Range<usize>, _max_bytes: usize) -> Option<Vec<Range<usize>>> {
    None
}

/// Returns a number that differs from those of all ancestor processes, unless the system has reused
/// it.
pub(crate) fn process_number() -> u64 {
    u64::from(std::process::id())
}

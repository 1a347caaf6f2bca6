//! Windows: images are mapped copy-on-write in the place of placeholders, which keep address space for them
//! (from Windows 10, version 1803, on), and nothing says which pages were written.
//!
//! A region is put back by mapping its image anew, and what a session wrote is found by comparing. Pages of
//! sessions are copied: what is mapped begins at a multiple of 64 KiB.

pub(in crate::memory) use super::mapping::{Backing, Extent, Region};
pub(crate) use super::not_linux::stacks;
pub(in crate::memory) use super::not_linux::{
    View, anonymous_file, memory_of, private_pages, process_number, protect, read_exact_at,
    release, reserve, unprotected_pages, watch, without_holes, write_all_at, written_pages,
};

/// Images are mapped.
pub(in crate::memory) const MAPS_IMAGES: bool = true;

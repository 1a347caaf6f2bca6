//! Unix systems that keep what is read from a file and what is mapped of it in one place: images are
//! mapped copy-on-write, and nothing says which pages were written.
//!
//! A region is put back by mapping its image anew, and what a session wrote is found by comparing. Here
//! belong macOS and FreeBSD; OpenBSD does not, where a mapping need not show what was written to its file.

pub(in crate::memory) use super::mapping::{Backing, Extent, Region};
pub(crate) use super::not_linux::stacks;
pub(in crate::memory) use super::not_linux::{
    View, anonymous_file, memory_of, private_pages, process_number, protect, read_exact_at,
    release, reserve, unprotected_pages, watch, without_holes, write_all_at, written_pages,
};

/// Images are mapped.
pub(in crate::memory) const MAPS_IMAGES: bool = true;

//! Unix systems with a unified cache for file reads and mappings: images are mapped copy-on-write,
//! and the system does not report which pages were written.
//!
//! A region is reset by mapping its image again, and a session's writes are found by comparison.
//! This applies to macOS and FreeBSD. It does not apply to OpenBSD, where a mapping may not show
//! writes to its file.

pub(crate) use super::mapping::Region;
pub use super::mapping::{Backing, Extent};
pub use super::not_linux::{Stack, Stacks};
pub(crate) use super::not_linux::{
    View, anonymous_file, memory_of, private_pages, process_number, protect, read_exact_at,
    release, reserve, unprotected_pages, watch, without_holes, write_all_at, written_pages,
};

/// Images are mapped.
pub(crate) const MAPS_IMAGES: bool = true;

//! Windows: images are mapped copy-on-write in place of placeholders, which reserve their address
//! space (Windows 10, version 1803, and later). The system does not report which pages were
//! written.
//!
//! A region is reset by mapping its image again, and a session's writes are found by comparison. A
//! session's pages are copied, because mappings are aligned to 64 KiB.

pub(crate) use super::mapping::Region;
pub use super::mapping::{Backing, Extent};
pub use super::not_linux::{Stack, Stacks};
pub(crate) use super::not_linux::{
    View, anonymous_file, memory_of, private_pages, process_number, protect, read_exact_at,
    release, reserve, unprotected_pages, watch, without_holes, write_all_at, written_pages,
};

/// Images are mapped.
pub(crate) const MAPS_IMAGES: bool = true;

//! Linux: images are mapped copy-on-write, and the kernel reports which pages were written.

mod files;
mod pagemap;
mod process;
mod region;
mod stacks;
mod view;
mod watch;

pub(in crate::memory) use super::mapping::{Backing, Extent};
pub(in crate::memory) use files::{
    anonymous_file, memory_of, read_exact_at, release, reserve, without_holes, write_all_at,
};
pub(in crate::memory) use pagemap::{
    open_what_is_read, private_pages, unprotected_pages, written_pages,
};
pub(in crate::memory) use process::process_number;
pub(in crate::memory) use region::Region;
pub(crate) use stacks::stacks;
pub(in crate::memory) use view::View;
pub(in crate::memory) use watch::{protect, watch};

/// Images are mapped.
pub(in crate::memory) const MAPS_IMAGES: bool = true;

//! Linux: images are mapped copy-on-write, and the kernel says which pages were written.

mod files;
#[cfg(target_env = "gnu")]
mod heap;
mod pagemap;
mod process;
mod region;
mod stacks;
mod view;
mod watch;

pub(in crate::memory) use super::mapping::{Backing, Extent};
pub(in crate::memory) use files::{
    anonymous_file, read_exact_at, release, reserve, without_holes, write_all_at,
};
#[cfg(target_env = "gnu")]
pub(in crate::memory) use heap::trim_heap;
pub(in crate::memory) use pagemap::{private_pages, unprotected_pages, written_pages};
pub(in crate::memory) use process::process_number;
pub(in crate::memory) use region::Region;
pub(crate) use stacks::stacks;
pub(in crate::memory) use view::View;
pub(in crate::memory) use watch::{protect, watch};

/// Images are mapped.
pub(in crate::memory) const MAPS_IMAGES: bool = true;

/// Has the allocator give back what it keeps; other C libraries do so by themselves, or not at all.
#[cfg(not(target_env = "gnu"))]
pub(in crate::memory) fn trim_heap() {}

//! Linux: images are mapped copy-on-write, and the kernel reports which pages were written.

mod files;
mod pagemap;
mod process;
mod region;
mod stacks;
mod view;
mod watch;

pub use super::mapping::{Backing, Extent};
pub(crate) use files::{
    anonymous_file, memory_of, read_exact_at, release, reserve, without_holes, write_all_at,
};
pub(crate) use pagemap::{open_what_is_read, private_pages, unprotected_pages, written_pages};
pub(crate) use process::process_number;
pub(crate) use region::Region;
pub use stacks::{Stack, Stacks};
pub(crate) use view::View;
pub(crate) use watch::{protect, watch};

/// Images are mapped.
pub(crate) const MAPS_IMAGES: bool = true;

//! Everything about memory that depends on the operating system: a port begins here.
//!
//! Each system has a folder, and all of them the same face, so that nothing outside asks which
//! system it is on:
//!
//! * [`MAPS_IMAGES`]: whether [`Strategy::Map`](super::Strategy::Map) means something here;
//! * [`Backing`] and [`Region`]: an image to map, and address space to map it in; [`Extent`]: leave
//!   to map pages into one region;
//! * [`stacks`]: where guests' stacks come from, if not from wasmtime;
//! * [`watch`], [`written_pages`], [`private_pages`]: what was written, where the system tells;
//! * [`anonymous_file`], [`read_exact_at`], [`write_all_at`], [`release`]: the file of a
//!   [`PageStore`](super::PageStore); [`View`]: the same file as memory, where it can be;
//! * [`reserve`], [`without_holes`]: files that can be mapped when no room is left where they are;
//! * [`trim_heap`]: has the allocator give back what it keeps;
//! * [`process_number`]: tells a process from its forked children.
//!
//! [`portable`] is for every system without a folder of its own, and asks nothing of it but files
//! and a heap. On Linux it is compiled for unit tests, which hold both to the same contract, and
//! takes the place of [`linux`] where `build.rs` says so.

#[cfg(all(target_os = "linux", not(portable_memory)))]
mod linux;
#[cfg(any(not(target_os = "linux"), portable_memory, test))]
#[cfg_attr(
    all(target_os = "linux", not(portable_memory)),
    allow(dead_code, reason = "unit tests look only at what both have in common")
)]
mod portable;
#[cfg(test)]
mod tests;

#[cfg(all(target_os = "linux", not(portable_memory)))]
use linux as system;
#[cfg(any(not(target_os = "linux"), portable_memory))]
use portable as system;

pub(crate) use system::stacks;
pub(super) use system::{
    Backing, Extent, MAPS_IMAGES, Region, View, anonymous_file, private_pages, process_number,
    read_exact_at, release, reserve, trim_heap, watch, without_holes, write_all_at, written_pages,
};

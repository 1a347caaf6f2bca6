//! All code about memory that depends on the operating system. A port starts here.
//!
//! Each system has a folder with the same interface, so that no other code depends on the system:
//!
//! * [`MAPS_IMAGES`]: whether [`Strategy::Map`](super::Strategy::Map) is available;
//! * [`Backing`] and [`Region`]: an image to map, and address space to map it into; [`Extent`]: the
//!   permission to map pages into a region;
//! * [`Stacks`]: stacks of guests that are reused, if the engine's own are slower;
//! * [`watch`], [`protect`], [`written_pages`], [`unprotected_pages`], [`private_pages`]: tracking
//!   of writes, if the system supports it;
//! * [`anonymous_file`], [`read_exact_at`], [`write_all_at`], [`release`]: the file of a
//!   [`PageStore`](super::PageStore); [`memory_of`]: the memory that it uses; [`View`]: a mapping
//!   of the file, if possible;
//! * [`reserve`], [`without_holes`]: files that can be mapped even if the disk is full;
//! * [`process_number`]: distinguishes a process from its forked children.
//!
//! [`linux`] is for Linux, [`unix`] for other Unix systems that map files copy-on-write, `windows`
//! for Windows, and [`portable`] for all other systems: it needs only files and a heap. `build.rs`
//! selects one of them. Unit tests include every implementation that compiles, and test the same
//! contract on each.

#[cfg(memory = "linux")]
mod linux;
#[cfg(any(not(memory = "portable"), all(any(unix, windows), test)))]
#[cfg_attr(
    memory = "portable",
    allow(dead_code, reason = "unit tests look only at what all have in common")
)]
mod mapping;
#[cfg(any(not(memory = "linux"), test))]
#[cfg_attr(
    memory = "linux",
    allow(
        dead_code,
        unused_imports,
        reason = "unit tests look only at what all have in common"
    )
)]
mod not_linux;
#[cfg(any(memory = "portable", test))]
#[cfg_attr(
    not(memory = "portable"),
    allow(
        dead_code,
        unused_imports,
        reason = "unit tests look only at what all have in common"
    )
)]
mod portable;
#[cfg(test)]
mod tests;
#[cfg(any(memory = "unix", all(unix, test)))]
#[cfg_attr(
    not(memory = "unix"),
    allow(
        dead_code,
        unused_imports,
        reason = "unit tests look only at what all have in common"
    )
)]
mod unix;
#[cfg(any(memory = "windows", all(windows, test)))]
#[cfg_attr(
    not(memory = "windows"),
    allow(
        dead_code,
        unused_imports,
        reason = "unit tests look only at what all have in common"
    )
)]
mod windows;

#[cfg(memory = "linux")]
use linux as system;
#[cfg(memory = "portable")]
use portable as system;
#[cfg(memory = "unix")]
use unix as system;
#[cfg(memory = "windows")]
use windows as system;

pub use system::{Backing, Extent, Stack, Stacks};
pub(super) use system::{
    MAPS_IMAGES, Region, View, anonymous_file, memory_of, private_pages, process_number, protect,
    read_exact_at, release, reserve, unprotected_pages, watch, without_holes, write_all_at,
    written_pages,
};

#[cfg(memory = "linux")]
pub(super) use linux::open_what_is_read;

/// Skips a test whose requirements this kernel or machine does not meet. In `.ci/run`, where every
/// test must run, the test fails instead and names the requirement.
#[cfg(test)]
pub(super) fn skip(needed: &str) {
    let demanded = std::env::var_os("BELLJAR_TEST_NO_SKIPS").is_some_and(|value| !value.is_empty());
    assert!(!demanded, "not tested: this needs {needed}");
    eprintln!("skipped: this needs {needed}");
}

/// Requirement of tests of watched memory.
#[cfg(test)]
pub(super) const WATCHED: &str =
    "Linux 6.7 or newer, and leave to use userfaultfd (often refused in a container)";

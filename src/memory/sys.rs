//! Everything about memory that depends on the operating system: a port begins here.
//!
//! Each system has a folder, and all of them the same face, so that nothing outside asks which
//! system it is on:
//!
//! * [`MAPS_IMAGES`]: whether [`Strategy::Map`](super::Strategy::Map) means something here;
//! * [`Backing`] and [`Region`]: an image to map, and address space to map it in; [`Extent`]: leave
//!   to map pages into one region;
//! * [`stacks`]: where guests' stacks come from, if not from wasmtime;
//! * [`watch`], [`protect`], [`written_pages`], [`unprotected_pages`], [`private_pages`]: what was
//!   written, where the system tells;
//! * [`anonymous_file`], [`read_exact_at`], [`write_all_at`], [`release`]: the file of a
//!   [`PageStore`](super::PageStore); [`memory_of`]: what it takes; [`View`]: the same file as memory, where it can be;
//! * [`reserve`], [`without_holes`]: files that can be mapped when no room is left where they are;
//! * [`process_number`]: tells a process from its forked children.
//!
//! [`linux`] is for Linux, [`unix`] for other Unix systems that map files copy-on-write, `windows` for Windows,
//! and [`portable`] for every system without a folder of its own: it asks nothing of it but files and a heap.
//! `build.rs` says which of them it is. Unit tests have all that compile, and hold them to the same contract.

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

pub(crate) use system::stacks;
pub(super) use system::{
    Backing, Extent, MAPS_IMAGES, Region, View, anonymous_file, memory_of, private_pages,
    process_number, protect, read_exact_at, release, reserve, unprotected_pages, watch,
    without_holes, write_all_at, written_pages,
};

/// Leaves a test of what this kernel or machine does not have. Where every test is to run, as in
/// `.ci/run`, the test fails instead, and says what it needs.
#[cfg(test)]
pub(super) fn skip(needed: &str) {
    let demanded = std::env::var_os("BELLJAR_TEST_NO_SKIPS").is_some_and(|value| !value.is_empty());
    assert!(!demanded, "not tested: this needs {needed}");
    eprintln!("skipped: this needs {needed}");
}

/// What tests of watched memory need.
#[cfg(test)]
pub(super) const WATCHED: &str =
    "Linux 6.7 or newer, and leave to use userfaultfd (often refused in a container)";

//! Replace: gives functions of the Python module other bodies, written as WebAssembly text.
//!
//! Each file in `replace/` ([`FILES`]) is a module of its own:
//!
//! * `(import "env" "memory" (memory 0))` is the Python module's memory.
//! * `(import "module" "NAME" (func …))` is its function of that name.
//! * `(export "NAME" (func …))` becomes the body of its function of that name.
//! * `(import "original" "NAME" (func …))` is the body that the file replaces.
//! * `(import "state" "SIZE" (global i32))` is the address of `SIZE` bytes that are zero at first
//!   and belong to the file. They lie behind the module's initial memory, which grows by [`PAGES`].
//! * Immutable globals are constants.
//!
//! Other functions of a file are added at the end, so functions, types, names and table slots keep
//! their indices: a call of a replaced function, also in its old body, reaches the new one. Tables, data, mutable globals and other imports are refused.
//!
//! A replaced function is identified by its name and a hash of its code, in `replace/pins.txt`. A
//! tier that has none of a file's functions skips the file.

mod file;
mod write;

use std::collections::HashMap;

use crate::PassError;
use crate::profile::{Input, identity};
use crate::tier::Tier;
use file::File;

/// Increased with every change of the pass itself. The files have a version of their own.
pub(super) const VERSION: u32 = 1;

/// Pages by which the initial memory grows: room for the states of all files.
pub(super) const PAGES: u32 = 0;

/// Name and text of each file.
const FILES: &[(&str, &str)] = &[];

/// Hashes of the replaced functions.
const PINS: &str = include_str!("replace/pins.txt");

/// Functions cannot be replaced.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReplaceError {
    /// The text of a file is not WebAssembly.
    #[error("{file}.wat cannot be parsed")]
    Text {
        /// Name of the file.
        file: String,
        /// Cause of the failure.
        source: wat::Error,
    },
    /// A file is not valid, or has instructions that depend on the processor.
    #[error("{file}.wat is not valid")]
    Invalid {
        /// Name of the file.
        file: String,
        /// Cause of the failure.
        source: wasmparser::BinaryReaderError,
    },
    /// A file has a part that functions of the Python module cannot have.
    #[error("{file}.wat {why}")]
    File {
        /// Name of the file.
        file: String,
        /// What is not supported.
        why: &'static str,
    },
    /// The Python module does not have a function as a file expects it.
    #[error("the function {function} of the Python module, which {file}.wat names, {what}")]
    Function {
        /// Name of the file.
        file: String,
        /// Name of the function.
        function: String,
        /// How it differs.
        what: &'static str,
    },
    /// A function has other code than the one that a file replaces.
    #[error(
        "the function {function} of the Python module is not the one that {file}.wat replaces: \
         the hash of its code is {hash:016x}"
    )]
    Changed {
        /// Name of the file.
        file: String,
        /// Name of the function.
        function: String,
        /// Hash of its code.
        hash: u64,
    },
}

/// Replaces functions of the Python module.
pub(super) fn apply(module: &[u8], tier: Tier) -> Result<Vec<u8>, PassError> {
    let pins = PINS.lines().filter(|line| !line.starts_with('#')).map(|line| {
        let (hash, name) = line.split_once(' ')?;
        Some((name, u64::from_str_radix(hash, 16).ok()?))
    });
    let pins: Option<_> = pins.collect();
    let pins = pins.ok_or(unsupported("a line of pins.txt is not a hash and a name"))?;
    replace(module, FILES, PAGES, Some(&pins), tier == Tier::All)
}

/// Replaces functions of any module by those of one file, whatever their code is, for tests.
pub(super) fn apply_file(module: &[u8], text: &str) -> Result<Vec<u8>, PassError> {
    replace(module, &[("file", text)], 1, None, true)
}

fn replace(
    module: &[u8],
    files: &[(&str, &str)],
    pages: u32,
    pins: Option<&HashMap<&str, u64>>,
    is_complete: bool,
) -> Result<Vec<u8>, PassError> {
    let input = Input::parse(module)?;
    let parsed = files
        .iter()
        .map(|(name, text)| {
            let binary = wat::parse_str(text).map_err(|source| ReplaceError::Text {
                file: (*name).to_owned(),
                source,
            })?;
            Ok((*name, binary))
        })
        .collect::<Result<Vec<_>, ReplaceError>>()?;
    let mut changes = write::Changes::new(&input, pages)?;
    for (name, binary) in &parsed {
        let file = File::parse(name, binary)?;
        // The state has its place on every tier.
        let states = changes.reserve(&file)?;
        let replaced = changes.replaced(&file, is_complete)?;
        if replaced.is_empty() {
            continue;
        }
        for (&index, (function, _)) in std::iter::zip(&replaced, &file.exports) {
            let hash = identity(&input, index)?;
            if pins.is_some_and(|pins| pins.get(function) != Some(&hash)) {
                return Err(ReplaceError::Changed {
                    file: file.name.to_owned(),
                    function: (*function).to_owned(),
                    hash,
                }
                .into());
            }
        }
        changes.add(&file, &replaced, &states)?;
    }
    changes.write()
}

/// A hash (FNV-1a) of the files and of the hashes of replaced functions.
pub(super) const FILES_VERSION: u64 = {
    let (mut hash, mut file) = (hashed(0xcbf2_9ce4_8422_2325, PINS), 0);
    while file < FILES.len() {
        hash = hashed(hashed(hash, FILES[file].0), FILES[file].1);
        file += 1;
    }
    hash
};

const fn hashed(mut hash: u64, text: &str) -> u64 {
    let mut at = 0;
    while at < text.len() {
        hash = (hash ^ text.as_bytes()[at] as u64).wrapping_mul(0x0100_0000_01b3);
        at += 1;
    }
    hash
}

const fn unsupported(why: &'static str) -> PassError {
    PassError::Unsupported {
        pass: "replace",
        why,
    }
}

#[cfg(test)]
mod tests;

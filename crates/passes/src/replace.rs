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
//! their indices. A call of a replaced function, also in its old body, reaches the new one. Tables,
//! data, mutable globals and other imports are refused.
//!
//! A replaced function is identified by its name and a hash of its code, in `replace/pins.txt`.
//! Smaller tiers skip files whose functions they do not contain.

mod extract;
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
pub(super) const PAGES: u32 = 1;

/// A file.
struct Source<'a> {
    name: &'a str,
    text: &'a str,
    /// Words in braces in the text, with what they stand for.
    words: Words<'a>,
}

type Words<'a> = &'a [(&'a str, &'a str)];

impl Source<'_> {
    fn text(&self) -> String {
        self.words.iter().fold(self.text.to_owned(), |text, (word, with)| {
            text.replace(&format!("{{{word}}}"), with)
        })
    }
}

const FILES: &[Source<'_>] = &[
    sort(DOUBLE),
    sort(FLOAT),
    sort(LONG_LONG),
    sort(LONG),
    sort(INT),
    argsort(DOUBLE),
    argsort(FLOAT),
    argsort(LONG_LONG),
    argsort(LONG),
    argsort(INT),
    source("bytes", include_str!("replace/bytes.wat"), &[]),
    source("longest_match", include_str!("replace/longest_match.wat"), &[]),
    source("inflate_fast", include_str!("replace/inflate_fast.wat"), INFLATE_FAST),
    source("adler32", include_str!("replace/adler32.wat"), &[]),
];

const fn sort(words: Words<'static>) -> Source<'static> {
    source("sort", include_str!("replace/sort.wat"), words)
}

const fn argsort(words: Words<'static>) -> Source<'static> {
    source("argsort", include_str!("replace/argsort.wat"), words)
}

const fn source(name: &'static str, text: &'static str, words: Words<'static>) -> Source<'static> {
    Source { name, text, words }
}

/// Words may contain those after them.
const INFLATE_FAST: Words<'_> = &[
    (
        "fill",
        "(local.set $hold
               (i64.or (local.get $hold) (i64.shl (i64.load (local.get $in)) (local.get $bits))))
             (local.set $in
               (i32.add (local.get $in)
                 (i32.wrap_i64
                   (i64.shr_u (i64.sub (i64.const 63) (local.get $bits)) (i64.const 3)))))
             (local.set $bits (i64.or (local.get $bits) (i64.const 56)))",
    ),
    (
        "literal",
        "(i32.store8 (local.get $out) (i32.shr_u (local.get $code) (i32.const 16)))
             (local.set $out (i32.add (local.get $out) (i32.const 1)))
             {take}",
    ),
    (
        "take",
        "(local.set $bits (i64.sub (local.get $bits) {size}))
             (local.set $hold (i64.shr_u (local.get $hold) {size}))",
    ),
    (
        "size",
        "(i64.extend_i32_u
               (i32.and (i32.shr_u (local.get $code) (i32.const 8)) (i32.const 15)))",
    ),
    (
        "take more",
        "(local.set $bits (i64.sub (local.get $bits) {size of more}))
             (local.set $hold (i64.shr_u (local.get $hold) {size of more}))",
    ),
    ("size of more", "(i64.extend_i32_u (i32.and (local.get $code) (i32.const 15)))"),
    (
        "value",
        "(i32.add (i32.shr_u (local.get $code) (i32.const 16))
               (i32.and (i32.wrap_i64 (local.get $hold))
                 (i32.sub
                   (i32.shl (i32.const 1) (i32.and (local.get $code) (i32.const 15)))
                   (i32.const 1))))",
    ),
    (
        "length code",
        "(i32.load (i32.add (local.get $lengths)
               (i32.shl (i32.and (i32.wrap_i64 (local.get $hold)) (local.get $length_mask))
                 (i32.const 2))))",
    ),
    (
        "distance code",
        "(i32.load (i32.add (local.get $distances)
               (i32.shl (i32.and (i32.wrap_i64 (local.get $hold)) (local.get $distance_mask))
                 (i32.const 2))))",
    ),
];

/// Words of a type of numbers, by the size of a number in bits.
macro_rules! words {
    (64, $type:literal, $tag:literal, $number:literal, $vector:literal,
     most $most:literal, compare $lt:literal $le:literal) => {
        &[
            ("type", $type),
            ("tag", $tag),
            ("T", $number),
            ("V", $vector),
            ("I", "i64x2"),
            ("numbers", "0 1"),
            ("steps", "2 2"),
            ("count", "(i64.extend_i32_u (local.get $count))"),
            ("most", $most),
            ("lt", $lt),
            ("le", $le),
            ("size", "8"),
            ("size2", "16"),
            ("size3", "24"),
            ("size4", "32"),
            ("shift", "3"),
        ]
    };
    (32, $type:literal, $tag:literal, $number:literal, $vector:literal,
     most $most:literal, compare $lt:literal $le:literal) => {
        &[
            ("type", $type),
            ("tag", $tag),
            ("T", $number),
            ("V", $vector),
            ("I", "i32x4"),
            ("numbers", "0 1 2 3"),
            ("steps", "4 4 4 4"),
            ("count", "(local.get $count)"),
            ("most", $most),
            ("lt", $lt),
            ("le", $le),
            ("size", "4"),
            ("size2", "8"),
            ("size3", "12"),
            ("size4", "16"),
            ("shift", "2"),
        ]
    };
}

const DOUBLE: Words<'_> = words!(
    64, "double", "npy::floating_point_type<double, (NPY_TYPES)12>, double", "f64", "f64x2",
    most "inf", compare "lt" "le"
);
const FLOAT: Words<'_> = words!(
    32, "float", "npy::floating_point_type<float, (NPY_TYPES)11>, float", "f32", "f32x4",
    most "inf", compare "lt" "le"
);
const LONG_LONG: Words<'_> = words!(
    64, "long long", "npy::integral_type<long long, (NPY_TYPES)9>, long long", "i64", "i64x2",
    most "0x7fffffffffffffff", compare "lt_s" "le_s"
);
const LONG: Words<'_> = words!(
    32, "long", "npy::integral_type<long, (NPY_TYPES)7>, long", "i32", "i32x4",
    most "0x7fffffff", compare "lt_s" "le_s"
);
const INT: Words<'_> = words!(
    32, "int", "npy::integral_type<int, (NPY_TYPES)5>, int", "i32", "i32x4",
    most "0x7fffffff", compare "lt_s" "le_s"
);

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
    /// The code of a function differs from what a file replaces.
    #[error(
        "the function {function} of the Python module has other code than {file}.wat expects: \
         its hash is {hash:016x}"
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

/// Replaces functions of the Python module. Smaller tiers than `All` may skip files.
pub(super) fn apply(module: &[u8], tier: Tier) -> Result<Vec<u8>, PassError> {
    let pins = PINS.lines().filter(|line| !line.starts_with('#')).map(|line| {
        let (hash, name) = line.split_once(' ')?;
        Some((name, u64::from_str_radix(hash, 16).ok()?))
    });
    let pins: Option<_> = pins.collect();
    let pins = pins.ok_or(unsupported("a line of pins.txt is not a hash and a name"))?;
    replace(module, FILES, PAGES, Some(&pins), tier == Tier::All)
}

/// Replaces functions of any module by those of a file, whatever their code is, for tests.
pub(super) fn apply_file(module: &[u8], text: &str) -> Result<Vec<u8>, PassError> {
    let file = Source {
        name: "file",
        text,
        words: &[],
    };
    // Without state, the memory stays as it is.
    let pages = u32::from(text.contains("\"state\""));
    replace(module, &[file], pages, None, true)
}

/// Returns a module of the named functions alone, with a memory of `pages`, for tests.
pub(super) fn extract(module: &[u8], names: &[&str], pages: u32) -> Result<Vec<u8>, PassError> {
    extract::extract(module, names, pages)
}

fn replace(
    module: &[u8],
    files: &[Source<'_>],
    pages: u32,
    pins: Option<&HashMap<&str, u64>>,
    is_complete: bool,
) -> Result<Vec<u8>, PassError> {
    let input = Input::parse(module)?;
    let parsed = files
        .iter()
        .map(|file| {
            let binary = wat::parse_str(file.text()).map_err(|source| ReplaceError::Text {
                file: file.name.to_owned(),
                source,
            })?;
            Ok((file.name, binary))
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
        let Source { name, text, words } = &FILES[file];
        (hash, file) = (hashed(hashed(hash, name), text), file + 1);
        let mut word = 0;
        while word < words.len() {
            (hash, word) = (hashed(hashed(hash, words[word].0), words[word].1), word + 1);
        }
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

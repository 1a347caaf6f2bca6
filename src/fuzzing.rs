//! Parsers of untrusted bytes, and the meter, for fuzz targets and tests. Not part of the public
//! API.

use std::path::Path;

use belljar_value::{Value, wire};

use crate::artifact::image::ImageError;
use crate::util::cause::Cause;

/// Feeds one frame of a guest to a new transcript. Returns whether the runner sends such a frame.
pub fn parse_frame(frame: &[u8]) -> bool {
    crate::guest::parse_frame(frame)
}

/// Simulates a guest that calls tools: each line is a frame. Returns the total size of the answers.
pub fn call_tools(frames: &[u8]) -> usize {
    crate::sandbox::calls::answer_frames(frames)
}

/// Answers a frame that asks to decompress or compress. Returns the size of the result, if there is
/// one.
///
/// # Panics
///
/// If compressed data cannot be decompressed again.
pub fn convert(frame: &[u8]) -> Option<usize> {
    crate::sandbox::convert_frame(frame)
}

/// Checks a document that a run wrote: the bytes of a file with that name.
#[must_use]
pub fn check_document(name: &str, bytes: &[u8]) -> Option<String> {
    crate::workspace::problem_of(name, bytes)
}

/// Checks the head of an image.
///
/// # Errors
///
/// If it is invalid.
pub fn check_image_head(bytes: &[u8]) -> Result<(), ImageError> {
    crate::artifact::image::check_head(bytes, Path::new("(bytes)"))
}

/// Reads a checkpoint as if its image had no memory, into its own store. Returns whether it is
/// complete.
pub fn parse_checkpoint(bytes: &[u8], check_sum: bool) -> bool {
    crate::session::parse_checkpoint(bytes, check_sum)
}

/// Builds a checkpoint from text. The last line is the manifest, and each line before it is a
/// document in a chunk of its own. `@0` is replaced by the name of a chunk of 16 pages, `@1` by the
/// name of the first document, and so on. In the manifest, `"@chunks"` is replaced by the list of
/// all chunks, and `"@carried"` by their number.
#[must_use]
pub fn checkpoint_of(text: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(text);
    let mut lines: Vec<&str> = text.lines().collect();
    let manifest = lines.pop().unwrap_or_default();
    let mut chunks = vec![vec![7; 16 * 4096]];
    let mut names = vec![blake3::hash(&chunks[0]).to_hex().to_string()];
    let filled = |line: &str, names: &[String]| {
        // Starts with the last, so that `@1` does not match the start of `@10`.
        let each = names.iter().enumerate().rev();
        each.fold(line.to_owned(), |line, (n, name)| line.replace(&format!("@{n}"), name))
    };
    for line in lines.into_iter().take(32) {
        let document = filled(line, &names).into_bytes();
        names.push(blake3::hash(&document).to_hex().to_string());
        chunks.push(document);
    }
    let listed: Vec<_> =
        names.iter().zip(&chunks).map(|(name, chunk)| (name, chunk.len())).collect();
    let manifest = filled(manifest, &names)
        .replace("\"@chunks\"", &serde_json::to_string(&listed).unwrap_or_default())
        .replace("\"@carried\"", &listed.len().to_string());
    let frame = |bytes: &[u8]| zstd::bulk::compress(bytes, 1).unwrap_or_default();
    let compressed = frame(manifest.as_bytes());
    let mut file = b"belljar\x1c\x02\0\0\0".to_vec();
    for length in [manifest.len(), compressed.len()] {
        file.extend((length as u32).to_le_bytes());
    }
    let sum = blake3::Hasher::new().update(&file).update(&compressed).finalize();
    file.extend(sum.as_bytes());
    file.extend(compressed);
    for chunk in chunks.iter().map(|chunk| frame(chunk)) {
        file.extend((chunk.len() as u32).to_le_bytes());
        file.extend(chunk);
    }
    file
}

/// Rewrites the calls of a module with an invented profile: `draw` returns a slot of the table,
/// which counts for indirect calls, and a frequency, or `None` to go on to the next call.
///
/// # Errors
///
/// If the module contains instructions that the profile pass does not know.
pub fn rewrite_calls(
    module: &[u8],
    draw: impl FnMut() -> Option<(u32, f64)>,
) -> Result<Vec<u8>, Cause> {
    belljar_passes::rewrite_calls(module, draw).map_err(Cause::new)
}

/// Merges the equal functions of a module.
///
/// # Errors
///
/// If the module contains what the merge pass does not know.
pub fn merge_functions(module: &[u8]) -> Result<Vec<u8>, Cause> {
    belljar_passes::merge_functions(module).map_err(Cause::new)
}

/// Replaces functions of a module by those of a WebAssembly text.
///
/// # Errors
///
/// If the text is refused, or the module does not have its functions.
pub fn replace_functions(module: &[u8], text: &str) -> Result<Vec<u8>, Cause> {
    belljar_passes::replace_functions(module, text).map_err(Cause::new)
}

/// Adds the meter to a module without data.
///
/// # Errors
///
/// If the module contains instructions that the meter does not know.
pub fn meter_module(module: &[u8]) -> Result<Vec<u8>, Cause> {
    belljar_passes::meter(module).map_err(Cause::new)
}

/// Verifies that a metered module checks its fuel.
///
/// # Errors
///
/// If that cannot be verified.
pub fn check_metered(module: &[u8]) -> Result<(), Cause> {
    belljar_passes::check(module).map_err(Cause::new)
}

/// Meters an extension and verifies that it and the main module check their fuel.
///
/// # Errors
///
/// If it cannot be metered, or that cannot be verified.
pub fn meter_extension(module: &[u8]) -> Result<Vec<u8>, Cause> {
    belljar_passes::on_extension(module).map_err(Cause::new)
}

/// Verifies that a metered extension checks its fuel.
///
/// # Errors
///
/// If that cannot be verified.
pub fn check_extension(module: &[u8]) -> Result<(), Cause> {
    belljar_passes::check_extension(module).map_err(Cause::new)
}

/// Reads a file as an extension.
///
/// # Errors
///
/// If it is not one.
pub fn read_extension(file: &[u8]) -> Result<(), Cause> {
    belljar_passes::Extension::read(file).map(drop).map_err(Cause::new)
}

/// Reads a guest's typed value in 64 bytes of memory: the head is the text before the first NUL,
/// and the other bytes follow it. Returns whether the value is valid.
///
/// # Panics
///
/// If the value changes when it is written and read again.
pub fn parse_value(bytes: &[u8]) -> bool {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    let length = (end as u32).to_le_bytes();
    let rest = bytes.get(end + 1..).unwrap_or_default();
    let frame = [&length, &bytes[..end], rest].concat();
    let Ok(value) = wire::read(&frame, &[1; 64], 1 << 20) else {
        return false;
    };
    let before = format!("{value:?}");
    let text = serde_json::to_string(&value).expect("what was read can be written");
    // A dictionary may need more JSON levels when written than it had when read.
    if let Ok(again) = serde_json::from_str::<Value>(&text) {
        assert_eq!(format!("{again:?}"), before);
    }
    if let Ok(written) = wire::write(&value) {
        let again = wire::read(&written, &[], 1 << 20).map(|again| format!("{again:?}"));
        assert!(again.is_err() || again == Ok(before));
    }
    true
}

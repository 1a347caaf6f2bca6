//! Parsers of bytes that others send, and the meter, as fuzz targets and tests call them. No part of
//! the interface.

use std::path::Path;

use crate::artifact::image::ImageError;
use crate::util::cause::Cause;
use crate::value::{Value, wire};

/// Feeds one frame of a guest to a new transcript; whether it is one that the runner sends.
pub fn parse_frame(frame: &[u8]) -> bool {
    crate::guest::parse_frame(frame)
}

/// Has a guest call tools: each line is a frame. Returns how many bytes it was answered.
pub fn call_tools(frames: &[u8]) -> usize {
    crate::sandbox::calls::answer_frames(frames)
}

/// Checks the head of an image.
///
/// # Errors
///
/// When it is none.
pub fn check_image_head(bytes: &[u8]) -> Result<(), ImageError> {
    crate::artifact::image::check_head(bytes, Path::new("(bytes)"))
}

/// Reads a checkpoint as if its image had no memory, into a store of its own; whether it is whole.
pub fn parse_checkpoint(bytes: &[u8], check_sum: bool) -> bool {
    crate::session::parse_checkpoint(bytes, check_sum)
}

/// The checkpoint that a text stands for. Its last line is the manifest, each line before it a document
/// that comes into a chunk of its own. `@0` stands for the name of a chunk of 16 pages, `@1` for that of
/// the first document, and so on; in the manifest `"@chunks"` for the list of all chunks, and
/// `"@carried"` for how many they are.
#[must_use]
pub fn checkpoint_of(text: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(text);
    let mut lines: Vec<&str> = text.lines().collect();
    let manifest = lines.pop().unwrap_or_default();
    let mut chunks = vec![vec![7; 16 * 4096]];
    let mut names = vec![blake3::hash(&chunks[0]).to_hex().to_string()];
    let filled = |line: &str, names: &[String]| {
        // From the last, so that `@1` is not taken for the start of `@10`.
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

/// Makes a module without data count its work.
///
/// # Errors
///
/// When it holds what the meter does not know.
pub fn meter_module(module: &[u8]) -> Result<Vec<u8>, Cause> {
    crate::artifact::meter_module(module).map_err(Cause::new)
}

/// Proves of a metered module that it looks at its fuel.
///
/// # Errors
///
/// When that cannot be proved.
pub fn check_metered(module: &[u8]) -> Result<(), Cause> {
    crate::artifact::check_module(module).map_err(Cause::new)
}

/// Reads a typed value of a guest whose head is what stands before the first NUL, and whose bytes
/// are the rest, in 64 bytes of memory; whether it is one.
///
/// # Panics
///
/// When what was read is not what it is after it was written and read again.
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
    // A dictionary takes more levels of JSON as it is written than it may have had.
    if let Ok(again) = serde_json::from_str::<Value>(&text) {
        assert_eq!(format!("{again:?}"), before);
    }
    if let Ok(written) = wire::write(&value) {
        let again = wire::read(&written, &[], 1 << 20).map(|again| format!("{again:?}"));
        assert!(again.is_err() || again == Ok(before));
    }
    true
}

//! Checkpoints of sessions. The first byte of an input says how to read the rest: as a whole file;
//! as a manifest of the first version in JSON, for which a file is made with a body of the length that it
//! asks for; or as the text of one with chunks, whose names and sums are made to fit. The latter two get
//! past the compression and the sums, which hardly any mutation of a file would.
#![no_main]

use belljar::fuzzing::{checkpoint_of, parse_checkpoint};
use serde_json::Value;

const PAGE: u64 = 4096;
const CHUNK: u64 = 1 << 20;
/// No body is made longer than this.
const MOST: u64 = 4 << 20;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Some((how, rest)) = bytes.split_first() else {
        return;
    };
    match how % 4 {
        0 => parse_checkpoint(rest, false),
        1 => parse_checkpoint(rest, true),
        2 => parse_checkpoint(&around(rest), false),
        _ => parse_checkpoint(&checkpoint_of(rest), true),
    };
});

/// A checkpoint with this manifest.
fn around(manifest: &[u8]) -> Vec<u8> {
    let compressed = zstd::bulk::compress(manifest, 1).expect("memory can be compressed");
    let mut file = b"belljar\x1c\x01\0\0\0".to_vec();
    file.extend((manifest.len() as u32).to_le_bytes());
    file.extend((compressed.len() as u32).to_le_bytes());
    file.extend(compressed);
    let mut left = body(manifest).filter(|length| *length <= MOST).unwrap_or(0);
    while left > 0 {
        let length = left.min(CHUNK);
        left -= length;
        let chunk = zstd::bulk::compress(&vec![7; length as usize], 1).expect("as above");
        file.extend((chunk.len() as u32).to_le_bytes());
        file.extend(chunk);
    }
    file.extend([0; 32]);
    file
}

/// How long a body the manifest asks for.
fn body(manifest: &[u8]) -> Option<u64> {
    let manifest: Value = serde_json::from_slice(manifest).ok()?;
    let pages = manifest["pages"].as_u64()?.checked_mul(PAGE)?;
    let mut sizes = manifest["files"].as_array()?.iter();
    sizes.try_fold(pages, |sum, size| sum.checked_add(size.as_u64()?))
}

//! The head of an image file: any bytes are a valid image or rejected. Random bytes hardly have a
//! valid checksum and length, so an odd first byte asks to correct both.
#![no_main]

use belljar::fuzzing::check_image_head;
use sha2::{Digest, Sha256};

const MANIFEST_LENGTH: usize = 8 + 4;
const MEMORY_OFFSET: usize = MANIFEST_LENGTH + 4;
const MEMORY_LENGTH: usize = MEMORY_OFFSET + 8;
const HASH: usize = MEMORY_LENGTH + 8 + 32;
const MANIFEST: usize = HASH + 32;
/// Maximum size of the file.
const MOST: usize = 1 << 20;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Some((how, file)) = bytes.split_first() else {
        return;
    };
    let file = match how % 2 {
        0 => Some(file.to_vec()),
        _ => put_right(file.to_vec()),
    };
    if let Some(file) = file {
        let _ = check_image_head(&file);
    }
});

/// Sets the checksum of the header and the size of the file, if possible.
fn put_right(mut file: Vec<u8>) -> Option<Vec<u8>> {
    let word = |at: usize| Some(u32::from_le_bytes(*file.get(at..)?.first_chunk()?) as usize);
    let long = |at: usize| Some(u64::from_le_bytes(*file.get(at..)?.first_chunk()?));
    let end = MANIFEST.checked_add(word(MANIFEST_LENGTH)?)?;
    let size = long(MEMORY_OFFSET)?.wrapping_add(long(MEMORY_LENGTH)?);
    let hash = Sha256::new()
        .chain_update(file.get(..HASH)?)
        .chain_update(file.get(MANIFEST..end)?)
        .finalize();
    file[HASH..MANIFEST].copy_from_slice(&hash);
    if let Ok(size @ ..=MOST) = usize::try_from(size) {
        file.resize(size.max(file.len()), 0);
    }
    Some(file)
}

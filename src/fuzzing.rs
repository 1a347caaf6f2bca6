//! Parsers of bytes that others send, and the meter, as fuzz targets and tests call them. No part of
//! the interface.

use std::path::Path;

use crate::cause::Cause;
use crate::image::ImageError;
use crate::value::{Value, wire};

/// Feeds one frame of a guest to a new transcript; whether it is one that the runner sends.
pub fn parse_frame(frame: &[u8]) -> bool {
    crate::guest::parse_frame(frame)
}

/// Has a guest call tools: each line is a frame. Returns how many bytes it was answered.
pub fn call_tools(frames: &[u8]) -> usize {
    crate::tools::answer_frames(frames)
}

/// Checks the head of an image.
///
/// # Errors
///
/// When it is none.
pub fn check_image_head(bytes: &[u8]) -> Result<(), ImageError> {
    crate::image::check_head(bytes, Path::new("(bytes)"))
}

/// Reads a checkpoint as if its image had no memory, into a store of its own; whether it is whole.
pub fn parse_checkpoint(bytes: &[u8], check_sum: bool) -> bool {
    crate::session::parse_checkpoint(bytes, check_sum)
}

/// Makes a module without data count its work.
///
/// # Errors
///
/// When it holds what the meter does not know.
pub fn meter_module(module: &[u8]) -> Result<Vec<u8>, Cause> {
    crate::module::meter_module(module).map_err(Cause::new)
}

/// Proves of a metered module that it looks at its fuel.
///
/// # Errors
///
/// When that cannot be proved.
pub fn check_metered(module: &[u8]) -> Result<(), Cause> {
    crate::module::check_module(module).map_err(Cause::new)
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

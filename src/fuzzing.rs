//! Parsers of bytes that others send, and the meter, as fuzz targets and tests call them. No part of
//! the interface.

use std::path::Path;

use crate::cause::Cause;
use crate::image::ImageError;

/// Feeds one frame of a guest to a new transcript; whether it is one that the runner sends.
pub fn parse_frame(frame: &[u8]) -> bool {
    crate::guest::parse_frame(frame)
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

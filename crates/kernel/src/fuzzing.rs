//! Parsers of untrusted bytes, for fuzz targets and tests. Not part of the public interface.

use bytes::Bytes;

use crate::wire::Signer;

/// Parses what a peer sends after its greeting. Returns the number of messages.
///
/// # Errors
///
/// When a frame is invalid or a limit is exceeded.
pub fn parse_frames(bytes: &[u8]) -> std::io::Result<usize> {
    crate::zmtp::parse(bytes)
}

/// Parses a message with these parts, with a key or without. Returns whether it is valid.
pub fn parse_message(parts: &[&[u8]], key: &str) -> bool {
    let parts: Vec<Bytes> = parts.iter().map(|part| Bytes::copy_from_slice(part)).collect();
    Signer::new(key).read(&parts).is_ok()
}

/// Parses a binary frame of a WebSocket in both formats. Returns in how many it is a message.
pub fn parse_websocket(bytes: &[u8]) -> usize {
    use crate::websocket::{Form, Frame};
    let frame = Frame::Binary(Bytes::copy_from_slice(bytes));
    [Form::Json, Form::V1].into_iter().filter(|form| form.read(&frame).is_ok()).count()
}

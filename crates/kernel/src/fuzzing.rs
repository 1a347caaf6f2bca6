//! Parsers of bytes that others send, as fuzz targets and tests call them. No part of the interface.

use bytes::Bytes;

use crate::wire::Signer;

/// Reads what a peer sends after its greeting; how many messages there were.
///
/// # Errors
///
/// When it is no frame, or more than is taken.
pub fn parse_frames(bytes: &[u8]) -> std::io::Result<usize> {
    crate::zmtp::parse(bytes)
}

/// Reads a message of these parts, with a key or without; whether it is one.
pub fn parse_message(parts: &[&[u8]], key: &str) -> bool {
    let parts: Vec<Bytes> = parts.iter().map(|part| Bytes::copy_from_slice(part)).collect();
    Signer::new(key).read(&parts).is_ok()
}

/// Reads a binary frame of a WebSocket in both forms; in how many of them it is a message.
pub fn parse_websocket(bytes: &[u8]) -> usize {
    use crate::websocket::{Form, Frame};
    let frame = Frame::Binary(Bytes::copy_from_slice(bytes));
    [Form::Json, Form::V1].into_iter().filter(|form| form.read(&frame).is_ok()).count()
}

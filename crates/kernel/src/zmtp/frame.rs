//! Parses and serializes frames, multipart messages, and the handshake.

use std::io;

use bytes::{Buf, BufMut, Bytes, BytesMut};

/// Maximum length of a message in bytes, all parts together.
pub(crate) const MAX_MESSAGE: usize = 64 << 20;
/// Maximum number of parts of a message.
const MAX_PARTS: usize = 1_024;
/// Maximum length of a command in bytes.
const MAX_COMMAND: usize = 4 << 10;
/// Maximum length of a peer's identity.
const MAX_IDENTITY: usize = 255;

/// Length of a greeting.
pub(super) const GREETING: usize = 64;
/// Length of the start of a greeting, which distinguishes ZMTP 3 from older protocols and others.
const SIGNATURE: usize = 11;

const MORE: u8 = 1;
const LONG: u8 = 2;
const COMMAND: u8 = 4;

/// Data from a peer.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Said {
    /// A message, in parts.
    Message(Vec<Bytes>),
    /// A command: its name and the rest.
    Command(Bytes, Bytes),
}

/// A peer's handshake data.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Ready {
    pub socket_type: Bytes,
    pub identity: Bytes,
}

/// The greeting of this side: ZMTP 3.0 with the mechanism NULL.
pub(super) fn greeting() -> [u8; GREETING] {
    let mut bytes = [0; GREETING];
    bytes[0] = 0xff;
    bytes[9] = 0x7f;
    bytes[10] = 3;
    bytes[12..16].copy_from_slice(b"NULL");
    bytes
}

/// Checks a greeting.
pub(super) fn check_greeting(bytes: &[u8; GREETING]) -> io::Result<()> {
    let is_ours = bytes[0] == 0xff && bytes[9] & 1 == 1;
    if !is_ours || bytes[SIGNATURE - 1] < 3 {
        return Err(invalid("a greeting of another protocol"));
    }
    if bytes[12..32] != greeting()[12..32] {
        return Err(invalid("a mechanism that is not NULL"));
    }
    Ok(())
}

/// The READY command of this side.
pub(super) fn ready(socket_type: &str) -> Bytes {
    let mut rest = BytesMut::new();
    put_property(&mut rest, "Socket-Type", socket_type.as_bytes());
    // A peer that sends its identity expects to receive one, possibly empty.
    put_property(&mut rest, "Identity", b"");
    command(b"READY", &rest)
}

fn put_property(to: &mut BytesMut, name: &str, value: &[u8]) {
    to.put_u8(name.len() as u8);
    to.put_slice(name.as_bytes());
    to.put_u32(value.len() as u32);
    to.put_slice(value);
}

/// Parses a peer's READY command.
pub(super) fn read_ready(said: Said) -> io::Result<Ready> {
    let mut rest = match said {
        Said::Command(name, rest) if &name[..] == b"READY" => rest,
        _ => return Err(invalid("something before READY")),
    };
    let mut ready = Ready {
        socket_type: Bytes::new(),
        identity: Bytes::new(),
    };
    while rest.has_remaining() {
        let name = take(&mut rest, 1)?;
        let value = take(&mut rest, 4)?;
        if name.eq_ignore_ascii_case(b"Socket-Type") {
            ready.socket_type = value;
        } else if name.eq_ignore_ascii_case(b"Identity") {
            ready.identity = value;
        }
    }
    if ready.identity.len() > MAX_IDENTITY {
        return Err(invalid("an identity of more than 255 bytes"));
    }
    Ok(ready)
}

/// Bytes prefixed with their length, which has `width` bytes.
fn take(from: &mut Bytes, width: usize) -> io::Result<Bytes> {
    if from.len() < width {
        return Err(invalid("properties that end early"));
    }
    let length = usize::try_from(from.get_uint(width)).map_err(|_| invalid("a huge property"))?;
    if from.len() < length {
        return Err(invalid("properties that end early"));
    }
    Ok(from.split_to(length))
}

/// The frame of a command.
pub(super) fn command(name: &[u8], rest: &[u8]) -> Bytes {
    let mut body = BytesMut::with_capacity(1 + name.len() + rest.len());
    body.put_u8(name.len() as u8);
    body.put_slice(name);
    body.put_slice(rest);
    let mut frame = BytesMut::new();
    put_head(&mut frame, COMMAND, body.len());
    frame.put_slice(&body);
    frame.freeze()
}

/// The frames of a message.
pub(super) fn message(parts: &[Bytes]) -> Bytes {
    let length: usize = parts.iter().map(|part| part.len() + 9).sum();
    let mut frames = BytesMut::with_capacity(length);
    for (index, part) in parts.iter().enumerate() {
        let more = if index + 1 < parts.len() { MORE } else { 0 };
        put_head(&mut frames, more, part.len());
        frames.put_slice(part);
    }
    frames.freeze()
}

fn put_head(to: &mut BytesMut, flags: u8, length: usize) {
    if let Ok(short) = u8::try_from(length) {
        to.put_slice(&[flags, short]);
    } else {
        to.put_u8(flags | LONG);
        to.put_u64(length as u64);
    }
}

/// Parses received bytes. An incomplete message takes no more memory than the bytes received so
/// far.
#[derive(Debug, Default)]
pub(super) struct Decoder {
    parts: Vec<Bytes>,
    bytes: usize,
}

impl Decoder {
    /// Takes the next message or command from the front; `None` if more bytes are needed.
    ///
    /// # Errors
    ///
    /// When a frame is invalid or a limit is exceeded.
    pub(super) fn next(&mut self, from: &mut BytesMut) -> io::Result<Option<Said>> {
        loop {
            let Some((flags, head, length)) = head(from)? else {
                return Ok(None);
            };
            let is_command = flags & COMMAND != 0;
            let most = if is_command {
                MAX_COMMAND
            } else {
                MAX_MESSAGE - self.bytes
            };
            let length = usize::try_from(length).ok().filter(|length| *length <= most);
            let length = length.ok_or_else(|| invalid("a frame that is too long"))?;
            if from.len() - head < length {
                return Ok(None);
            }
            from.advance(head);
            let body = from.split_to(length).freeze();
            if is_command {
                return split_command(body).map(Some);
            }
            self.bytes += length;
            self.parts.push(body);
            if self.parts.len() > MAX_PARTS {
                return Err(invalid("a message of too many parts"));
            }
            if flags & MORE == 0 {
                self.bytes = 0;
                return Ok(Some(Said::Message(std::mem::take(&mut self.parts))));
            }
        }
    }
}

/// Flags, header length, and body length of the frame at the front.
fn head(from: &BytesMut) -> io::Result<Option<(u8, usize, u64)>> {
    let Some(&flags) = from.first() else {
        return Ok(None);
    };
    if flags & !(MORE | LONG | COMMAND) != 0 || flags & (MORE | COMMAND) == MORE | COMMAND {
        return Err(invalid("a frame with unknown flags"));
    }
    let rest = &from[1..];
    Ok(if flags & LONG == 0 {
        rest.first().map(|length| (flags, 2, u64::from(*length)))
    } else {
        rest.first_chunk().map(|length| (flags, 9, u64::from_be_bytes(*length)))
    })
}

fn split_command(mut body: Bytes) -> io::Result<Said> {
    let name = take(&mut body, 1)?;
    Ok(Said::Command(name, body))
}

pub(super) fn invalid(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// Parses all of `bytes` as sent after a greeting. Returns the number of messages.
#[cfg(feature = "fuzzing")]
pub(crate) fn parse(bytes: &[u8]) -> io::Result<usize> {
    let mut from = BytesMut::from(bytes);
    let mut decoder = Decoder::default();
    let mut messages = 0;
    while let Some(said) = decoder.next(&mut from)? {
        match said {
            Said::Message(_) => messages += 1,
            said @ Said::Command(..) => drop(read_ready(said)),
        }
    }
    Ok(messages)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(bytes: &[u8]) -> io::Result<Vec<Said>> {
        let mut from = BytesMut::from(bytes);
        let mut decoder = Decoder::default();
        let mut said = Vec::new();
        while let Some(next) = decoder.next(&mut from)? {
            said.push(next);
        }
        Ok(said)
    }

    #[test]
    fn what_is_written_is_read_however_it_is_cut() {
        let long = Bytes::from(vec![7; 70_000]);
        let parts = vec![Bytes::from_static(b"a"), Bytes::new(), long];
        let mut bytes = ready("ROUTER").to_vec();
        bytes.extend(message(&parts));
        let said = all(&bytes).unwrap();
        assert_eq!(said[1], Said::Message(parts));
        assert_eq!(&read_ready(said[0].clone()).unwrap().socket_type[..], b"ROUTER");

        let (mut from, mut decoder, mut pieces) = (BytesMut::new(), Decoder::default(), Vec::new());
        for piece in bytes.chunks(11) {
            from.extend_from_slice(piece);
            while let Some(next) = decoder.next(&mut from).unwrap() {
                pieces.push(next);
            }
        }
        assert_eq!(pieces, said);
    }

    #[test]
    fn a_lying_length_is_refused_at_once() {
        for bytes in [
            &[2, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff][..],
            &[2, 0, 0, 0, 0, 4, 0, 0, 1],
            &[6, 0, 0, 0, 0, 0, 1, 0, 0],
            &[8, 0],
            &[5, 1, 0],
            &[4, 0],
            &[4, 2, 5, b'R'],
        ] {
            assert!(all(bytes).is_err(), "{bytes:?}");
        }
        assert!(all(&[2, 0, 0, 0, 0, 4, 0, 0, 0]).unwrap().is_empty());
        assert!(all(&[MORE, 0].repeat(MAX_PARTS + 1)).is_err());
    }

    #[test]
    fn properties_that_end_early_are_refused() {
        let whole = ready("DEALER");
        let Said::Command(name, rest) = all(&whole).unwrap().remove(0) else {
            panic!("a command");
        };
        for length in 1..rest.len() {
            let cut = Said::Command(name.clone(), rest.slice(..length));
            let read = read_ready(cut);
            // The input may end between two properties.
            assert!(read.is_err() || length == 22, "{length}: {read:?}");
        }
    }

    #[test]
    fn other_protocols_are_refused() {
        assert!(check_greeting(&greeting()).is_ok());
        for (at, byte) in [(0, 0), (9, 0), (10, 1), (12, b'P')] {
            let mut bytes = greeting();
            bytes[at] = byte;
            assert!(check_greeting(&bytes).is_err(), "byte {at}");
        }
    }
}

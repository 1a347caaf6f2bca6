//! Envelopes of Connect streams: one byte of flags, four bytes of length, then JSON.

use bytes::{BufMut, Bytes, BytesMut};
use serde::Serialize;
use serde_json::{Value, json};

use super::fault::Fault;

const HEAD: usize = 5;
const COMPRESSED: u8 = 1;
const END: u8 = 2;
/// Maximum size of a client's message, in bytes.
pub(super) const MAX_MESSAGE: usize = 4 << 20;

/// Returns the first message of a request body.
pub(super) fn first_message(body: &[u8]) -> Result<&[u8], Fault> {
    let Some((&[flags, a, b, c, d], rest)) = body.split_first_chunk::<HEAD>() else {
        return Err(Fault::invalid("the message ends before its length"));
    };
    if flags & COMPRESSED != 0 {
        return Err(Fault::invalid("the message is compressed, which was not negotiated"));
    }
    if flags & END != 0 {
        return Err(Fault::invalid("the stream ends before its first message"));
    }
    let length = usize::try_from(u32::from_be_bytes([a, b, c, d])).unwrap_or(usize::MAX);
    if length > MAX_MESSAGE {
        return Err(Fault::invalid(format!(
            "the message has {length} bytes; the maximum is {MAX_MESSAGE}"
        )));
    }
    rest.get(..length).ok_or_else(|| Fault::invalid("the message is shorter than its length says"))
}

/// A message of a response.
pub(super) fn message(content: &impl Serialize) -> Bytes {
    wrap(0, content)
}

/// The end of a response, with the error if it failed.
pub(super) fn end(fault: Option<&Fault>) -> Bytes {
    let content = fault.map_or_else(
        || json!({}),
        |fault| json!({"error": {"code": fault.connect_code(), "message": fault.message}}),
    );
    wrap(END, &content)
}

fn wrap(flags: u8, content: &impl Serialize) -> Bytes {
    let content = serde_json::to_value(content).unwrap_or(Value::Null).to_string();
    let mut bytes = BytesMut::with_capacity(HEAD + content.len());
    bytes.put_u8(flags);
    bytes.put_u32(u32::try_from(content.len()).unwrap_or(u32::MAX));
    bytes.put_slice(content.as_bytes());
    bytes.freeze()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn lengths_that_lie_are_refused() {
        for body in [
            &b""[..],
            b"\0\0\0",
            b"\0\0\0\0\x02{",
            b"\0\xff\xff\xff\xff{}",
            b"\0\0\x40\0\x01{}",
            b"\x01\0\0\0\x02{}",
            b"\x02\0\0\0\x02{}",
        ] {
            assert!(first_message(body).is_err(), "{body:?}");
        }
        assert_eq!(first_message(b"\0\0\0\0\x02{}tail").unwrap(), b"{}");
        assert_eq!(first_message(b"\0\0\0\0\0").unwrap(), b"");
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(body in proptest::collection::vec(any::<u8>(), 0..64)) {
            if let Ok(message) = first_message(&body) {
                prop_assert_eq!(&body[HEAD..HEAD + message.len()], message);
            }
        }

        #[test]
        fn what_is_written_is_read(text in "\\PC{0,50}", more in proptest::collection::vec(any::<u8>(), 0..9)) {
            let mut bytes = message(&text).to_vec();
            bytes.extend(more);
            let read: String = serde_json::from_slice(first_message(&bytes).unwrap()).unwrap();
            prop_assert_eq!(read, text);
        }
    }
}

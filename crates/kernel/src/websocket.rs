//! Messages as WebSocket frames, in the two formats of Jupyter Server.

use bytes::Bytes;
use serde_json::{Map, Value};

use crate::json::{MAX_MEMORY, memory_of};
use crate::message::{Channel, Malformed, Message, Outgoing};

/// The subprotocol name of the newer format.
pub const V1: &str = "v1.kernel.websocket.jupyter.org";

/// Maximum number of parts of a message.
const MAX_PARTS: usize = 1_024;

/// The format of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// JSON in text frames; messages with buffers in binary frames.
    Json,
    /// Binary frames: offsets of the parts, followed by the parts.
    V1,
}

/// A frame.
#[derive(Clone, Debug, PartialEq)]
pub enum Frame {
    /// Text.
    Text(String),
    /// Bytes.
    Binary(Bytes),
}

impl Form {
    /// Converts a message to a frame.
    #[must_use]
    pub fn write(self, outgoing: &Outgoing) -> Frame {
        match self {
            Self::Json => {
                let mut whole = outgoing.message.to_json();
                whole.insert("channel".to_owned(), outgoing.channel.as_str().into());
                // belljar's kernels send no buffers.
                whole.insert("buffers".to_owned(), Value::Array(Vec::new()));
                Frame::Text(Value::Object(whole).to_string())
            }
            Self::V1 => Frame::Binary(write_v1(outgoing)),
        }
    }

    /// Parses a frame. Returns the message and its channel, by default the shell.
    ///
    /// # Errors
    ///
    /// When it is invalid.
    pub fn read(self, frame: &Frame) -> Result<(Channel, Message), Malformed> {
        match (self, frame) {
            (_, Frame::Text(text)) => read_json(text.as_bytes(), Vec::new()),
            (Self::Json, Frame::Binary(bytes)) => {
                let (json, buffers) = split_legacy(bytes)?;
                read_json(&json, buffers)
            }
            (Self::V1, Frame::Binary(bytes)) => read_v1(bytes),
        }
    }
}

fn write_v1(outgoing: &Outgoing) -> Bytes {
    let Outgoing {
        channel, message, ..
    } = outgoing;
    let json = |map: &Map<String, Value>| serde_json::to_vec(map).unwrap_or_default();
    let parts = [
        channel.as_str().as_bytes().to_vec(),
        json(&message.header),
        json(&message.parent),
        json(&message.metadata),
        json(&message.content),
    ];
    // One more than the number of parts, for the end of the last.
    let count = parts.len() + 1;
    let mut offset = 8 * (1 + count) as u64;
    let mut frame = (count as u64).to_le_bytes().to_vec();
    frame.extend(offset.to_le_bytes());
    for part in &parts {
        offset += part.len() as u64;
        frame.extend(offset.to_le_bytes());
    }
    frame.extend(parts.concat());
    frame.into()
}

fn read_v1(bytes: &Bytes) -> Result<(Channel, Message), Malformed> {
    let number = |index: usize| -> Result<usize, Malformed> {
        let chunk = bytes.get(8 * index..).and_then(|rest| rest.first_chunk());
        let number = chunk.map(|chunk| u64::from_le_bytes(*chunk));
        number.and_then(|n| usize::try_from(n).ok()).ok_or(Malformed("offsets are missing"))
    };
    let count = number(0)?;
    if count > MAX_PARTS {
        return Err(Malformed("it has too many parts"));
    }
    let offsets = (1..=count).map(number).collect::<Result<Vec<_>, _>>()?;
    let mut parts = offsets.windows(2).map(|pair| slice(bytes, pair[0], pair[1]));
    let mut next = || parts.next().unwrap_or(Err(Malformed("parts are missing")));
    let channel = next()?;
    let named = std::str::from_utf8(&channel).ok().and_then(Channel::named);
    let channel = named.ok_or(Malformed("it names no channel"))?;
    let [header, parent, metadata, content] = [next()?, next()?, next()?, next()?];
    let buffers = parts.collect::<Result<Vec<_>, _>>()?;
    let message = Message::from_parts(
        json(&header)?,
        json(&parent)?,
        json(&metadata)?,
        json(&content)?,
        buffers,
    )?;
    Ok((channel, message))
}

/// Splits a binary frame in the older format into JSON and buffers.
fn split_legacy(bytes: &Bytes) -> Result<(Bytes, Vec<Bytes>), Malformed> {
    let number = |index: usize| -> Result<usize, Malformed> {
        let chunk = bytes.get(4 * index..).and_then(|rest| rest.first_chunk());
        let number = chunk.map(|chunk| u32::from_be_bytes(*chunk));
        number.and_then(|n| usize::try_from(n).ok()).ok_or(Malformed("offsets are missing"))
    };
    let count = number(0)?;
    if count > MAX_PARTS {
        return Err(Malformed("it has too many parts"));
    }
    let mut offsets = (1..=count).map(number).collect::<Result<Vec<_>, _>>()?;
    offsets.push(bytes.len());
    let mut parts = offsets.windows(2).map(|pair| slice(bytes, pair[0], pair[1]));
    let json = parts.next().unwrap_or(Err(Malformed("parts are missing")))?;
    Ok((json, parts.collect::<Result<_, _>>()?))
}

fn slice(bytes: &Bytes, start: usize, end: usize) -> Result<Bytes, Malformed> {
    if start > end || end > bytes.len() {
        return Err(Malformed("an offset is out of range"));
    }
    Ok(bytes.slice(start..end))
}

fn read_json(bytes: &[u8], buffers: Vec<Bytes>) -> Result<(Channel, Message), Malformed> {
    let Value::Object(mut whole) = json(bytes)? else {
        return Err(Malformed("it is not an object"));
    };
    let channel = match whole.get("channel") {
        None | Some(Value::Null) => Channel::Shell,
        Some(name) => {
            let named = name.as_str().and_then(Channel::named);
            named.ok_or(Malformed("it names no channel"))?
        }
    };
    let mut part = |key: &str| whole.remove(key).unwrap_or_default();
    let message = Message::from_parts(
        part("header"),
        part("parent_header"),
        part("metadata"),
        part("content"),
        buffers,
    )?;
    Ok((channel, message))
}

fn json(bytes: &[u8]) -> Result<Value, Malformed> {
    if memory_of(bytes) > MAX_MEMORY {
        return Err(Malformed("a part has too many values"));
    }
    serde_json::from_slice(bytes).map_err(|_| Malformed("a part is not JSON"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn outgoing() -> Outgoing {
        let content = Map::from_iter([("execution_state".to_owned(), json!("idle"))]);
        Outgoing {
            channel: Channel::Iopub,
            to: None,
            message: Message::new("status", "s", &Map::new(), content),
        }
    }

    #[test]
    fn a_message_is_read_as_it_was_written() {
        for form in [Form::Json, Form::V1] {
            let outgoing = outgoing();
            let (channel, message) = form.read(&form.write(&outgoing)).unwrap();
            assert_eq!((channel, message), (outgoing.channel, outgoing.message), "{form:?}");
        }
    }

    /// A frame of 64 MiB expanded to two gigabytes of values.
    #[test]
    fn a_message_of_nothing_but_values_is_malformed() {
        let zeros = |count: usize| format!("[{}0]", "0,".repeat(count));
        let read = |content: &str| {
            let text = format!(
                r#"{{"channel": "shell", "header": {{"msg_id": "a", "msg_type": "x"}},
                "parent_header": {{}}, "metadata": {{}}, "content": {{"x": {content}}}}}"#
            );
            Form::Json.read(&Frame::Text(text))
        };
        assert!(read(&zeros(1_000)).is_ok());
        assert!(read(&zeros(8_000_000)).is_err());
    }

    #[test]
    fn the_type_is_at_the_top_of_json() {
        let Frame::Text(text) = Form::Json.write(&outgoing()) else {
            panic!("text");
        };
        let value: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(value["msg_type"], "status");
        assert_eq!(value["channel"], "iopub");
        assert_eq!(value["buffers"], json!([]));
    }

    #[test]
    fn what_names_no_channel_is_for_the_shell() {
        let text = r#"{"header": {"msg_type": "execute_request"}, "content": {"code": "1"}}"#;
        let (channel, message) = Form::Json.read(&Frame::Text(text.to_owned())).unwrap();
        assert_eq!((channel, message.kind()), (Channel::Shell, "execute_request"));
        for wrong in [r#"{"channel": "x", "header": {"msg_type": "a"}}"#, "[]", "{}", "{", ""] {
            assert!(Form::Json.read(&Frame::Text(wrong.to_owned())).is_err(), "{wrong}");
        }
    }

    #[test]
    fn offsets_that_lie_are_refused() {
        let Frame::Binary(good) = Form::V1.write(&outgoing()) else {
            panic!("bytes");
        };
        for index in 0..7 {
            for value in [0, 1, u64::MAX, 1 << 40, good.len() as u64 + 1] {
                let mut bytes = good.to_vec();
                bytes[8 * index..8 * index + 8].copy_from_slice(&value.to_le_bytes());
                assert!(Form::V1.read(&Frame::Binary(bytes.into())).is_err(), "{index} {value}");
            }
        }
        for length in 0..good.len() {
            let cut = Frame::Binary(good.slice(..length));
            assert!(Form::V1.read(&cut).is_err() && Form::Json.read(&cut).is_err(), "{length}");
        }
    }

    #[test]
    fn buffers_come_with_either_form() {
        let json = br#"{"header": {"msg_type": "comm_msg"}}"#;
        let mut bytes = [2u32, 12, 12 + json.len() as u32].map(u32::to_be_bytes).concat();
        bytes.extend(json);
        bytes.extend(b"\0\xff");
        let (_, message) = Form::Json.read(&Frame::Binary(bytes.into())).unwrap();
        assert_eq!(message.buffers, [Bytes::from_static(b"\0\xff")]);
    }
}

//! Messages, independent of the transport.

use bytes::Bytes;
use chrono::{SecondsFormat, Utc};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// The supported version of the protocol.
pub(crate) const PROTOCOL: &str = "5.4";

/// The username in the kernel's messages.
const USERNAME: &str = "belljar";

/// The client of a request, which gets the reply; identified by its transport.
pub type Peer = Bytes;

/// A channel between a kernel and its clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Channel {
    /// Requests, answered in order.
    Shell,
    /// Requests that are handled while others wait.
    Control,
    /// Requests of the kernel for a line of input.
    Stdin,
    /// Messages of the kernel to all clients.
    Iopub,
}

impl Channel {
    /// Its name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Shell => "shell",
            Self::Control => "control",
            Self::Stdin => "stdin",
            Self::Iopub => "iopub",
        }
    }

    /// The channel with this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        let all = [Self::Shell, Self::Control, Self::Stdin, Self::Iopub];
        all.into_iter().find(|channel| channel.as_str() == name)
    }
}

/// Received data is not a valid message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a message of the Jupyter protocol: {0}")]
pub struct Malformed(pub(crate) &'static str);

/// A message.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Message {
    /// The header: `msg_id`, `msg_type`, `session`, `username`, `date` and `version`. Client
    /// headers are kept unchanged, because replies repeat them.
    pub header: Map<String, Value>,
    /// The header of the request that it belongs to; empty if there is no request.
    pub parent: Map<String, Value>,
    /// Usually empty.
    pub metadata: Map<String, Value>,
    /// The content.
    pub content: Map<String, Value>,
    /// Binary buffers.
    pub buffers: Vec<Bytes>,
}

/// A message from the kernel.
#[derive(Clone, Debug, PartialEq)]
pub struct Outgoing {
    /// The channel.
    pub channel: Channel,
    /// The client; on iopub, all clients.
    pub to: Option<Peer>,
    /// The message.
    pub message: Message,
}

impl Message {
    /// Creates a message of the kernel for the request with the header `parent`.
    #[must_use]
    pub fn new(
        kind: &str,
        session: &str,
        parent: &Map<String, Value>,
        content: Map<String, Value>,
    ) -> Self {
        let header = [
            ("msg_id", Value::from(unique())),
            ("msg_type", kind.into()),
            ("username", USERNAME.into()),
            ("session", session.into()),
            ("date", Utc::now().to_rfc3339_opts(SecondsFormat::Micros, true).into()),
            ("version", PROTOCOL.into()),
        ];
        Self {
            header: header.into_iter().map(|(key, value)| (key.to_owned(), value)).collect(),
            parent: parent.clone(),
            content,
            ..Self::default()
        }
    }

    /// Creates a message from the parts sent by a client. All but the first may be null.
    ///
    /// # Errors
    ///
    /// When a part is not an object, or the header has no type.
    pub fn from_parts(
        header: Value,
        parent: Value,
        metadata: Value,
        content: Value,
        buffers: Vec<Bytes>,
    ) -> Result<Self, Malformed> {
        let message = Self {
            header: object(header, "its header is not an object")?,
            parent: object(parent, "its parent header is not an object")?,
            metadata: object(metadata, "its metadata is not an object")?,
            content: object(content, "its content is not an object")?,
            buffers,
        };
        if message.kind().is_empty() {
            return Err(Malformed("its header has no msg_type"));
        }
        Ok(message)
    }

    /// Its type, such as `execute_request`.
    #[must_use]
    pub fn kind(&self) -> &str {
        self.text_in_header("msg_type")
    }

    /// Its id.
    #[must_use]
    pub fn id(&self) -> &str {
        self.text_in_header("msg_id")
    }

    /// The message as one JSON object, without its buffers and the transport's additions.
    #[must_use]
    pub fn to_json(&self) -> Map<String, Value> {
        let whole = json!({
            "header": self.header,
            "msg_id": self.id(),
            "msg_type": self.kind(),
            "parent_header": self.parent,
            "metadata": self.metadata,
            "content": self.content,
        });
        object(whole, "").unwrap_or_default()
    }

    fn text_in_header(&self, key: &str) -> &str {
        self.header.get(key).and_then(Value::as_str).unwrap_or_default()
    }
}

fn object(value: Value, otherwise: &'static str) -> Result<Map<String, Value>, Malformed> {
    match value {
        Value::Object(map) => Ok(map),
        Value::Null => Ok(Map::new()),
        _ => Err(Malformed(otherwise)),
    }
}

/// A unique id: a random UUID.
#[must_use]
pub fn unique() -> String {
    let mut bytes = [0; 16];
    // These ids need not be unpredictable: without random numbers, use the clock and a counter.
    if getrandom::fill(&mut bytes).is_err() {
        bytes = fallback();
    }
    uuid::Builder::from_random_bytes(bytes).into_uuid().to_string()
}

fn fallback() -> [u8; 16] {
    use std::sync::atomic::{AtomicU64, Ordering};
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let mut bytes = [0; 16];
    let now = Utc::now().timestamp_micros().to_le_bytes();
    bytes[..8].copy_from_slice(&COUNT.fetch_add(1, Ordering::Relaxed).to_be_bytes());
    bytes[8..].copy_from_slice(&now);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_that_are_no_message_are_refused() {
        let of = |header: Value, content: Value| {
            Message::from_parts(header, Value::Null, Value::Null, content, Vec::new())
        };
        assert!(of(json!({"msg_type": "a"}), Value::Null).is_ok());
        for header in [json!(1), json!({}), json!({"msg_type": 1}), Value::Null] {
            assert!(of(header, json!({})).is_err());
        }
        assert!(of(json!({"msg_type": "a"}), json!([])).is_err());
    }

    #[test]
    fn ids_are_uuids_of_version_4() {
        let (one, other) = (unique(), unique());
        assert_ne!(one, other);
        assert_eq!(one.len(), 36);
        assert_eq!(one.as_bytes()[14], b'4');
        assert_eq!(fallback().len(), 16);
    }

    #[test]
    fn a_message_repeats_the_header_of_its_request() {
        let parent = Map::from_iter([
            ("msg_id".to_owned(), Value::from("x")),
            ("date".to_owned(), "".into()),
        ]);
        let message = Message::new("status", "s", &parent, Map::new());
        let json = message.to_json();
        assert_eq!(json["parent_header"]["date"], "");
        assert_eq!(json["msg_type"], "status");
        assert_eq!(json["msg_id"], json["header"]["msg_id"]);
    }
}

//! Messages as multipart ZeroMQ messages, with signatures.

use bytes::Bytes;
use data_encoding::{HEXLOWER, HEXLOWER_PERMISSIVE};
use hmac::{Hmac, KeyInit, Mac};
use serde_json::Value;
use sha2::Sha256;

use crate::message::{Malformed, Message};

/// Separates the routing prefix from the message.
const DELIMITER: &[u8] = b"<IDS|MSG>";

/// Signs messages and verifies signatures; with an empty key it does neither.
#[derive(Clone)]
pub(crate) struct Signer(Option<Hmac<Sha256>>);

impl Signer {
    /// A signer with the key of a connection file.
    pub(crate) fn new(key: &str) -> Self {
        // HMAC accepts keys of any length.
        let keyed = |key: &str| Hmac::<Sha256>::new_from_slice(key.as_bytes()).ok();
        Self((!key.is_empty()).then(|| keyed(key)).flatten())
    }

    fn hash(&self, parts: &[Bytes]) -> Option<Hmac<Sha256>> {
        let mut mac = self.0.clone()?;
        for part in parts {
            mac.update(part);
        }
        Some(mac)
    }

    /// The signature of these parts in hexadecimal.
    fn sign(&self, parts: &[Bytes]) -> String {
        self.hash(parts)
            .map_or_else(String::new, |mac| HEXLOWER.encode(&mac.finalize().into_bytes()))
    }

    /// Verifies `signature` in constant time.
    fn accepts(&self, signature: &[u8], parts: &[Bytes]) -> bool {
        let Some(mac) = self.hash(parts) else {
            return true;
        };
        HEXLOWER_PERMISSIVE.decode(signature).is_ok_and(|bytes| mac.verify_slice(&bytes).is_ok())
    }

    /// The parts of a message, without the routing prefix.
    pub(crate) fn write(&self, message: &Message) -> Vec<Bytes> {
        let json = |map| serde_json::to_vec(map).unwrap_or_default().into();
        let signed: [Bytes; 4] = [
            json(&message.header),
            json(&message.parent),
            json(&message.metadata),
            json(&message.content),
        ];
        let mut parts = vec![Bytes::from_static(DELIMITER), self.sign(&signed).into()];
        parts.extend(signed);
        parts.extend(message.buffers.iter().cloned());
        parts
    }

    /// Parses a message.
    ///
    /// # Errors
    ///
    /// When the parts or the signature are invalid.
    pub(crate) fn read(&self, parts: &[Bytes]) -> Result<Message, Malformed> {
        let start = parts.iter().position(|part| part == DELIMITER);
        let rest = start.map(|start| &parts[start + 1..]);
        let Some((signature, [header, parent, metadata, content, buffers @ ..])) =
            rest.and_then(|rest| rest.split_first())
        else {
            return Err(Malformed("parts are missing"));
        };
        let signed = [header, parent, metadata, content].map(Clone::clone);
        if !self.accepts(signature, &signed) {
            return Err(Malformed("its signature is invalid"));
        }
        let json = |part: &Bytes| {
            serde_json::from_slice::<Value>(part).map_err(|_| Malformed("a part is not JSON"))
        };
        let [header, parent, metadata, content] = &signed;
        Message::from_parts(
            json(header)?,
            json(parent)?,
            json(metadata)?,
            json(content)?,
            buffers.to_vec(),
        )
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, json};

    use super::*;

    fn message() -> Message {
        let content = Map::from_iter([("code".to_owned(), json!("1 + 1"))]);
        let mut message = Message::new("execute_request", "s", &Map::new(), content);
        message.buffers.push(Bytes::from_static(b"\0\xff"));
        message
    }

    #[test]
    fn a_message_is_read_as_it_was_written() {
        for key in ["", "0123"] {
            let signer = Signer::new(key);
            let mut parts = vec![Bytes::from_static(b"peer")];
            parts.extend(signer.write(&message()));
            let read = signer.read(&parts).unwrap();
            assert_eq!(read.content, message().content);
            assert_eq!(read.buffers, message().buffers);
        }
    }

    #[test]
    fn a_signature_is_the_one_that_jupyter_makes() {
        // hmac.new(b"key", b"{}" * 4, "sha256").hexdigest()
        let parts = [(); 4].map(|()| Bytes::from_static(b"{}"));
        assert_eq!(
            Signer::new("key").sign(&parts),
            "ca767b02c5bc061ed184a9a029e7f93a7f2f7ed4e8fe74120fc1212f0b008fa3"
        );
    }

    #[test]
    fn what_was_changed_on_the_way_is_refused() {
        let signer = Signer::new("0123");
        let parts = signer.write(&message());
        for index in 1..6 {
            let mut changed = parts.clone();
            changed[index] = Bytes::from_static(b"{\"msg_type\":\"a\"}");
            assert!(signer.read(&changed).is_err(), "part {index}");
        }
        assert!(Signer::new("0124").read(&parts).is_err());
        for length in 0..6 {
            assert!(signer.read(&parts[..length]).is_err(), "{length} parts");
        }
    }
}

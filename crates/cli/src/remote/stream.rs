//! Server-sent events.

use bytes::{Buf, BytesMut};
use hyper::StatusCode;
use hyper::body::Incoming;

use super::RemoteError;
use super::link::{Link, MAX_ANSWER, SILENCE};

/// A stream of events. Cancelling `next` loses nothing.
pub(super) struct Events {
    body: Incoming,
    held: BytesMut,
    /// Bytes at the start of `held` that have no end of an event.
    searched: usize,
}

/// An event.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Sent {
    /// Its number, from 1.
    pub id: u64,
    pub name: String,
    pub data: Vec<u8>,
}

impl Events {
    pub(super) fn of(body: Incoming) -> Self {
        Self {
            body,
            held: BytesMut::new(),
            searched: 0,
        }
    }

    /// The next event; `None` at the end.
    pub(super) async fn next(&mut self, link: &Link) -> Result<Option<Sent>, RemoteError> {
        loop {
            while let Some(event) = self.take() {
                let event = event.map_err(|()| link.strange(StatusCode::OK))?;
                if !event.data.is_empty() {
                    return Ok(Some(event));
                }
            }
            if self.held.len() as u64 > MAX_ANSWER {
                return Err(link.too_long(MAX_ANSWER));
            }
            // A server sends something every 15 seconds.
            match link.piece(&mut self.body, SILENCE).await? {
                Some(piece) => self.held.extend_from_slice(&piece),
                None => return Ok(None),
            }
        }
    }

    /// Takes the text up to the end of an event, and the event if the text is valid.
    fn take(&mut self) -> Option<Result<Sent, ()>> {
        let start = self.searched.saturating_sub(1);
        let found = self.held[start..].windows(2).position(|pair| pair == b"\n\n");
        let Some(length) = found.map(|at| start + at) else {
            self.searched = self.held.len();
            return None;
        };
        let event = self.held.split_to(length);
        self.held.advance(2);
        self.searched = 0;
        Some(parse(&event).ok_or(()))
    }
}

fn parse(text: &[u8]) -> Option<Sent> {
    let mut event = Sent::default();
    for line in text.split(|byte| *byte == b'\n') {
        let (name, value) = match line.iter().position(|byte| *byte == b':') {
            Some(at) => (&line[..at], line[at + 1..].trim_ascii()),
            None => (line, &b""[..]),
        };
        match name {
            b"id" => event.id = str::from_utf8(value).ok()?.parse().ok()?,
            b"event" => str::from_utf8(value).ok()?.clone_into(&mut event.name),
            b"data" => event.data.extend_from_slice(value),
            _ => {}
        }
    }
    Some(event)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_has_fields() {
        let event = parse(b": comment\nid: 7\nevent: stdout\ndata: {\"a\":\ndata:1}").unwrap();
        assert_eq!((event.id, event.name.as_str()), (7, "stdout"));
        assert_eq!(event.data, b"{\"a\":1}");
        assert_eq!(parse(b": keep-alive"), Some(Sent::default()));
        for wrong in [&b"id: -1"[..], b"id: 99999999999999999999", b"event: \xFF"] {
            assert_eq!(parse(wrong), None, "{wrong:?}");
        }
    }
}

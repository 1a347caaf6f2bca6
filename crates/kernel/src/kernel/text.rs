//! Collects the code's output into messages.

use std::time::Duration;

use belljar::event::{Event, EventKind, EventReader};
use serde_json::{Map, Value, json};
use tokio::time::{Instant, timeout_at};

use super::Inner;

/// How long text waits for more.
const GATHER: Duration = Duration::from_millis(20);
/// Maximum number of waiting bytes.
const MAX_GATHERED: usize = 64 << 10;

/// Unsent text of one stream. `print` writes a line in several parts, which become one message.
#[derive(Default)]
pub(super) struct Text {
    name: &'static str,
    text: String,
    /// The time at which it is sent at the latest.
    due: Option<Instant>,
}

/// The next step.
pub(super) enum Next {
    Event(Event),
    /// The text must be sent first.
    Full,
    End,
}

impl Text {
    /// Returns the next event, or that the text has waited long enough.
    pub(super) async fn next(&self, events: &mut EventReader) -> Next {
        let next = match self.due {
            Some(_) if self.text.len() >= MAX_GATHERED => return Next::Full,
            Some(due) => match timeout_at(due, events.next()).await {
                Ok(next) => next,
                Err(_) => return Next::Full,
            },
            None => events.next().await,
        };
        next.map_or(Next::End, Next::Event)
    }

    /// Takes an event that continues the text.
    pub(super) fn take(&mut self, kind: EventKind) -> Result<(), EventKind> {
        let (name, text) = match &kind {
            EventKind::Stdout { text } => ("stdout", text),
            EventKind::Stderr { text } => ("stderr", text),
            _ => return Err(kind),
        };
        if self.due.is_some() && self.name != name {
            return Err(kind);
        }
        self.name = name;
        self.text.push_str(text);
        self.due.get_or_insert_with(|| Instant::now() + GATHER);
        Ok(())
    }

    /// Sends the text, if any.
    pub(super) async fn publish(&mut self, inner: &Inner, header: &Map<String, Value>) {
        if self.due.take().is_some() {
            let text = std::mem::take(&mut self.text);
            inner.publish("stream", header, json!({"name": self.name, "text": text})).await;
        }
    }
}

//! Text that code writes, gathered into messages.

use std::time::Duration;

use belljar::{Event, EventKind, EventReader};
use serde_json::{Map, Value, json};
use tokio::time::{Instant, timeout_at};

use super::Inner;

/// How long text waits for more.
const GATHER: Duration = Duration::from_millis(20);
/// The most bytes of it that wait.
const MAX_GATHERED: usize = 64 << 10;

/// Text of one stream that is not told yet: `print` writes a line in pieces, which are one message.
#[derive(Default)]
pub(super) struct Text {
    name: &'static str,
    text: String,
    /// When it is told at the latest.
    due: Option<Instant>,
}

/// What comes next.
pub(super) enum Next {
    Event(Event),
    /// The text is to be told first.
    Full,
    End,
}

impl Text {
    /// The next event, or that the text has waited long enough.
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

    /// Takes an event that is more of the same text, or text where there is none.
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

    /// Tells the text, if there is any.
    pub(super) async fn publish(&mut self, inner: &Inner, header: &Map<String, Value>) {
        if self.due.take().is_some() {
            let text = std::mem::take(&mut self.text);
            inner.publish("stream", header, json!({"name": self.name, "text": text})).await;
        }
    }
}

//! Passes on output and events while the code runs.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Context;
use belljar::event::{Event, OutputWatcher, Stream};
use serde::Serialize;
use tokio::sync::Notify;

use crate::exit::{Usage, chain};
use crate::printer::Printer;

/// Passes on output and events until the first failure.
#[derive(Debug)]
pub(crate) struct Live {
    printer: Arc<Printer>,
    shows_output: bool,
    events: Option<EventSink>,
    failure: Mutex<Option<anyhow::Error>>,
    failed: Notify,
}

/// The target of events, one per line.
#[derive(Debug)]
pub(super) enum EventSink {
    Stdout,
    File(PathBuf, File),
}

impl EventSink {
    /// Opens the sink at `path`, or standard output for `-`. An existing file is replaced.
    pub(super) fn open(path: &Path) -> Result<Self, Usage> {
        if path == Path::new("-") {
            return Ok(Self::Stdout);
        }
        let created = File::create(path).map_err(|e| {
            let error = anyhow::Error::new(e).context(format!("cannot create {}", path.display()));
            Usage::new(chain(&error))
        });
        Ok(Self::File(path.to_owned(), created?))
    }

    pub(super) fn is_stdout(&self) -> bool {
        matches!(self, Self::Stdout)
    }

    fn put(&self, event: &impl Serialize, printer: &Printer) -> anyhow::Result<()> {
        let mut line = serde_json::to_string(event)?;
        line.push('\n');
        match self {
            Self::Stdout => Ok(printer.text(&line)?),
            Self::File(path, file) => {
                // In one write, so that readers of the file see whole lines.
                let written = (&*file).write_all(line.as_bytes());
                written.with_context(|| format!("cannot write events to {}", path.display()))
            }
        }
    }
}

impl Live {
    /// Shows output.
    pub(crate) fn new(printer: Arc<Printer>) -> Self {
        Self {
            printer,
            shows_output: true,
            events: None,
            failure: Mutex::new(None),
            failed: Notify::new(),
        }
    }

    /// Optionally shows output, and optionally writes events.
    pub(super) fn with(
        printer: Arc<Printer>,
        shows_output: bool,
        events: Option<EventSink>,
    ) -> Self {
        Self {
            shows_output,
            events,
            ..Self::new(printer)
        }
    }

    /// Waits for a failure.
    pub(crate) async fn failed(&self) -> anyhow::Error {
        loop {
            self.failed.notified().await;
            if let Some(error) = self.take() {
                return error;
            }
        }
    }

    /// Takes a failure that is not yet reported.
    pub(crate) fn take(&self) -> Option<anyhow::Error> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Writes an event.
    pub(super) fn pass(&self, event: &impl Serialize) {
        if let Some(events) = &self.events {
            self.note(events.put(event, &self.printer));
        }
    }

    fn note(&self, done: anyhow::Result<()>) {
        if let Err(error) = done {
            let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
            failure.get_or_insert(error);
            self.failed.notify_one();
        }
    }
}

impl OutputWatcher for Live {
    fn write(&self, stream: Stream, bytes: &[u8]) {
        if self.shows_output {
            self.note(self.printer.guest(stream, bytes).map_err(Into::into));
        }
    }

    fn wants_events(&self) -> bool {
        self.events.is_some()
    }

    fn event(&self, event: &Event) {
        self.pass(event);
    }
}

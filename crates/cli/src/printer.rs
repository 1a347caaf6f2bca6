//! All printing of the command, except help (clap), progress bars (indicatif) and line editing
//! (rustyline).
//!
//! Results go to stdout, everything else to stderr. Colours only on a terminal, and not if NO_COLOR
//! is set.

use std::io::{self, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use belljar::event::Stream;
use serde::Serialize;

use super::terminal::Filter;
use super::text::table;

/// Standard output cannot be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write to standard output")]
pub(super) struct OutputError(#[from] io::Error);

impl OutputError {
    /// Whether the reader has closed the pipe, which is not an error.
    pub(super) fn is_unread(&self) -> bool {
        self.0.kind() == io::ErrorKind::BrokenPipe
    }
}

/// The meaning of a piece of text, which decides its colour.
#[derive(Clone, Copy, Debug)]
pub(super) enum Tone {
    Good,
    Warning,
    Bad,
    Strong,
    Faint,
}

impl Tone {
    fn code(self) -> &'static str {
        match self {
            Self::Good => "32",
            Self::Warning => "33",
            Self::Bad => "1;31",
            Self::Strong => "1",
            Self::Faint => "2",
        }
    }
}

/// The output of the command.
#[derive(Debug)]
pub(super) struct Printer {
    quiet: bool,
    out: Sink,
    err: Sink,
    /// Whether both streams lead to the same terminal, pipe or file.
    shared: bool,
}

/// One of the two streams.
#[derive(Debug)]
struct Sink {
    terminal: bool,
    colours: bool,
    filter: Mutex<Filter>,
    /// Whether the last write ended in the middle of a line.
    mid_line: AtomicBool,
}

impl Sink {
    fn new(terminal: bool) -> Self {
        let set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        Self {
            terminal,
            colours: terminal && !dumb && !set("NO_COLOR"),
            filter: Mutex::default(),
            mid_line: AtomicBool::new(false),
        }
    }

    fn paint(&self, tone: Tone, text: &str) -> String {
        if self.colours {
            format!("\x1b[{}m{text}\x1b[0m", tone.code())
        } else {
            text.to_owned()
        }
    }

    fn show(&self, mut to: impl Write, bytes: &[u8]) -> io::Result<()> {
        if self.terminal {
            let mut filter = self.filter.lock().unwrap_or_else(PoisonError::into_inner);
            to.write_all(filter.pass(bytes).as_bytes())?;
        } else {
            to.write_all(bytes)?;
        }
        to.flush()
    }
}

impl Printer {
    pub(super) fn new(quiet: bool) -> Self {
        let (out, err) = (io::stdout().is_terminal(), io::stderr().is_terminal());
        Self {
            quiet,
            out: Sink::new(out),
            err: Sink::new(err),
            shared: (out && err) || lead_to_the_same(),
        }
    }

    /// Whether standard output is a terminal.
    pub(super) fn out_is_terminal(&self) -> bool {
        self.out.terminal
    }

    /// Whether progress bars can be drawn.
    pub(super) fn shows_progress(&self) -> bool {
        self.err.terminal && !self.quiet
    }

    /// Prints a result as it is.
    pub(super) fn text(&self, text: &str) -> Result<(), OutputError> {
        let mut out = io::stdout().lock();
        out.write_all(text.as_bytes())?;
        self.note_end(Stream::Stdout, text.as_bytes());
        Ok(out.flush()?)
    }

    /// Prints a line of the result.
    pub(super) fn line(&self, text: &str) -> Result<(), OutputError> {
        self.text(&format!("{text}\n"))
    }

    /// Prints rows with aligned columns; the first row is the heading.
    pub(super) fn table<const N: usize>(&self, rows: &[[String; N]]) -> Result<(), OutputError> {
        for (index, line) in table(rows).iter().enumerate() {
            if index == 0 {
                self.line(&self.paint(Tone::Strong, line))?;
            } else {
                self.line(line)?;
            }
        }
        Ok(())
    }

    /// Prints a result as JSON: on one line, or indented on a terminal.
    pub(super) fn json(&self, value: &impl Serialize) -> Result<(), OutputError> {
        let text = if self.out.terminal {
            serde_json::to_string_pretty(value)
        } else {
            serde_json::to_string(value)
        };
        self.line(&text.map_err(io::Error::other)?)
    }

    /// Prints output of the code.
    pub(super) fn guest(&self, stream: Stream, bytes: &[u8]) -> Result<(), OutputError> {
        self.note_end(stream, bytes);
        if stream == Stream::Stdout {
            return Ok(self.out.show(io::stdout().lock(), bytes)?);
        }
        // A run continues if stderr is closed, as other commands do.
        let _ = self.err.show(io::stderr().lock(), bytes);
        Ok(())
    }

    /// Ends an unfinished line of the code's output, which a prompt would overwrite.
    pub(super) fn end_line(&self) -> Result<(), OutputError> {
        if self.out.terminal && self.is_mid_line(Stream::Stdout).load(Ordering::Relaxed) {
            self.line("")?;
        }
        Ok(())
    }

    /// Records that the user's input has ended the line.
    #[cfg(unix)]
    pub(super) fn line_was_typed(&self) {
        self.note_end(Stream::Stdout, b"\n");
    }

    /// Prints a note.
    pub(super) fn note(&self, text: &str) {
        if !self.quiet {
            self.say(text);
        }
    }

    /// Prints an error.
    pub(super) fn error(&self, text: &str) {
        self.say(&format!("{} {text}", self.err.paint(Tone::Bad, "error:")));
    }

    /// Prints a hint.
    pub(super) fn hint(&self, text: &str) {
        self.say(&format!("{} {text}", self.err.paint(Tone::Warning, "hint:")));
    }

    /// Formats text for [`note`](Self::note).
    pub(super) fn paint_note(&self, tone: Tone, text: &str) -> String {
        self.err.paint(tone, text)
    }

    /// Formats text for [`line`](Self::line).
    pub(super) fn paint(&self, tone: Tone, text: &str) -> String {
        self.out.paint(tone, text)
    }

    /// Writes a line to stderr. Starts a new line if the code's output has left one unfinished.
    fn say(&self, text: &str) {
        let mid_line = self.is_mid_line(Stream::Stderr).swap(false, Ordering::Relaxed);
        let start = if mid_line { "\n" } else { "" };
        // If stderr is closed, the message is lost.
        let _ = writeln!(io::stderr().lock(), "{start}{text}");
    }

    /// Whether the target of a stream is in the middle of a line.
    fn is_mid_line(&self, stream: Stream) -> &AtomicBool {
        match stream {
            Stream::Stderr if !self.shared => &self.err.mid_line,
            _ => &self.out.mid_line,
        }
    }

    fn note_end(&self, stream: Stream, bytes: &[u8]) {
        if let Some(last) = bytes.last() {
            self.is_mid_line(stream).store(*last != b'\n', Ordering::Relaxed);
        }
    }
}

/// Whether both streams are one pipe or file, as after `2>&1`.
#[cfg(unix)]
fn lead_to_the_same() -> bool {
    use std::os::fd::{AsFd, BorrowedFd};
    use std::os::unix::fs::MetadataExt;
    let identity = |stream: BorrowedFd| {
        let meta = std::fs::File::from(stream.try_clone_to_owned().ok()?).metadata().ok()?;
        Some((meta.dev(), meta.ino()))
    };
    let out = identity(io::stdout().as_fd());
    out.is_some() && out == identity(io::stderr().as_fd())
}

#[cfg(not(unix))]
fn lead_to_the_same() -> bool {
    false
}

//! The input of a batch: lines, read ahead on a separate thread.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;
use std::sync::{MutexGuard, PoisonError};
use std::thread;

use anyhow::Context;
use tokio::sync::Mutex;
use tokio::sync::mpsc::{Receiver, Sender, channel};

use crate::exit::Usage;
use crate::source::unreadable;

/// Maximum length of a line in bytes. Longer lines are skipped and reported.
const LONGEST: u64 = 64 << 20;

/// A non-blank line of the input.
#[derive(Debug)]
pub(super) struct Line {
    /// Line number from 1, counting blank lines.
    pub number: u64,
    /// The text, or why it could not be read.
    pub text: Text,
    /// Bytes read since the previous line.
    pub bytes_read: u64,
}

/// The bytes of a line, or why they could not be read.
type Text = Result<Vec<u8>, Unread>;

/// Why a line could not be read.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unread {
    #[error("the line is longer than {} MiB; pass large files by path", LONGEST >> 20)]
    TooLong,
    #[error("cannot read the rest of the input: {0}")]
    Io(#[from] io::Error),
}

/// An open input.
pub(super) struct Input {
    reader: Box<dyn Read + Send>,
    /// Length in bytes, for a file.
    pub length: Option<u64>,
}

/// Opens a file, or standard input for `-`.
pub(super) fn open(path: &Path) -> Result<Input, Usage> {
    if path == Path::new("-") {
        return Ok(Input {
            reader: Box::new(io::stdin()),
            length: None,
        });
    }
    let name = path.display().to_string();
    let file = File::open(path).map_err(|e| unreadable(&name, e))?;
    let metadata = file.metadata().map_err(|e| unreadable(&name, e))?;
    if metadata.is_dir() {
        return Err(Usage::new(format!("{name} is a directory")));
    }
    Ok(Input {
        reader: Box::new(file),
        length: metadata.is_file().then_some(metadata.len()),
    })
}

/// Maximum number of lines in a chunk. Chunks avoid waking the receiver for each line.
const MAX_TOGETHER: usize = 64;
/// A chunk ends after this many bytes.
const MAX_BYTES_TOGETHER: usize = 64 << 10;

/// Lines for several tasks.
///
/// A task that finds a line ready never waits for another task. With a fair lock, the task that
/// gets the lock might have to wait for a processor, and all others would wait with it.
pub(super) struct Lines {
    ready: std::sync::Mutex<Ready>,
    receiver: Mutex<Receiver<Vec<Line>>>,
}

/// Lines received but not yet taken.
#[derive(Default)]
struct Ready {
    lines: std::vec::IntoIter<Line>,
    taken: u64,
}

impl Ready {
    fn take(&mut self) -> Option<(u64, Line)> {
        let line = self.lines.next()?;
        let sequence = self.taken;
        self.taken += 1;
        Some((sequence, line))
    }
}

impl Lines {
    /// The next line, and the number of lines before it; `None` at the end of the input.
    pub(super) async fn next(&self) -> Option<(u64, Line)> {
        if let Some(taken) = self.ready().take() {
            return Some(taken);
        }
        let mut receiver = self.receiver.lock().await;
        loop {
            // Another task may have received a chunk meanwhile.
            if let Some(taken) = self.ready().take() {
                return Some(taken);
            }
            let lines = receiver.recv().await?;
            self.ready().lines = lines.into_iter();
        }
    }

    fn ready(&self) -> MutexGuard<'_, Ready> {
        self.ready.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Starts a thread that reads a few lines ahead.
pub(super) fn read_ahead(input: Input) -> anyhow::Result<Lines> {
    let (sender, receiver) = channel(1);
    thread::Builder::new()
        .name("input".to_owned())
        .spawn(move || read(BufReader::with_capacity(1 << 16, input.reader), &sender))
        .context("cannot start a thread")?;
    Ok(Lines {
        ready: std::sync::Mutex::default(),
        receiver: Mutex::new(receiver),
    })
}

/// Sends lines until the input ends or the receiver is dropped.
fn read<R: Read>(mut reader: BufReader<R>, sender: &Sender<Vec<Line>>) {
    let (mut together, mut bytes, mut bytes_read) = (Vec::new(), 0, 0);
    for number in 1.. {
        let text = match next(&mut reader, LONGEST) {
            Ok(None) => {
                if !together.is_empty() {
                    let _ = sender.blocking_send(together);
                }
                return;
            }
            Ok(Some((text, length))) => {
                bytes_read += length;
                text
            }
            Err(error) => Err(error.into()),
        };
        let last = matches!(text, Err(Unread::Io(_)));
        if !matches!(&text, Ok(text) if text.trim_ascii().is_empty()) {
            bytes += text.as_ref().map_or(0, Vec::len);
            together.push(Line {
                number,
                text,
                bytes_read: std::mem::take(&mut bytes_read),
            });
        }
        // Reading on might block, so send what is complete.
        let is_all = last || !reader.buffer().contains(&b'\n');
        if (is_all || together.len() >= MAX_TOGETHER || bytes >= MAX_BYTES_TOGETHER)
            && !together.is_empty()
        {
            bytes = 0;
            if sender.blocking_send(std::mem::take(&mut together)).is_err() || last {
                return;
            }
        }
    }
}

/// Reads the next line. Returns it with its length in bytes; `None` at the end.
fn next(reader: &mut impl BufRead, longest: u64) -> io::Result<Option<(Text, u64)>> {
    let mut line = Vec::new();
    let length = reader.take(longest + 1).read_until(b'\n', &mut line)? as u64;
    if length == 0 {
        return Ok(None);
    }
    if length <= longest || line.ends_with(b"\n") {
        return Ok(Some((Ok(line), length)));
    }
    drop(line);
    let rest = reader.skip_until(b'\n')? as u64;
    Ok(Some((Err(Unread::TooLong), length + rest)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(input: &str, longest: u64) -> Vec<Option<String>> {
        let mut reader = input.as_bytes();
        let mut lines = Vec::new();
        while let Some((text, _)) = next(&mut reader, longest).unwrap() {
            lines.push(text.ok().map(|text| String::from_utf8(text).unwrap()));
        }
        lines
    }

    #[test]
    fn a_line_that_is_too_long_costs_only_itself() {
        let texts = lines("ab\nabcdef\nabc\nabcd", 3);
        assert_eq!(texts, [Some("ab\n".into()), None, Some("abc\n".into()), None]);
    }

    fn handed_over(input: &'static [u8]) -> Vec<Vec<Line>> {
        let (sender, mut receiver) = channel(999);
        read(BufReader::new(input), &sender);
        drop(sender);
        std::iter::from_fn(|| receiver.blocking_recv()).collect()
    }

    #[test]
    fn lines_are_counted_with_the_blank_ones() {
        let lines = handed_over(b"a\n\n \r\nb").into_iter().flatten();
        let seen: Vec<_> =
            lines.map(|line| (line.number, line.text.unwrap(), line.bytes_read)).collect();
        assert_eq!(seen, [(1, b"a\n".to_vec(), 2), (4, b"b".to_vec(), 5)]);
    }

    #[test]
    fn lines_that_are_there_are_handed_over_together() {
        let short: &[u8] = b"a\n".repeat(MAX_TOGETHER + 2).leak();
        let counts: Vec<_> = handed_over(short).iter().map(Vec::len).collect();
        assert_eq!(counts.iter().sum::<usize>(), MAX_TOGETHER + 2);
        assert_eq!(counts[0], MAX_TOGETHER);
        let long: &[u8] = [vec![b'a'; MAX_BYTES_TOGETHER], vec![b'b'; 9]].join(&b'\n').leak();
        let counts: Vec<_> = handed_over(long).iter().map(Vec::len).collect();
        assert_eq!(counts, [1, 1]);
    }
}

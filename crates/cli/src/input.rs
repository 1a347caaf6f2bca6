//! Answers the code's `input()` with lines of standard input.
//!
//! Waits for standard input without a thread, because a thread left behind by a cancelled question
//! would take the next line.

use std::sync::Arc;

use belljar::Request;

use super::printer::Printer;

/// Answers `input()` from standard input.
#[cfg(unix)]
pub(super) fn ask_person(request: Request, printer: &Arc<Printer>) -> Request {
    let person = Person::new(printer);
    request.answerer(move |_| {
        let person = person.clone();
        async move { person.line().await }
    })
}

#[cfg(not(unix))]
pub(super) fn ask_person(request: Request, _: &Arc<Printer>) -> Request {
    request
}

/// The person at standard input.
#[derive(Clone)]
#[cfg(unix)]
pub(super) struct Person(Arc<unix::Asker>);

#[cfg(unix)]
impl Person {
    /// Call this in a tokio runtime.
    pub(super) fn new(printer: &Arc<Printer>) -> Self {
        Self(Arc::new(unix::Asker::new(Arc::clone(printer))))
    }

    /// The next line; `None` at the end of the input, which a read error counts as.
    pub(super) async fn line(&self) -> Option<String> {
        self.0.line().await.ok().flatten()
    }
}

/// A person who is never asked: `--ask` is not available.
#[derive(Clone)]
#[cfg(all(not(unix), feature = "server"))]
pub(super) struct Person;

#[cfg(all(not(unix), feature = "server"))]
impl Person {
    pub(super) fn new(_: &Arc<Printer>) -> Self {
        Self
    }

    #[expect(clippy::unused_async, reason = "it waits on other systems")]
    pub(super) async fn line(&self) -> Option<String> {
        None
    }
}

#[cfg(unix)]
mod unix {
    use std::io::{self, IsTerminal, Stdin};
    use std::sync::{Arc, Mutex, PoisonError};
    use std::time::Duration;

    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use tokio::runtime::Handle;

    use crate::printer::Printer;

    /// Interval between checks for input.
    const INTERVAL: Duration = Duration::from_millis(20);

    /// Longer lines are cut, so that endless input cannot exhaust memory.
    const MAX_LINE: usize = 1 << 20;

    /// Reads lines of standard input.
    pub(super) struct Asker {
        stdin: Stdin,
        reactor: Handle,
        printer: Arc<Printer>,
        /// Bytes read after the last line.
        ahead: Mutex<Vec<u8>>,
    }

    impl Asker {
        pub(super) fn new(printer: Arc<Printer>) -> Self {
            Self {
                stdin: io::stdin(),
                reactor: Handle::current(),
                printer,
                ahead: Mutex::default(),
            }
        }

        /// The next line without its line break; `None` at the end of the input.
        pub(super) async fn line(&self) -> io::Result<Option<String>> {
            loop {
                if let Some(line) = self.take(false) {
                    return Ok(Some(line));
                }
                self.until_readable().await?;
                let mut piece = [0; 4096];
                // A terminal has input only when a line is complete, so this does not block.
                let length = rustix::io::read(&self.stdin, &mut piece)?;
                if length == 0 {
                    return Ok(self.take(true));
                }
                let mut ahead = self.ahead.lock().unwrap_or_else(PoisonError::into_inner);
                ahead.extend_from_slice(&piece[..length]);
            }
        }

        /// Takes the first complete line from the buffer; at the `end`, everything.
        fn take(&self, end: bool) -> Option<String> {
            let mut ahead = self.ahead.lock().unwrap_or_else(PoisonError::into_inner);
            let whole = ahead.iter().position(|byte| *byte == b'\n');
            let length = match whole {
                Some(length) => length,
                None if ahead.len() >= MAX_LINE || (end && !ahead.is_empty()) => ahead.len(),
                None => return None,
            };
            let line: Vec<u8> = ahead.drain(..length + usize::from(whole.is_some())).collect();
            let line = &line[..length];
            if whole.is_some() && self.stdin.is_terminal() {
                self.printer.line_was_typed();
            }
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            Some(String::from_utf8_lossy(line).into_owned())
        }

        async fn until_readable(&self) -> io::Result<()> {
            const AT_ONCE: Timespec = Timespec {
                tv_sec: 0,
                tv_nsec: 0,
            };
            while poll(&mut [PollFd::new(&self.stdin, PollFlags::IN)], Some(&AT_ONCE))? == 0 {
                let pause = {
                    // The run may be polled outside of a reactor.
                    let _entered = self.reactor.enter();
                    tokio::time::sleep(INTERVAL)
                };
                pause.await;
            }
            Ok(())
        }
    }
}

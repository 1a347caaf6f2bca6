//! Lines that somebody types, or another program writes, for the code's `input()`.
//!
//! Standard input is waited for without a thread: a question that is given up leaves nobody behind
//! who would take the next line.

use std::sync::Arc;

use belljar::Request;

use super::printer::Printer;

/// Has `input()` ask whoever is at the other end of standard input.
#[cfg(unix)]
pub(super) fn ask_person(request: Request, printer: &Arc<Printer>) -> Request {
    let asker = Arc::new(unix::Asker::new(Arc::clone(printer)));
    request.answerer(move |_| {
        let asker = Arc::clone(&asker);
        // What cannot be read is at its end.
        async move { asker.line().await.ok().flatten() }
    })
}

#[cfg(not(unix))]
pub(super) fn ask_person(request: Request, _: &Arc<Printer>) -> Request {
    request
}

#[cfg(unix)]
mod unix {
    use std::io::{self, IsTerminal, Stdin};
    use std::sync::{Arc, Mutex, PoisonError};
    use std::time::Duration;

    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use tokio::runtime::Handle;

    use crate::printer::Printer;

    /// How often it is looked whether there is something to read.
    const INTERVAL: Duration = Duration::from_millis(20);

    /// A longer line is cut there: whoever writes it without an end does not fill the memory.
    const MAX_LINE: usize = 1 << 20;

    /// Standard input, a line at a time.
    pub(super) struct Asker {
        stdin: Stdin,
        reactor: Handle,
        printer: Arc<Printer>,
        /// What has been read after the last line.
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

        /// The next line without its end; none at the end of the input.
        pub(super) async fn line(&self) -> io::Result<Option<String>> {
            loop {
                if let Some(line) = self.take(false) {
                    return Ok(Some(line));
                }
                self.until_readable().await?;
                let mut piece = [0; 4096];
                // A terminal has something to read when a line is whole, so this does not wait.
                let length = rustix::io::read(&self.stdin, &mut piece)?;
                if length == 0 {
                    return Ok(self.take(true));
                }
                let mut ahead = self.ahead.lock().unwrap_or_else(PoisonError::into_inner);
                ahead.extend_from_slice(&piece[..length]);
            }
        }

        /// The first line of what has been read, if it is whole, or at the `end` all of it.
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
                    // The run is polled where no reactor need be at hand.
                    let _entered = self.reactor.enter();
                    tokio::time::sleep(INTERVAL)
                };
                pause.await;
            }
            Ok(())
        }
    }
}

//! Forwards a worker's standard error to the log.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use belljar_text::line_of;
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe::Receiver;
use tokio::task::JoinHandle;

/// Takes the name of an account and a line.
pub type Log = Arc<dyn Fn(&str, &str) + Send + Sync>;

/// Number of bytes and of lines after which a worker that writes more has to wait.
const PIECE: usize = 4 << 10;
const LINES: usize = 64;
const REST: Duration = Duration::from_millis(50);

/// Returns a pipe for a worker's standard error, and the task that logs what arrives in it.
pub(super) fn pipe(account: &str, log: Log) -> io::Result<(OwnedFd, JoinHandle<()>)> {
    let (reader, writer) = io::pipe()?;
    let reader = Receiver::from_owned_fd(reader.into())?;
    Ok((writer.into(), tokio::spawn(pass(reader, account.to_owned(), log))))
}

/// Logs each line until the worker exits. A compromised worker can write anything, so lines are
/// sanitised, attributed to the account and limited in rate.
async fn pass(mut from: Receiver, account: String, log: Log) {
    let mut piece = vec![0; PIECE];
    while let Ok(length @ 1..) = from.read(&mut piece).await {
        let text = String::from_utf8_lossy(&piece[..length]);
        let mut count = 0;
        for line in text.lines().filter(|line| !line.is_empty()) {
            log(&account, &line_of(line, PIECE));
            count += 1;
            if count % LINES == 0 {
                tokio::time::sleep(REST).await;
            }
        }
        if length == PIECE {
            tokio::time::sleep(REST).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// The log adds the account and more to each line.
    #[tokio::test]
    async fn many_short_lines_are_slowed_down_like_long_ones() {
        let (reader, mut writer) = io::pipe().unwrap();
        writer.write_all(&b"x\n\n".repeat(PIECE / 3)).unwrap();
        drop(writer);
        let count = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&count);
        let log: Log = Arc::new(move |_, line| {
            assert_eq!(line, "x");
            counted.fetch_add(1, Ordering::Relaxed);
        });
        let begun = std::time::Instant::now();
        pass(Receiver::from_owned_fd(reader.into()).unwrap(), "one".to_owned(), log).await;
        let count = count.load(Ordering::Relaxed);
        assert_eq!(count, PIECE / 3);
        assert!(begun.elapsed() >= REST * (count / LINES) as u32, "{:?}", begun.elapsed());
    }
}

//! Forwards a worker's standard error to the log.

use std::sync::Arc;
use std::time::Duration;

use belljar_text::line_of;
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe::Receiver;

/// Takes the name of an account and a line.
pub type Log = Arc<dyn Fn(&str, &str) + Send + Sync>;

/// Number of bytes after which a worker that writes more has to wait.
const PIECE: usize = 4 << 10;
const REST: Duration = Duration::from_millis(50);

/// Logs each line until the worker exits. A compromised worker can write anything, so lines are
/// sanitised, attributed to the account and limited in rate.
pub(super) async fn pass(mut from: Receiver, account: String, log: Log) {
    let mut piece = vec![0; PIECE];
    while let Ok(length @ 1..) = from.read(&mut piece).await {
        for line in String::from_utf8_lossy(&piece[..length]).lines() {
            log(&account, &line_of(line, PIECE));
        }
        if length == PIECE {
            tokio::time::sleep(REST).await;
        }
    }
}

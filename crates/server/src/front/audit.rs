//! Passes a worker's records to the audit log.

use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::net::UnixStream;

use crate::audit::{AuditLog, Event, MAX_LINE, Record};

/// Number of bytes after which a worker that writes more has to wait.
const PIECE: usize = 256 << 10;
/// Bytes that a line counts at least: an empty one takes a record of its own, too.
const MIN_LINE: usize = 256;
const REST: Duration = Duration::from_millis(50);

/// Writes each record until the worker exits. A compromised worker can write false records, but
/// only about its own account. A line that is no record counts as lost.
pub(super) async fn pass(from: UnixStream, account: String, log: AuditLog) {
    let mut from = BufReader::new(from);
    let (mut line, mut bytes) = (Vec::new(), 0);
    loop {
        line.clear();
        let read = (&mut from).take(MAX_LINE as u64).read_until(b'\n', &mut line).await;
        if !matches!(read, Ok(1..)) {
            return;
        }
        let record = serde_json::from_slice::<Record>(&line).ok();
        let is_of_workers =
            |record: &Record| !matches!(record.event, Event::ServerStarted | Event::ServerStopped);
        let mut record = record.filter(is_of_workers).unwrap_or_else(|| Record {
            count: Some(1),
            ..Record::new(Event::Lost)
        });
        record.account = Some(account.clone());
        log.write(record);
        bytes += line.len().max(MIN_LINE);
        if bytes >= PIECE {
            bytes = 0;
            tokio::time::sleep(REST).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;
    use crate::lock::lock;

    async fn passed(written: &[u8]) -> String {
        #[derive(Clone, Default)]
        struct Kept(std::sync::Arc<std::sync::Mutex<Vec<u8>>>);
        impl Write for Kept {
            fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
                lock(&self.0).extend_from_slice(bytes);
                Ok(bytes.len())
            }

            fn flush(&mut self) -> std::io::Result<()> {
                Ok(())
            }
        }
        let kept = Kept::default();
        let (near, mut far) = UnixStream::pair().unwrap();
        let log = AuditLog::to(kept.clone()).unwrap();
        let passing = pass(near, "one".to_owned(), log.clone());
        let writing = async {
            // The reader may hang up first.
            let _ = tokio::io::AsyncWriteExt::write_all(&mut far, written).await;
            drop(far);
        };
        tokio::join!(passing, writing);
        log.flush();
        String::from_utf8(lock(&kept.0).clone()).unwrap()
    }

    #[tokio::test]
    async fn a_worker_writes_about_its_own_account_only() {
        let kept =
            passed(b"{\"time\":\"t\",\"event\":\"run\",\"account\":\"two\",\"key\":\"k\"}\n");
        let expected = "{\"time\":\"t\",\"event\":\"run\",\"account\":\"one\",\"key\":\"k\"}\n";
        assert_eq!(kept.await, expected);
    }

    #[tokio::test]
    async fn what_is_no_record_counts_as_lost() {
        let fine = "{\"time\":\"t\",\"event\":\"run\"}\n";
        let long = format!("{{\"time\":\"{}\"}}\n", "x".repeat(MAX_LINE));
        let stopped = "{\"time\":\"t\",\"event\":\"server.stopped\"}\n";
        for wrong in ["x\n", "\n", "{}x\n", "{\"a\":1}\n", stopped, long.as_str()] {
            let kept = passed(format!("{fine}{wrong}{fine}").as_bytes()).await;
            let count = |event: &str| kept.lines().filter(|line| line.contains(event)).count();
            assert_eq!(count("\"run\""), 2, "{wrong:.40}: {kept}");
            assert!(count("\"lost\"") >= 1 && !kept.contains("server"), "{wrong:.40}: {kept}");
            assert_eq!(count("\"account\":\"one\""), kept.lines().count(), "{kept}");
        }
    }
}

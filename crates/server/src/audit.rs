//! The audit log: who ran what, with which limits, and how it ended, as lines of JSON. It contains
//! no code and no data of accounts, except names of images.

mod usage;

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

use belljar::RequestLimits;
use belljar_text::line_of;
use data_encoding::HEXLOWER;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

pub use self::usage::{AuditUsage, KeyUsage};
use crate::http::files::timestamp;
use crate::lock::lock;
use crate::service::error::ServiceError;
use crate::service::owner::Owner;

/// Maximum length of a text in a record, in characters.
const MAX_TEXT: usize = 256;
/// Maximum length of a line, in bytes. A character takes at most 6 bytes in JSON.
pub(crate) const MAX_LINE: usize = 16 << 10;
/// Refused keys that are recorded in a second, since anyone can send them. The others are counted.
const MAX_REFUSED: u64 = 10;

/// An audit log. Clones share the same file.
#[derive(Clone)]
pub struct AuditLog(Arc<Mutex<Inner>>);

struct Inner {
    to: Box<dyn Write + Send>,
    /// Whether the last line has no end.
    is_partial: bool,
    /// Records lost since the last successful write.
    lost: u64,
    /// Records lost in all.
    lost_ever: u64,
    /// Start of the current second, and keys refused in it.
    refused: (Instant, u64),
    /// Keys refused without a record of their own, since the last record of one.
    unrecorded: u64,
}

/// A line of the log. Absent fields do not apply.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Record {
    pub time: String,
    pub event: Event,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub account: Option<String>,
    /// Id of the key, as `belljar key list` shows it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub route: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// The session that it was forked from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// `run`, or other guest work, such as `start`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub work: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code_sha256: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limits: Option<Limits>,
    /// How it ended: `success`, `refused`, `done`, or the kind of its error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    /// Code of the error with which it was refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wall_ms: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fuel: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_peak_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workspace_bytes: Option<u64>,
    /// Records of `lost`, or refused keys without a record.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
}

/// The request that work belongs to.
#[derive(Clone, Debug, Default)]
pub(crate) struct Caller {
    /// Id of the key.
    pub key: Option<String>,
    /// The request's id.
    pub request: Option<String>,
    /// Address of the client.
    pub client: Option<String>,
    pub method: Option<String>,
    /// Template of the path.
    pub route: Option<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Event {
    /// Guest work ended or was refused.
    #[default]
    #[serde(rename = "run")]
    Run,
    #[serde(rename = "session.created")]
    SessionCreated,
    #[serde(rename = "session.closed")]
    SessionClosed,
    /// A request without a valid key.
    #[serde(rename = "key.refused")]
    KeyRefused,
    #[serde(rename = "server.started")]
    ServerStarted,
    #[serde(rename = "server.stopped")]
    ServerStopped,
    /// Records could not be written.
    #[serde(rename = "lost")]
    Lost,
}

impl From<&RequestLimits> for Limits {
    fn from(asked: &RequestLimits) -> Self {
        Self {
            timeout_ms: asked.timeout.map(|time| time.as_secs_f64() * 1e3),
            memory_bytes: asked.memory,
            fuel: asked.fuel,
            output_bytes: asked.output,
            workspace_bytes: asked.workspace,
            files: asked.files,
        }
    }
}

/// The limits that a request set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Limits {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fuel: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workspace_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub files: Option<u64>,
}

impl AuditLog {
    /// Opens a file for appending, and creates it if missing, readable only by its owner. Each
    /// record is appended by one write, so that several processes can share the file, and a program
    /// that rotates logs can copy and truncate it.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be opened.
    pub fn open(path: &Path) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        options.append(true).create(true);
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        Ok(Self::to(options.open(path)?))
    }

    /// Writes to standard error.
    #[must_use]
    pub fn stderr() -> Self {
        Self::to(io::stderr())
    }

    /// Writes to `to`, one line at a time.
    pub(crate) fn to(to: impl Write + Send + 'static) -> Self {
        Self(Arc::new(Mutex::new(Inner {
            to: Box::new(to),
            is_partial: false,
            lost: 0,
            lost_ever: 0,
            refused: (Instant::now(), 0),
            unrecorded: 0,
        })))
    }

    /// Appends a record. If that fails, the record is lost, which is logged and counted; the next
    /// record that can be written says so.
    pub(crate) fn write(&self, record: Record) {
        lock(&self.0).write(record);
    }

    /// Appends a record of a refused key, unless there were too many in this second.
    pub(crate) fn refuse(&self, mut record: Record) {
        let mut inner = lock(&self.0);
        if inner.refused.0.elapsed() >= Duration::from_secs(1) {
            inner.refused = (Instant::now(), 0);
        }
        inner.refused.1 += 1;
        if inner.refused.1 > MAX_REFUSED {
            inner.unrecorded += 1;
            return;
        }
        let others = std::mem::take(&mut inner.unrecorded);
        record.count = (others > 0).then_some(others);
        inner.write(record);
    }

    /// Number of lost records.
    pub(crate) fn lost(&self) -> u64 {
        lock(&self.0).lost_ever
    }
}

impl Inner {
    fn write(&mut self, record: Record) {
        if self.lost > 0 {
            let note = Record {
                count: Some(self.lost),
                ..Record::new(Event::Lost)
            };
            if self.append(note).is_err() {
                self.lose();
                return;
            }
            tracing::warn!(count = self.lost, "records of the audit log were lost");
            self.lost = 0;
        }
        if let Err(error) = self.append(record) {
            if self.lost == 0 {
                tracing::error!(%error, "cannot write to the audit log; runs continue");
            }
            self.lose();
        }
    }

    fn lose(&mut self) {
        self.lost += 1;
        self.lost_ever += 1;
    }

    fn append(&mut self, record: Record) -> io::Result<()> {
        let mut line = Vec::new();
        if self.is_partial {
            line.push(b'\n');
        }
        serde_json::to_writer(&mut line, &record.bounded())?;
        line.push(b'\n');
        let mut rest = line.as_slice();
        // One call, unless the disk fills up, because other processes may append, too.
        let written = loop {
            match self.to.write(rest) {
                Ok(0) => break Err(io::ErrorKind::WriteZero.into()),
                Ok(count) if count == rest.len() => break Ok(()),
                Ok(count) => rest = &rest[count..],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => break Err(error),
            }
        };
        self.is_partial = written.is_err() && (self.is_partial || rest.len() < line.len());
        written
    }
}

impl Record {
    /// A record of now.
    pub(crate) fn new(event: Event) -> Self {
        Self {
            time: timestamp(SystemTime::now()),
            event,
            ..Self::default()
        }
    }

    /// A record of an account's work.
    pub(crate) fn of(event: Event, owner: &Owner) -> Self {
        let mut record = Self::new(event);
        record.account = Some(owner.name().to_owned());
        if let Some(caller) = owner.caller() {
            let Caller {
                key,
                request,
                client,
                method,
                route,
            } = caller.clone();
            record.key = key;
            record.request = request;
            record.client = client;
            record.method = method;
            record.route = route;
        }
        record
    }

    /// Records why work was refused.
    pub(crate) fn refused(&mut self, error: &ServiceError) {
        self.status = Some("refused".to_owned());
        self.error = Some(error.code().to_owned());
    }

    /// Sets the digest of the code.
    pub(crate) fn code(&mut self, code: &str) {
        self.code_sha256 = Some(HEXLOWER.encode(&Sha256::digest(code)));
        self.code_bytes = Some(code.len() as u64);
    }

    /// Cuts texts, which clients and compromised workers choose, and removes control characters.
    fn bounded(mut self) -> Self {
        let texts = [
            &mut self.account,
            &mut self.key,
            &mut self.request,
            &mut self.client,
            &mut self.method,
            &mut self.route,
            &mut self.session,
            &mut self.parent,
            &mut self.image,
            &mut self.work,
            &mut self.code_sha256,
            &mut self.status,
            &mut self.error,
        ];
        for text in texts.into_iter().flatten().chain([&mut self.time]) {
            *text = line_of(text, MAX_TEXT);
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A disk that is full at times.
    #[derive(Clone, Default)]
    struct Disk(Arc<Mutex<(Vec<u8>, usize)>>);

    impl Write for Disk {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let mut disk = lock(&self.0);
            let room = disk.1.min(bytes.len());
            if room == 0 {
                return Err(io::ErrorKind::StorageFull.into());
            }
            disk.1 -= room;
            disk.0.extend_from_slice(&bytes[..room]);
            Ok(room)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Disk {
        fn lines(&self) -> Vec<Option<Record>> {
            let text = String::from_utf8(lock(&self.0).0.clone()).unwrap();
            text.lines().map(|line| serde_json::from_str(line).ok()).collect()
        }
    }

    #[test]
    fn lost_records_are_counted_and_told_when_there_is_room_again() {
        let disk = Disk::default();
        let log = AuditLog::to(disk.clone());
        let set_room = |bytes| lock(&disk.0).1 = bytes;
        set_room(1 << 20);
        log.write(Record::new(Event::Run));
        set_room(0);
        log.write(Record::new(Event::Run));
        set_room(3);
        log.write(Record::new(Event::Run));
        assert_eq!(log.lost(), 2);
        set_room(1 << 20);
        log.write(Record::new(Event::SessionClosed));
        let lines = disk.lines();
        let [Some(first), None, Some(lost), Some(last)] = lines.as_slice() else {
            panic!("{lines:?}");
        };
        assert_eq!((first.event, last.event), (Event::Run, Event::SessionClosed));
        assert_eq!((lost.event, lost.count), (Event::Lost, Some(2)));
    }

    #[test]
    fn a_line_is_bounded_whatever_is_in_it() {
        let disk = Disk::default();
        lock(&disk.0).1 = 1 << 20;
        let log = AuditLog::to(disk.clone());
        let long = || Some("\"".repeat(100_000));
        log.write(Record {
            account: long(),
            key: long(),
            request: long(),
            client: long(),
            method: long(),
            route: long(),
            session: long(),
            parent: long(),
            image: long(),
            work: long(),
            code_sha256: long(),
            status: long(),
            error: long(),
            time: "\"".repeat(100_000),
            wall_ms: Some(f64::MAX),
            fuel: Some(u64::MAX),
            ..Record::default()
        });
        let length = lock(&disk.0).0.len();
        assert!(length > 1 << 10 && length <= MAX_LINE, "{length}");
        assert_eq!(disk.lines().len(), 1);
    }

    #[test]
    fn keys_that_nobody_has_do_not_fill_the_disk() {
        let disk = Disk::default();
        lock(&disk.0).1 = 1 << 20;
        let log = AuditLog::to(disk.clone());
        for _ in 0..1000 {
            log.refuse(Record::new(Event::KeyRefused));
        }
        // Two seconds may have begun meanwhile.
        assert!(disk.lines().len() <= 3 * MAX_REFUSED as usize);
        lock(&log.0).refused.0 -= Duration::from_secs(2);
        log.refuse(Record::new(Event::KeyRefused));
        let lines = disk.lines();
        assert!(lines.last().unwrap().as_ref().unwrap().count.unwrap() > 900, "{lines:?}");
    }

    #[test]
    fn several_processes_append_to_a_file_that_is_copied_and_truncated() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("audit");
        let logs = [AuditLog::open(&path).unwrap(), AuditLog::open(&path).unwrap()];
        for log in logs.iter().cycle().take(10) {
            log.write(Record::new(Event::Run));
        }
        assert_eq!(std::fs::read_to_string(&path).unwrap().lines().count(), 10);
        std::fs::File::options().write(true).truncate(true).open(&path).unwrap();
        logs[0].write(Record::new(Event::Run));
        let text = std::fs::read(&path).unwrap();
        assert!(text.starts_with(b"{") && text.ends_with(b"}\n"), "no hole");
        let mode = std::os::unix::fs::PermissionsExt::mode(&path.metadata().unwrap().permissions());
        assert_eq!(mode & 0o777, 0o600);
    }
}

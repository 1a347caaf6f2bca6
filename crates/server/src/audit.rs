//! The audit log: who ran what, with which limits, and how it ended, as lines of JSON. It contains
//! no code and no data of accounts, except names of images.

mod usage;

use std::collections::HashMap;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

use belljar::RequestLimits;
use belljar_text::line_of;
use chrono::{DateTime, SecondsFormat, Utc};
use data_encoding::HEXLOWER;
use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

pub use self::usage::{AuditUsage, KeyUsage};
use crate::lock::lock;

/// Maximum length of a text in a record, in characters.
const MAX_TEXT: usize = 256;
/// Maximum length of a line, in bytes. A character takes at most 6 bytes in JSON.
pub(crate) const MAX_LINE: usize = 32 << 10;
/// Refusals of an account, or of requests without one, that are recorded in a second: they cost a
/// client nothing. The others are counted.
const MAX_REFUSED: u64 = 10;
/// Records that wait to be written. With more, records are lost.
const QUEUE: usize = 4_096;
/// How long to wait at the end for records to be written.
const LAST_RECORDS: Duration = Duration::from_secs(2);

/// An audit log. A thread writes it, so that a slow disk or a reader that has stopped delays no
/// request. Clones share the same file.
#[derive(Clone)]
pub struct AuditLog(Arc<Shared>);

struct Shared {
    queue: SyncSender<Job>,
    lost: Arc<Lost>,
    refusals: Mutex<HashMap<Option<String>, Refusals>>,
}

enum Job {
    Write(Box<Record>),
    /// Says when everything before it was written.
    Flush(SyncSender<()>),
}

/// Lost records: since the last successful write, and in all.
#[derive(Default)]
struct Lost {
    recent: AtomicU64,
    ever: AtomicU64,
}

/// Refusals of an account.
struct Refusals {
    /// Start of the current second, and refusals in it.
    second: Instant,
    count: u64,
    /// Refusals without a record of their own, since the last record of one, and their latest.
    unrecorded: u64,
    latest: Option<Box<Record>>,
}

struct Writer {
    to: Box<dyn Write + Send>,
    /// Whether the last line has no end.
    is_partial: bool,
    lost: Arc<Lost>,
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
    /// Bytes of the account's files, if they are limited.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stored_bytes: Option<u64>,
    /// Records of `lost`, or refusals without a record.
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
            timeout_ms: asked.timeout.map(|time| match time {
                // Null in JSON, as in the request.
                Duration::MAX => f64::INFINITY,
                time => time.as_secs_f64() * 1e3,
            }),
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
    /// Fails if the file cannot be opened, or is a symbolic link or a pipe without a reader.
    pub fn open(path: &Path) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        options.append(true).create(true).mode(0o600);
        // A pipe without a reader is an error, instead of a wait.
        let flags = OFlags::NONBLOCK | OFlags::NOFOLLOW;
        options.custom_flags(flags.bits().cast_signed());
        Self::to(options.open(path)?)
    }

    /// Writes to standard error.
    ///
    /// # Errors
    ///
    /// Fails if no thread can be started.
    pub fn stderr() -> io::Result<Self> {
        Self::to(io::stderr())
    }

    /// Writes to `to`, one line at a time.
    pub(crate) fn to(to: impl Write + Send + 'static) -> io::Result<Self> {
        let (queue, jobs) = sync_channel(QUEUE);
        let lost = Arc::new(Lost::default());
        let mut writer = Writer {
            to: Box::new(to),
            is_partial: false,
            lost: Arc::clone(&lost),
        };
        std::thread::Builder::new().name("audit".into()).spawn(move || {
            for job in jobs {
                match job {
                    Job::Write(record) => writer.write(*record),
                    Job::Flush(done) => {
                        // The loss remains counted.
                        let _ = writer.tell_lost();
                        // It may no longer wait.
                        let _ = done.try_send(());
                    }
                }
            }
        })?;
        Ok(Self(Arc::new(Shared {
            queue,
            lost,
            refusals: Mutex::default(),
        })))
    }

    /// Appends a record, of a refusal only if the account had not too many in this second. A record
    /// that cannot be written is lost, which is logged and counted; the next record that can be
    /// written says so. Does not wait.
    pub(crate) fn write(&self, record: Record) {
        let is_refusal = record.event == Event::KeyRefused
            || (record.event == Event::Run && record.status.as_deref() == Some(REFUSED));
        let record = Box::new(record);
        let admitted = if is_refusal {
            self.admit(record)
        } else {
            Some(record)
        };
        if let Some(record) = admitted {
            self.send(record);
        }
    }

    /// Records the latest refusals that have no record yet.
    pub(crate) fn write_refusals(&self) {
        let latest: Vec<_> =
            lock(&self.0.refusals).values_mut().filter_map(Refusals::take).collect();
        for record in latest {
            self.send(record);
        }
    }

    fn send(&self, record: Box<Record>) {
        if self.0.queue.try_send(Job::Write(record)).is_err() {
            self.0.lost.add();
        }
    }

    /// Counts a refusal, and returns it if it has a record of its own.
    fn admit(&self, mut record: Box<Record>) -> Option<Box<Record>> {
        let mut all = lock(&self.0.refusals);
        let refusals = all.entry(record.account.clone()).or_insert_with(|| Refusals {
            second: Instant::now(),
            count: 0,
            unrecorded: 0,
            latest: None,
        });
        if refusals.second.elapsed() >= Duration::from_secs(1) {
            refusals.second = Instant::now();
            refusals.count = 0;
        }
        refusals.count += 1;
        if refusals.count > MAX_REFUSED {
            refusals.unrecorded += 1;
            refusals.latest = Some(record);
            return None;
        }
        let others = std::mem::take(&mut refusals.unrecorded);
        refusals.latest = None;
        record.count = (others > 0).then_some(others);
        Some(record)
    }

    /// Waits until the records so far are written, but not for long. Blocks.
    pub(crate) fn flush(&self) {
        let (done, is_done) = sync_channel(1);
        let end = Instant::now() + LAST_RECORDS;
        let mut job = Job::Flush(done);
        while let Err(TrySendError::Full(again)) = self.0.queue.try_send(job) {
            if Instant::now() >= end {
                return;
            }
            job = again;
            std::thread::sleep(Duration::from_millis(10));
        }
        let _ = is_done.recv_timeout(end.saturating_duration_since(Instant::now()));
    }

    /// Number of lost records.
    pub(crate) fn lost(&self) -> u64 {
        self.0.lost.ever.load(Ordering::Relaxed)
    }
}

impl Refusals {
    /// The latest refusal without a record, which counts the others.
    fn take(&mut self) -> Option<Box<Record>> {
        let mut record = self.latest.take()?;
        let others = std::mem::take(&mut self.unrecorded).saturating_sub(1);
        record.count = (others > 0).then_some(others);
        Some(record)
    }
}

impl Lost {
    /// Counts a lost record, and returns whether the record before it was written.
    fn add(&self) -> bool {
        self.ever.fetch_add(1, Ordering::Relaxed);
        self.recent.fetch_add(1, Ordering::Relaxed) == 0
    }
}

impl Writer {
    fn write(&mut self, record: Record) {
        if let Err(error) = self.tell_lost().and_then(|()| self.append(record))
            && self.lost.add()
        {
            tracing::error!(%error, "cannot write to the audit log; runs continue");
        }
    }

    /// Writes the number of records that were lost since the last write.
    fn tell_lost(&mut self) -> io::Result<()> {
        let lost = self.lost.recent.load(Ordering::Relaxed);
        if lost == 0 {
            return Ok(());
        }
        self.append(Record {
            count: Some(lost),
            ..Record::new(Event::Lost)
        })?;
        tracing::warn!(count = lost, "records of the audit log were lost");
        self.lost.recent.fetch_sub(lost, Ordering::Relaxed);
        Ok(())
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

/// The status of refused work.
const REFUSED: &str = "refused";

/// Formats a time in UTC, always with the same length.
fn timestamp(time: SystemTime) -> String {
    DateTime::<Utc>::from(time).to_rfc3339_opts(SecondsFormat::Millis, true)
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

    /// A record of an account's work, which belongs to a request if there is one.
    pub(crate) fn of(event: Event, account: &str, caller: Option<&Caller>) -> Self {
        let caller = caller.cloned().unwrap_or_default();
        Self {
            account: Some(account.to_owned()),
            key: caller.key,
            request: caller.request,
            client: caller.client,
            method: caller.method,
            route: caller.route,
            ..Self::new(event)
        }
    }

    /// The end of an account's session.
    pub(crate) fn closed(account: &str, session: &str) -> Self {
        Self {
            account: Some(account.to_owned()),
            session: Some(session.to_owned()),
            ..Self::new(Event::SessionClosed)
        }
    }

    /// Records the code of the error with which work was refused.
    pub(crate) fn refused(&mut self, code: &str) {
        self.status = Some(REFUSED.to_owned());
        self.error = Some(code.to_owned());
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
    use serde_json::json;

    use super::*;

    #[test]
    fn a_timeout_of_null_is_not_a_missing_one() {
        let told = |asked| serde_json::to_value(Limits::from(&asked)).unwrap();
        assert_eq!(told(RequestLimits::default()), json!({}));
        let unlimited = RequestLimits::default().timeout(Duration::MAX);
        assert_eq!(told(unlimited), json!({"timeout_ms": null}));
    }

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
        let log = AuditLog::to(disk.clone()).unwrap();
        let write = |room, event| {
            lock(&disk.0).1 = room;
            log.write(Record::new(event));
            log.flush();
        };
        write(1 << 20, Event::Run);
        write(0, Event::Run);
        write(3, Event::Run);
        assert_eq!(log.lost(), 2);
        write(1 << 20, Event::SessionClosed);
        let lines = disk.lines();
        let [Some(first), None, Some(note), Some(end)] = lines.as_slice() else {
            panic!("{lines:?}");
        };
        assert_eq!((first.event, end.event), (Event::Run, Event::SessionClosed));
        assert_eq!((note.event, note.count), (Event::Lost, Some(2)));
    }

    /// A reader that has stopped delays no request.
    #[test]
    fn a_log_that_takes_nothing_loses_records_at_once() {
        let (reader, writer) = io::pipe().unwrap();
        let log = AuditLog::to(writer).unwrap();
        for _ in 0..QUEUE * 2 {
            log.write(Record::new(Event::SessionClosed));
        }
        assert!(log.lost() > 0);
        drop(reader);
    }

    #[test]
    fn a_line_is_bounded_whatever_is_in_it() {
        let disk = Disk::default();
        lock(&disk.0).1 = 1 << 20;
        let log = AuditLog::to(disk.clone()).unwrap();
        let quotes = || Some("\"".repeat(100_000));
        log.write(Record {
            account: quotes(),
            key: quotes(),
            request: quotes(),
            client: quotes(),
            method: quotes(),
            route: quotes(),
            session: quotes(),
            parent: quotes(),
            image: quotes(),
            work: quotes(),
            code_sha256: quotes(),
            status: quotes(),
            error: quotes(),
            time: "\"".repeat(100_000),
            wall_ms: Some(f64::MAX),
            fuel: Some(u64::MAX),
            ..Record::default()
        });
        log.flush();
        let length = lock(&disk.0).0.len();
        assert!(length > 1 << 10 && length <= MAX_LINE, "{length}");
        assert_eq!(disk.lines().len(), 1);
    }

    #[test]
    fn refusals_do_not_fill_the_disk() {
        let disk = Disk::default();
        lock(&disk.0).1 = 1 << 20;
        let log = AuditLog::to(disk.clone()).unwrap();
        let refuse = |account: Option<&str>| {
            let mut record = Record::new(if account.is_some() {
                Event::Run
            } else {
                Event::KeyRefused
            });
            record.account = account.map(str::to_owned);
            record.refused("limit");
            log.write(record);
        };
        for account in [None, Some("one")] {
            for _ in 0..1000 {
                refuse(account);
            }
        }
        // Another account's are recorded nevertheless.
        refuse(Some("two"));
        log.flush();
        let count = disk.lines().len();
        // More seconds may have begun meanwhile.
        assert!((21..=6 * MAX_REFUSED as usize).contains(&count), "{count}");
        for refusals in lock(&log.0.refusals).values_mut() {
            refusals.second -= Duration::from_secs(2);
        }
        refuse(Some("one"));
        log.flush();
        let last = disk.lines().pop().unwrap().unwrap();
        assert!(last.count.unwrap() > 900, "{last:?}");
        // At the end, those that were not yet counted are.
        log.write_refusals();
        log.write_refusals();
        log.flush();
        let last = disk.lines().pop().unwrap().unwrap();
        assert_eq!((last.event, last.account), (Event::KeyRefused, None));
        assert_eq!(disk.lines().len(), count + 2);
        let all: u64 =
            disk.lines().into_iter().flatten().map(|line| 1 + line.count.unwrap_or(0)).sum();
        assert_eq!(all, 2002);
    }

    #[test]
    fn a_symbolic_link_is_no_log() {
        let directory = tempfile::tempdir().unwrap();
        let link = directory.path().join("link");
        std::os::unix::fs::symlink(directory.path().join("audit"), &link).unwrap();
        assert!(AuditLog::open(&link).is_err());
        assert!(!directory.path().join("audit").exists());
    }

    #[test]
    fn several_processes_append_to_a_file_that_is_copied_and_truncated() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("audit");
        let logs = [AuditLog::open(&path).unwrap(), AuditLog::open(&path).unwrap()];
        for log in logs.iter().cycle().take(10) {
            log.write(Record::new(Event::Run));
            log.flush();
        }
        assert_eq!(std::fs::read_to_string(&path).unwrap().lines().count(), 10);
        std::fs::File::options().write(true).truncate(true).open(&path).unwrap();
        logs[0].write(Record::new(Event::Run));
        logs[0].flush();
        let text = std::fs::read(&path).unwrap();
        assert!(text.starts_with(b"{") && text.ends_with(b"}\n"), "no hole");
        let mode = std::os::unix::fs::PermissionsExt::mode(&path.metadata().unwrap().permissions());
        assert_eq!(mode & 0o777, 0o600);
    }
}

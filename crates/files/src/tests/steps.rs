//! Random sequences of calls, and their results on this crate.

use proptest::collection::vec;
use proptest::prelude::*;

use super::Clock;
use crate::types::rights;
use crate::{Errno, FdFlags, Files, Kind, OFlags, OpenOptions, SetTime, SetTimes, Stat, Whence};

/// One call.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    Open {
        fd: u32,
        path: String,
        follow: bool,
        oflags: u16,
        read: bool,
        write: bool,
        append: bool,
    },
    Close(u32),
    Renumber(u32, u32),
    Read(u32, usize),
    Pread(u32, usize, u64),
    Write(u32, usize, u8),
    Pwrite(u32, usize, u8, u64),
    Seek(u32, i64, Whence),
    Tell(u32),
    SetSize(u32, u64),
    SetTimes(u32, SetTimes),
    SetFlags(u32, bool),
    Look(u32),
    List(u32),
    CreateDirectory(u32, String),
    LookAt(u32, bool, String),
    SetTimesAt(u32, bool, String, SetTimes),
    Link(u32, String, u32, String),
    Readlink(u32, String),
    RemoveDirectory(u32, String),
    Rename(u32, String, u32, String),
    Symlink(String, u32, String),
    Unlink(u32, String),
    /// Takes a snapshot.
    Snapshot,
    /// Restores the snapshot.
    Restore,
    /// Sets limits this far above the usage: files, bytes and descriptors.
    Limit(u64, u64, usize),
}

/// The result of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Done,
    Number(u64),
    Bytes(Vec<u8>),
    Text(String),
    Names(Vec<(String, u8)>),
    Stat {
        kind: u8,
        links: u64,
        size: u64,
        modified: Option<u64>,
    },
}

/// A time set by a call; `None` for the time of a call.
pub(crate) fn set_time(time: u64) -> Option<u64> {
    (time < 1_000_000_000_000).then_some(time)
}

impl From<Stat> for Answer {
    fn from(stat: Stat) -> Self {
        Self::Stat {
            kind: stat.kind as u8,
            links: stat.nlink,
            size: stat.size,
            modified: set_time(stat.mtime),
        }
    }
}

/// Runs a call on this crate.
pub(crate) fn run(files: &mut Files, step: &Step, clock: &mut Clock) -> Result<Answer, Errno> {
    let done = |()| Answer::Done;
    match step {
        Step::Open {
            fd,
            path,
            follow,
            oflags,
            read,
            write,
            append,
        } => {
            let options = OpenOptions {
                follow: *follow,
                oflags: OFlags(*oflags),
                rights: u64::from(*read) * rights::FD_READ + u64::from(*write) * rights::FD_WRITE,
                flags: FdFlags(u16::from(*append)),
            };
            files.path_open(*fd, path, options, clock).map(|fd| Answer::Number(fd.into()))
        }
        Step::Close(fd) => files.fd_close(*fd).map(|_| Answer::Done),
        Step::Renumber(from, to) => files.fd_renumber(*from, *to).map(|_| Answer::Done),
        Step::Read(fd, len) => {
            let mut bytes = vec![0; *len];
            let read = files.fd_read(*fd, &mut bytes, clock)?;
            bytes.truncate(read);
            Ok(Answer::Bytes(bytes))
        }
        Step::Pread(fd, len, at) => {
            let mut bytes = vec![0; *len];
            let read = files.fd_pread(*fd, &mut bytes, *at, clock)?;
            bytes.truncate(read);
            Ok(Answer::Bytes(bytes))
        }
        Step::Write(fd, len, byte) => {
            files.fd_write(*fd, &vec![*byte; *len], clock).map(|n| Answer::Number(n as u64))
        }
        Step::Pwrite(fd, len, byte, at) => {
            files.fd_pwrite(*fd, &vec![*byte; *len], *at, clock).map(|n| Answer::Number(n as u64))
        }
        Step::Seek(fd, by, whence) => files.fd_seek(*fd, *by, *whence).map(Answer::Number),
        Step::Tell(fd) => files.fd_tell(*fd).map(Answer::Number),
        Step::SetSize(fd, size) => files.fd_filestat_set_size(*fd, *size, clock).map(done),
        Step::SetTimes(fd, times) => files.fd_filestat_set_times(*fd, *times, clock).map(done),
        Step::SetFlags(fd, append) => {
            files.fd_fdstat_set_flags(*fd, FdFlags(u16::from(*append))).map(done)
        }
        Step::Look(fd) => files.fd_filestat_get(*fd).map(Into::into),
        Step::List(fd) => list(files, *fd).map(Answer::Names),
        Step::CreateDirectory(fd, path) => files.path_create_directory(*fd, path, clock).map(done),
        Step::LookAt(fd, follow, path) => {
            files.path_filestat_get(*fd, *follow, path).map(Into::into)
        }
        Step::SetTimesAt(fd, follow, path, times) => {
            files.path_filestat_set_times(*fd, *follow, path, *times, clock).map(done)
        }
        Step::Link(fd, path, to_fd, to_path) => {
            files.path_link((*fd, false, path), (*to_fd, to_path), clock).map(done)
        }
        Step::Readlink(fd, path) => {
            files.path_readlink(*fd, path).map(|target| Answer::Text(target.to_owned()))
        }
        Step::RemoveDirectory(fd, path) => files.path_remove_directory(*fd, path, clock).map(done),
        Step::Rename(fd, path, to_fd, to_path) => {
            files.path_rename((*fd, path), (*to_fd, to_path), clock).map(done)
        }
        Step::Symlink(target, fd, path) => files.path_symlink(target, *fd, path, clock).map(done),
        Step::Unlink(fd, path) => files.path_unlink_file(*fd, path, clock).map(done),
        Step::Snapshot | Step::Restore | Step::Limit(..) => Ok(Answer::Done),
    }
}

/// Lists a directory cookie by cookie, with a buffer that is too small for it.
pub(crate) fn list(files: &mut Files, fd: u32) -> Result<Vec<(String, u8)>, Errno> {
    let (mut names, mut cookie, mut buffer) = (Vec::new(), 0, [0; 300]);
    loop {
        let used = files.fd_readdir(fd, &mut buffer, cookie)?;
        let mut at = 0;
        while at + 24 <= used {
            let word = |at: usize| u64::from_le_bytes(buffer[at..at + 8].try_into().unwrap());
            let length = (word(at + 16) & 0xffff_ffff) as usize;
            if at + 24 + length > used {
                break;
            }
            let name = String::from_utf8(buffer[at + 24..at + 24 + length].to_vec()).unwrap();
            names.push((name, buffer[at + 20]));
            cookie = word(at);
            at += 24 + length;
        }
        if used < buffer.len() {
            names.sort();
            return Ok(names);
        }
    }
}

/// Everything in a state by path: kind, contents, and the number that hard links share.
pub(crate) fn dump(files: &Files) -> Vec<(String, u8, Vec<u8>, Option<u64>)> {
    let mut all: Vec<_> = files
        .walk(files.root())
        .map(|found| {
            let stat = files.stat(found.node).unwrap();
            let content = match found.kind {
                Kind::Symlink => files.target(found.node).unwrap().as_bytes().to_vec(),
                Kind::File => {
                    let content = files.content(found.node).unwrap();
                    let mut bytes = vec![0; content.len() as usize];
                    assert_eq!(content.read_at(0, &mut bytes), Ok(bytes.len()));
                    bytes
                }
                _ => Vec::new(),
            };
            (found.path, found.kind as u8, content, set_time(stat.mtime))
        })
        .collect();
    all.sort();
    all
}

fn name() -> impl Strategy<Value = String> {
    prop_oneof![
        20 => "[a-d]",
        2 => Just(".".to_owned()),
        2 => Just("..".to_owned()),
        1 => Just(String::new()),
        1 => prop_oneof![Just("n".repeat(255)), Just("n".repeat(256)), Just("ä".repeat(128))],
    ]
}

fn path() -> impl Strategy<Value = String> {
    let parts = prop_oneof![4 => vec(name(), 1..2), 4 => vec(name(), 2..3), 2 => vec(name(), 0..6)];
    let slashes = (prop::bool::weighted(0.1), prop::bool::weighted(0.12));
    (parts, slashes).prop_map(|(parts, (before, behind))| {
        let (before, behind) = (if before { "/" } else { "" }, if behind { "/" } else { "" });
        format!("{before}{}{behind}", parts.join("/"))
    })
}

fn fd() -> impl Strategy<Value = u32> {
    prop_oneof![6 => Just(0u32), 8 => 1..6u32, 1 => 6..9u32]
}

fn times() -> impl Strategy<Value = SetTimes> {
    let time = || {
        prop_oneof![
            Just(SetTime::Keep),
            Just(SetTime::Now),
            (1..6u64).prop_map(|seconds| SetTime::To(seconds * 1_000_000_000)),
        ]
    };
    // Linux does not resolve the path if no time is to be set.
    let all = (time(), time()).prop_map(|(atime, mtime)| SetTimes { atime, mtime });
    all.prop_filter("nothing is set", |times| *times != SetTimes::default())
}

fn offset() -> impl Strategy<Value = u64> {
    prop_oneof![0..20u64, 65_500..65_600u64, 130_000..132_000u64]
}

fn length() -> impl Strategy<Value = usize> {
    prop_oneof![8 => 0..40usize, 1 => 65_000..70_000usize]
}

fn open() -> impl Strategy<Value = Step> {
    let oflags = prop_oneof![3 => Just(0u16), 4 => Just(1), 2 => Just(2), 1 => 0..16u16];
    let flags = any::<(bool, bool, bool)>();
    (fd(), path(), any::<bool>(), oflags, flags, prop::bool::weighted(0.2)).prop_map(
        |(fd, path, follow, oflags, (read, write, _), append)| Step::Open {
            fd,
            path,
            follow,
            oflags,
            read,
            write,
            append,
        },
    )
}

fn on_descriptors() -> impl Strategy<Value = Step> {
    let whence = prop_oneof![Just(Whence::Set), Just(Whence::Cur), Just(Whence::End)];
    prop_oneof![
        2 => (1..6u32).prop_map(Step::Close),
        1 => (1..6u32, 1..6u32).prop_map(|(from, to)| Step::Renumber(from, to)),
        3 => (fd(), length()).prop_map(|(fd, len)| Step::Read(fd, len)),
        2 => (fd(), length(), offset()).prop_map(|(fd, len, at)| Step::Pread(fd, len, at)),
        5 => (fd(), length(), any::<u8>()).prop_map(|(fd, len, byte)| Step::Write(fd, len, byte)),
        3 => (fd(), length(), any::<u8>(), offset())
            .prop_map(|(fd, len, byte, at)| Step::Pwrite(fd, len, byte, at)),
        2 => (fd(), -20..100i64, whence).prop_map(|(fd, by, whence)| Step::Seek(fd, by, whence)),
        1 => fd().prop_map(Step::Tell),
        2 => (fd(), offset()).prop_map(|(fd, size)| Step::SetSize(fd, size)),
        1 => (fd(), times()).prop_map(|(fd, times)| Step::SetTimes(fd, times)),
        1 => (fd(), any::<bool>()).prop_map(|(fd, append)| Step::SetFlags(fd, append)),
        2 => fd().prop_map(Step::Look),
        2 => fd().prop_map(Step::List),
    ]
}

fn on_paths() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (fd(), path()).prop_map(|(fd, path)| Step::CreateDirectory(fd, path)),
        3 => (fd(), any::<bool>(), path()).prop_map(|(fd, follow, path)| Step::LookAt(fd, follow, path)),
        1 => (fd(), any::<bool>(), path(), times())
            .prop_map(|(fd, follow, path, times)| Step::SetTimesAt(fd, follow, path, times)),
        2 => (fd(), path(), fd(), path()).prop_map(|(a, b, c, d)| Step::Link(a, b, c, d)),
        1 => (fd(), path()).prop_map(|(fd, path)| Step::Readlink(fd, path)),
        2 => (fd(), path()).prop_map(|(fd, path)| Step::RemoveDirectory(fd, path)),
        5 => (fd(), path(), fd(), path()).prop_map(|(a, b, c, d)| Step::Rename(a, b, c, d)),
        3 => (path(), fd(), path()).prop_map(|(target, fd, path)| Step::Symlink(target, fd, path)),
        3 => (fd(), path()).prop_map(|(fd, path)| Step::Unlink(fd, path)),
    ]
}

/// A call, or a snapshot taken or restored, or a limit set.
pub(crate) fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        10 => open(),
        12 => on_descriptors(),
        20 => on_paths(),
        1 => Just(Step::Snapshot),
        1 => Just(Step::Restore),
        1 => (0..8u64, 0..100_000u64, 0..6usize).prop_map(|(f, b, o)| Step::Limit(f, b, o)),
    ]
}

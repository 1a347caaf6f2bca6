//! The same calls on a directory of Linux, the root of this process.

use std::ffi::CStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{self, AtFlags, Mode, OFlags as Open, SeekFrom, Timespec, Timestamps};
use rustix::io;

use super::steps::{Answer, Step, set_time};
use crate::{Errno, OFlags, SetTime, SetTimes, Whence};

/// Descriptors by the guest's numbers.
pub(crate) struct Linux {
    open: Vec<Option<OwnedFd>>,
}

const MODE: Mode = Mode::RWXU;

impl Linux {
    /// Starts in an empty root.
    pub(crate) fn new() -> Self {
        for entry in std::fs::read_dir("/").unwrap() {
            let entry = entry.unwrap();
            if entry.file_type().unwrap().is_dir() {
                std::fs::remove_dir_all(entry.path()).unwrap();
            } else {
                std::fs::remove_file(entry.path()).unwrap();
            }
        }
        let root = fs::open("/", Open::DIRECTORY | Open::CLOEXEC, Mode::empty()).unwrap();
        let now = SetTimes {
            atime: SetTime::Now,
            mtime: SetTime::Now,
        };
        fs::futimens(&root, &timestamps(now)).unwrap();
        Self {
            open: vec![Some(root)],
        }
    }

    fn fd(&self, fd: u32) -> Result<BorrowedFd<'_>, Errno> {
        let open = self.open.get(fd as usize).and_then(Option::as_ref);
        open.map(AsFd::as_fd).ok_or(Errno::Badf)
    }

    /// The descriptor of a directory, for calls on paths.
    fn dir(&self, fd: u32) -> Result<BorrowedFd<'_>, Errno> {
        let fd = self.fd(fd)?;
        is_dir(fd).then_some(fd).ok_or(Errno::Notdir)
    }

    /// The descriptor of a file, for calls on contents.
    fn file(&self, fd: u32) -> Result<BorrowedFd<'_>, Errno> {
        let fd = self.fd(fd)?;
        (!is_dir(fd)).then_some(fd).ok_or(Errno::Badf)
    }

    pub(crate) fn run(&mut self, step: &Step) -> Result<Answer, Errno> {
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
            } => self.path_open(*fd, path, *follow, OFlags(*oflags), (*read, *write), *append),
            Step::Close(fd) => {
                self.fd(*fd)?;
                self.open[*fd as usize] = None;
                Ok(Answer::Done)
            }
            Step::Renumber(from, to) => {
                self.fd(*from)?;
                self.fd(*to)?;
                if from != to {
                    self.open[*to as usize] = self.open[*from as usize].take();
                }
                Ok(Answer::Done)
            }
            Step::Read(fd, len) => {
                let mut bytes = vec![0; *len];
                let read = io::read(self.file(*fd)?, &mut bytes).map_err(errno)?;
                bytes.truncate(read);
                Ok(Answer::Bytes(bytes))
            }
            Step::Pread(fd, len, at) => {
                let mut bytes = vec![0; *len];
                let read = io::pread(self.file(*fd)?, &mut bytes, *at).map_err(errno)?;
                bytes.truncate(read);
                Ok(Answer::Bytes(bytes))
            }
            Step::Write(fd, len, byte) => {
                let wrote = io::write(self.file(*fd)?, &vec![*byte; *len]).map_err(errno)?;
                Ok(Answer::Number(wrote as u64))
            }
            Step::Pwrite(fd, len, byte, at) => {
                let wrote = io::pwrite(self.file(*fd)?, &vec![*byte; *len], *at).map_err(errno)?;
                Ok(Answer::Number(wrote as u64))
            }
            Step::Seek(fd, by, whence) => {
                self.file(*fd)?;
                let to = match whence {
                    Whence::Set => SeekFrom::Start(u64::try_from(*by).map_err(|_| Errno::Inval)?),
                    Whence::Cur => SeekFrom::Current(*by),
                    Whence::End => SeekFrom::End(*by),
                };
                fs::seek(self.file(*fd)?, to).map(Answer::Number).map_err(errno)
            }
            Step::Tell(fd) => fs::tell(self.file(*fd)?).map(Answer::Number).map_err(errno),
            Step::SetSize(fd, size) => {
                fs::ftruncate(self.file(*fd)?, *size).map(done).map_err(errno)
            }
            Step::SetTimes(fd, times) => {
                fs::futimens(self.fd(*fd)?, &timestamps(*times)).map(done).map_err(errno)
            }
            Step::SetFlags(fd, append) => {
                let fd = self.file(*fd)?;
                let mut flags = fs::fcntl_getfl(fd).map_err(errno)?;
                flags.set(Open::APPEND, *append);
                fs::fcntl_setfl(fd, flags).map(done).map_err(errno)
            }
            Step::Look(fd) => fs::fstat(self.fd(*fd)?).map(|stat| answer(&stat)).map_err(errno),
            Step::List(fd) => {
                let fd = self.dir(*fd)?;
                list(fd).map(Answer::Names)
            }
            Step::CreateDirectory(fd, path) => {
                fs::mkdirat(self.dir(*fd)?, path.as_str(), MODE).map(done).map_err(errno)
            }
            Step::LookAt(fd, follow, path) => {
                let stat = fs::statat(self.dir(*fd)?, path.as_str(), nofollow(*follow));
                stat.map(|stat| answer(&stat)).map_err(errno)
            }
            Step::SetTimesAt(fd, follow, path, times) => {
                let (fd, flags) = (self.dir(*fd)?, nofollow(*follow));
                fs::utimensat(fd, path.as_str(), &timestamps(*times), flags)
                    .map(done)
                    .map_err(errno)
            }
            Step::Link(fd, path, to_fd, to_path) => {
                let (fd, to_fd) = (self.dir(*fd)?, self.dir(*to_fd)?);
                fs::linkat(fd, path.as_str(), to_fd, to_path.as_str(), AtFlags::empty())
                    .map(done)
                    .map_err(errno)
            }
            Step::Readlink(fd, path) => {
                let target = fs::readlinkat(self.dir(*fd)?, path.as_str(), Vec::new());
                let target = target.map_err(errno)?;
                Ok(Answer::Text(target.into_string().unwrap()))
            }
            Step::RemoveDirectory(fd, path) => {
                fs::unlinkat(self.dir(*fd)?, path.as_str(), AtFlags::REMOVEDIR)
                    .map(done)
                    .map_err(errno)
            }
            Step::Rename(fd, path, to_fd, to_path) => {
                let (fd, to_fd) = (self.dir(*fd)?, self.dir(*to_fd)?);
                fs::renameat(fd, path.as_str(), to_fd, to_path.as_str()).map(done).map_err(errno)
            }
            Step::Symlink(target, fd, path) => {
                fs::symlinkat(target.as_str(), self.dir(*fd)?, path.as_str())
                    .map(done)
                    .map_err(errno)
            }
            Step::Unlink(fd, path) => fs::unlinkat(self.dir(*fd)?, path.as_str(), AtFlags::empty())
                .map(done)
                .map_err(errno),
            Step::Snapshot | Step::Restore | Step::Limit(..) => Ok(Answer::Done),
        }
    }

    fn path_open(
        &mut self,
        fd: u32,
        path: &str,
        follow: bool,
        oflags: OFlags,
        (read, write): (bool, bool),
        append: bool,
    ) -> Result<Answer, Errno> {
        // As wasmtime-wasi handles it.
        let creates = oflags.has(OFlags::CREAT);
        let writes = write || creates || oflags.has(OFlags::TRUNC);
        let is_dir = oflags.has(OFlags::DIRECTORY);
        let dir = self.dir(fd)?;
        if is_dir && oflags.has(OFlags::CREAT | OFlags::EXCL | OFlags::TRUNC) {
            return Err(Errno::Inval);
        }
        let mut flags = match (read || !write, writes) {
            (true, true) => Open::RDWR,
            (false, true) => Open::WRONLY,
            _ => Open::RDONLY,
        };
        flags |= Open::CLOEXEC;
        flags.set(Open::NOFOLLOW, !follow);
        flags.set(Open::CREATE, creates);
        flags.set(Open::EXCL, creates && oflags.has(OFlags::EXCL));
        flags.set(Open::TRUNC, oflags.has(OFlags::TRUNC));
        flags.set(Open::DIRECTORY, is_dir);
        flags.set(Open::APPEND, append);
        let opened = fs::openat(dir, path, flags, MODE).map_err(errno)?;
        let free = self.open.iter().position(Option::is_none).unwrap_or(self.open.len());
        if free == self.open.len() {
            self.open.push(None);
        }
        self.open[free] = Some(opened);
        Ok(Answer::Number(free as u64))
    }

    /// Bytes and names as counted, open files without a name included.
    pub(crate) fn usage(&self) -> (u64, u64) {
        let (mut sizes, mut names) = (std::collections::BTreeMap::new(), 0);
        for (path, _, content, _) in dump() {
            let stat = fs::lstat(format!("/{path}")).unwrap();
            names += 1;
            sizes.insert(stat.st_ino, content.len() as u64);
        }
        for fd in self.open.iter().flatten() {
            let stat = fs::fstat(fd).unwrap();
            if stat.st_nlink == 0 {
                let size = if is_dir(fd.as_fd()) {
                    0
                } else {
                    stat.st_size as u64
                };
                names += u64::from(sizes.insert(stat.st_ino, size).is_none());
            }
        }
        (sizes.values().sum(), names)
    }

    pub(crate) fn open(&self) -> usize {
        self.open.iter().flatten().count() - 1
    }

    /// Length of an open file.
    pub(crate) fn size(&self, fd: u32) -> u64 {
        fs::fstat(self.fd(fd).unwrap()).unwrap().st_size as u64
    }

    /// Offset at which a write to a descriptor begins.
    pub(crate) fn position(&self, fd: u32) -> u64 {
        let open = self.fd(fd).unwrap();
        if fs::fcntl_getfl(open).unwrap().contains(Open::APPEND) {
            return self.size(fd);
        }
        fs::tell(open).unwrap()
    }
}

fn is_dir(fd: BorrowedFd<'_>) -> bool {
    let mode = fs::fstat(fd).unwrap().st_mode;
    fs::FileType::from_raw_mode(mode).is_dir()
}

fn nofollow(follow: bool) -> AtFlags {
    if follow {
        AtFlags::empty()
    } else {
        AtFlags::SYMLINK_NOFOLLOW
    }
}

fn timestamps(times: SetTimes) -> Timestamps {
    let spec = |time| match time {
        SetTime::Keep => Timespec {
            tv_sec: 0,
            tv_nsec: fs::UTIME_OMIT,
        },
        SetTime::Now => Timespec {
            tv_sec: 0,
            tv_nsec: fs::UTIME_NOW,
        },
        SetTime::To(time) => Timespec {
            tv_sec: (time / 1_000_000_000).cast_signed(),
            tv_nsec: (time % 1_000_000_000).cast_signed(),
        },
    };
    Timestamps {
        last_access: spec(times.atime),
        last_modification: spec(times.mtime),
    }
}

fn kind(mode: u32) -> u8 {
    match fs::FileType::from_raw_mode(mode) {
        fs::FileType::Directory => 3,
        fs::FileType::RegularFile => 4,
        fs::FileType::Symlink => 7,
        _ => 0,
    }
}

fn modified(stat: &fs::Stat) -> Option<u64> {
    set_time(stat.st_mtime as u64 * 1_000_000_000 + stat.st_mtime_nsec)
}

fn answer(stat: &fs::Stat) -> Answer {
    let kind = kind(stat.st_mode);
    Answer::Stat {
        kind,
        links: stat.st_nlink,
        // The size of a directory depends on the file system.
        size: if kind == 3 { 0 } else { stat.st_size as u64 },
        modified: modified(stat),
    }
}

fn list(fd: BorrowedFd<'_>) -> Result<Vec<(String, u8)>, Errno> {
    let mut names = Vec::new();
    for entry in fs::Dir::read_from(fd).map_err(errno)? {
        let entry = entry.map_err(errno)?;
        let name = CStr::to_str(entry.file_name()).unwrap().to_owned();
        let kind = match entry.file_type() {
            fs::FileType::Directory => 3,
            fs::FileType::RegularFile => 4,
            fs::FileType::Symlink => 7,
            _ => 0,
        };
        names.push((name, kind));
    }
    names.sort();
    Ok(names)
}

/// All files in the root, in the form of `steps::dump`.
pub(crate) fn dump() -> Vec<(String, u8, Vec<u8>, Option<u64>)> {
    let (mut all, mut waiting) = (Vec::new(), vec![Path::new("/").to_owned()]);
    while let Some(dir) = waiting.pop() {
        for entry in std::fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            let stat = fs::lstat(&path).unwrap();
            let kind = kind(stat.st_mode);
            let content = match kind {
                4 => std::fs::read(&path).unwrap(),
                7 => std::fs::read_link(&path).unwrap().into_os_string().into_encoded_bytes(),
                _ => Vec::new(),
            };
            let name = path.strip_prefix("/").unwrap().to_str().unwrap().to_owned();
            all.push((name, kind, content, modified(&stat)));
            if kind == 3 {
                waiting.push(path);
            }
        }
    }
    all.sort();
    all
}

fn errno(errno: io::Errno) -> Errno {
    match errno {
        io::Errno::ACCESS => Errno::Acces,
        io::Errno::BADF => Errno::Badf,
        io::Errno::BUSY => Errno::Busy,
        io::Errno::EXIST => Errno::Exist,
        io::Errno::FBIG => Errno::Fbig,
        io::Errno::INVAL => Errno::Inval,
        io::Errno::ISDIR => Errno::Isdir,
        io::Errno::LOOP => Errno::Loop,
        io::Errno::NAMETOOLONG => Errno::Nametoolong,
        io::Errno::NOENT => Errno::Noent,
        io::Errno::NOTDIR => Errno::Notdir,
        io::Errno::NOTEMPTY => Errno::Notempty,
        io::Errno::PERM => Errno::Perm,
        io::Errno::XDEV => Errno::Xdev,
        other => panic!("{other:?}"),
    }
}

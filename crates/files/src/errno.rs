//! Errors with their numbers in WASI preview 1.

use std::io;

/// The error of a call that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[repr(u16)]
#[non_exhaustive]
pub enum Errno {
    /// Permission denied.
    #[error("permission denied")]
    Acces = 2,
    /// The descriptor is not open, or was not opened for this operation.
    #[error("bad file descriptor")]
    Badf = 8,
    /// The directory cannot be removed or renamed.
    #[error("device or resource busy")]
    Busy = 10,
    /// The name exists.
    #[error("file exists")]
    Exist = 20,
    /// The file would exceed the maximum length.
    #[error("file too large")]
    Fbig = 22,
    /// An argument is out of range.
    #[error("invalid argument")]
    Inval = 28,
    /// The spool cannot be read or written.
    #[error("I/O error")]
    Io = 29,
    /// Is a directory.
    #[error("is a directory")]
    Isdir = 31,
    /// More than 40 symbolic links on a path, or a link where none is followed.
    #[error("too many levels of symbolic links")]
    Loop = 32,
    /// The limit on open descriptors is reached.
    #[error("too many open files")]
    Mfile = 33,
    /// A name is longer than 255 bytes, or a path longer than 4,095.
    #[error("file name too long")]
    Nametoolong = 37,
    /// There is no such file or directory.
    #[error("no such file or directory")]
    Noent = 44,
    /// The limit on bytes or files is reached, or the pool is full.
    #[error("no space left on device")]
    Nospc = 51,
    /// It, or a part of its path, is not a directory.
    #[error("not a directory")]
    Notdir = 54,
    /// The directory is not empty.
    #[error("directory not empty")]
    Notempty = 55,
    /// The call or the flag is not supported.
    #[error("not supported")]
    Notsup = 58,
    /// A number does not fit.
    #[error("value too large")]
    Overflow = 61,
    /// The tree or directory is read-only.
    #[error("operation not permitted")]
    Perm = 63,
    /// The descriptor is a stream, which has no position.
    #[error("invalid seek")]
    Spipe = 70,
    /// The two names are on different file systems.
    #[error("cross-device link")]
    Xdev = 75,
}

impl Errno {
    /// Its number in WASI.
    #[must_use]
    pub const fn raw(self) -> u16 {
        self as u16
    }

    /// Maps an I/O error of the spool to the guest's error.
    pub(crate) fn of(error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::StorageFull
            | io::ErrorKind::QuotaExceeded
            | io::ErrorKind::FileTooLarge => Self::Nospc,
            _ => Self::Io,
        }
    }
}

impl From<Errno> for io::Error {
    fn from(errno: Errno) -> Self {
        let kind = match errno {
            Errno::Noent => io::ErrorKind::NotFound,
            Errno::Exist => io::ErrorKind::AlreadyExists,
            Errno::Acces | Errno::Perm => io::ErrorKind::PermissionDenied,
            Errno::Isdir => io::ErrorKind::IsADirectory,
            Errno::Notdir => io::ErrorKind::NotADirectory,
            Errno::Notempty => io::ErrorKind::DirectoryNotEmpty,
            Errno::Nospc => io::ErrorKind::StorageFull,
            Errno::Fbig => io::ErrorKind::FileTooLarge,
            Errno::Nametoolong => io::ErrorKind::InvalidFilename,
            Errno::Xdev => io::ErrorKind::CrossesDevices,
            Errno::Busy => io::ErrorKind::ResourceBusy,
            Errno::Notsup => io::ErrorKind::Unsupported,
            Errno::Badf | Errno::Inval => io::ErrorKind::InvalidInput,
            Errno::Spipe => io::ErrorKind::NotSeekable,
            Errno::Io | Errno::Loop | Errno::Mfile | Errno::Overflow => io::ErrorKind::Other,
        };
        Self::new(kind, errno)
    }
}

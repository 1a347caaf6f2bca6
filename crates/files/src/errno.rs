//! Errors, as WASI preview 1 numbers them.

use std::io;

/// The error of a call that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[repr(u16)]
#[non_exhaustive]
pub enum Errno {
    /// Permission denied.
    #[error("permission denied")]
    Acces = 2,
    /// The number is not that of an open file, or that file was not opened for this.
    #[error("bad file descriptor")]
    Badf = 8,
    /// The directory is one that cannot be removed or renamed.
    #[error("device or resource busy")]
    Busy = 10,
    /// There is something of that name.
    #[error("file exists")]
    Exist = 20,
    /// The file would be larger than a file can be.
    #[error("file too large")]
    Fbig = 22,
    /// An argument is out of its range.
    #[error("invalid argument")]
    Inval = 28,
    /// The spool cannot be read or written.
    #[error("I/O error")]
    Io = 29,
    /// It is a directory.
    #[error("is a directory")]
    Isdir = 31,
    /// More than 40 symbolic links on the way, or one where none is followed.
    #[error("too many levels of symbolic links")]
    Loop = 32,
    /// As many descriptors are open as there may be.
    #[error("too many open files")]
    Mfile = 33,
    /// A name of more than 255 bytes, or a path of more than 4,095.
    #[error("file name too long")]
    Nametoolong = 37,
    /// There is no such file or directory.
    #[error("no such file or directory")]
    Noent = 44,
    /// The limit of bytes or of files is reached, or there is no room for a block.
    #[error("no space left on device")]
    Nospc = 51,
    /// It, or something on the way, is no directory.
    #[error("not a directory")]
    Notdir = 54,
    /// The directory has something in it.
    #[error("directory not empty")]
    Notempty = 55,
    /// The call or the flag is not supported.
    #[error("not supported")]
    Notsup = 58,
    /// A number does not fit.
    #[error("value too large")]
    Overflow = 61,
    /// It is in a tree, or a directory, that cannot be changed.
    #[error("operation not permitted")]
    Perm = 63,
    /// The descriptor is a stream, which has no position.
    #[error("invalid seek")]
    Spipe = 70,
    /// The two names are in different file systems.
    #[error("cross-device link")]
    Xdev = 75,
}

impl Errno {
    /// The number that WASI gives it.
    #[must_use]
    pub const fn raw(self) -> u16 {
        self as u16
    }

    /// The error that a guest gets for an I/O error of the spool.
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

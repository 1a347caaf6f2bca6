//! Parameters and results of calls, named and laid out as in WASI preview 1.

use crate::errno::Errno;

/// The type of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Kind {
    /// A device such as `/dev/null`.
    CharacterDevice = 2,
    /// A directory.
    Directory = 3,
    /// A regular file.
    File = 4,
    /// A symbolic link.
    Symlink = 7,
}

/// The attributes of a file: `filestat`. Times are nanoseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    /// 1 for the tree; attached read-only trees have further numbers.
    pub dev: u64,
    /// The number of the node, unique within the history of the state.
    pub ino: u64,
    /// The type of the file.
    pub kind: Kind,
    /// Number of names; for a directory, 2 plus the number of subdirectories.
    pub nlink: u64,
    /// Length of a file or of a link's target in bytes; 0 for others.
    pub size: u64,
    /// Time of creation unless set: reading does not update it.
    pub atime: u64,
    /// Time of the last change to the content.
    pub mtime: u64,
    /// Time of the last change to anything.
    pub ctime: u64,
}

impl Stat {
    /// Serializes as `filestat`.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; 64] {
        let kind = u64::from(self.kind as u8);
        let words =
            [self.dev, self.ino, kind, self.nlink, self.size, self.atime, self.mtime, self.ctime];
        let mut bytes = [0; 64];
        for (target, word) in bytes.chunks_exact_mut(8).zip(words) {
            target.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }
}

/// The attributes of a descriptor: `fdstat`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FdStat {
    /// The type of the file that it is open on.
    pub kind: Kind,
    /// Its flags.
    pub flags: FdFlags,
    /// The calls that it allows.
    pub rights: u64,
    /// The calls allowed for descriptors opened through it.
    pub inheriting: u64,
}

impl FdStat {
    /// Serializes as `fdstat`.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; 24] {
        let mut bytes = [0; 24];
        bytes[0] = self.kind as u8;
        bytes[2..4].copy_from_slice(&self.flags.0.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.rights.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.inheriting.to_le_bytes());
        bytes
    }
}

/// Flags of a descriptor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FdFlags(pub u16);

impl FdFlags {
    /// Writes go to the end of the file.
    pub const APPEND: u16 = 1;
    /// Not supported, like the other two kinds of synchronous writes.
    pub const DSYNC: u16 = 2;
    /// Stored, but without effect on files.
    pub const NONBLOCK: u16 = 4;
    /// Not supported.
    pub const RSYNC: u16 = 8;
    /// Not supported.
    pub const SYNC: u16 = 16;
    /// The flags for writes that reach the disk.
    pub(crate) const SYNCHRONOUS: u16 = Self::DSYNC | Self::RSYNC | Self::SYNC;

    pub(crate) fn has(self, flag: u16) -> bool {
        self.0 & flag != 0
    }
}

/// How to open a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OFlags(pub u16);

impl OFlags {
    /// Create the file if it does not exist.
    pub const CREAT: u16 = 1;
    /// Fail unless it is a directory.
    pub const DIRECTORY: u16 = 2;
    /// Fail if it exists.
    pub const EXCL: u16 = 4;
    /// Truncate the file.
    pub const TRUNC: u16 = 8;

    pub(crate) fn has(self, flag: u16) -> bool {
        self.0 & flag != 0
    }
}

/// The reference point of a seek.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whence {
    /// The beginning.
    Set,
    /// The current offset.
    Cur,
    /// The end.
    End,
}

impl Whence {
    /// Converts from the WASI number.
    ///
    /// # Errors
    ///
    /// [`Errno::Inval`] for another number.
    pub fn from_raw(raw: u8) -> Result<Self, Errno> {
        match raw {
            0 => Ok(Self::Set),
            1 => Ok(Self::Cur),
            2 => Ok(Self::End),
            _ => Err(Errno::Inval),
        }
    }
}

/// How a call sets a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SetTime {
    /// Leave it unchanged.
    #[default]
    Keep,
    /// Set it to the time of the call.
    Now,
    /// Set it to this time.
    To(u64),
}

/// How a call sets the timestamps of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SetTimes {
    /// Time of the last access.
    pub atime: SetTime,
    /// Time of the last modification.
    pub mtime: SetTime,
}

impl SetTimes {
    /// Converts from the arguments of `fd_filestat_set_times`.
    ///
    /// # Errors
    ///
    /// [`Errno::Inval`] if a time is both given and to be now.
    pub fn from_raw(atime: u64, mtime: u64, flags: u16) -> Result<Self, Errno> {
        let one = |time, flags| match flags & 3 {
            0 => Ok(SetTime::Keep),
            1 => Ok(SetTime::To(time)),
            2 => Ok(SetTime::Now),
            _ => Err(Errno::Inval),
        };
        Ok(Self {
            atime: one(atime, flags)?,
            mtime: one(mtime, flags >> 2)?,
        })
    }
}

/// Rights of a descriptor, a bit for each call.
pub mod rights {
    /// `fd_read`.
    pub const FD_READ: u64 = 1 << 1;
    /// `fd_seek`.
    pub const FD_SEEK: u64 = 1 << 2;
    /// `fd_write`.
    pub const FD_WRITE: u64 = 1 << 6;
    pub(crate) const FD_DATASYNC: u64 = 1;
    pub(crate) const FD_FDSTAT_SET_FLAGS: u64 = 1 << 3;
    pub(crate) const FD_SYNC: u64 = 1 << 4;
    pub(crate) const FD_TELL: u64 = 1 << 5;
    pub(crate) const FD_ADVISE: u64 = 1 << 7;
    pub(crate) const FD_ALLOCATE: u64 = 1 << 8;
    pub(crate) const PATH_CREATE_DIRECTORY: u64 = 1 << 9;
    pub(crate) const PATH_CREATE_FILE: u64 = 1 << 10;
    pub(crate) const PATH_LINK_SOURCE: u64 = 1 << 11;
    pub(crate) const PATH_LINK_TARGET: u64 = 1 << 12;
    pub(crate) const PATH_OPEN: u64 = 1 << 13;
    pub(crate) const FD_READDIR: u64 = 1 << 14;
    pub(crate) const PATH_READLINK: u64 = 1 << 15;
    pub(crate) const PATH_RENAME_SOURCE: u64 = 1 << 16;
    pub(crate) const PATH_RENAME_TARGET: u64 = 1 << 17;
    pub(crate) const PATH_FILESTAT_GET: u64 = 1 << 18;
    pub(crate) const PATH_FILESTAT_SET_SIZE: u64 = 1 << 19;
    pub(crate) const PATH_FILESTAT_SET_TIMES: u64 = 1 << 20;
    pub(crate) const FD_FILESTAT_GET: u64 = 1 << 21;
    pub(crate) const FD_FILESTAT_SET_SIZE: u64 = 1 << 22;
    pub(crate) const FD_FILESTAT_SET_TIMES: u64 = 1 << 23;
    pub(crate) const PATH_SYMLINK: u64 = 1 << 24;
    pub(crate) const PATH_REMOVE_DIRECTORY: u64 = 1 << 25;
    pub(crate) const PATH_UNLINK_FILE: u64 = 1 << 26;
    pub(crate) const POLL_FD_READWRITE: u64 = 1 << 27;
    /// All rights, those of sockets included.
    pub(crate) const ALL: u64 = (1 << 30) - 1;

    /// The rights that C libraries expect of a preopened directory.
    pub(crate) const PREOPEN: u64 = PATH_CREATE_DIRECTORY
        | PATH_CREATE_FILE
        | PATH_LINK_SOURCE
        | PATH_LINK_TARGET
        | PATH_OPEN
        | FD_READDIR
        | PATH_READLINK
        | PATH_RENAME_SOURCE
        | PATH_RENAME_TARGET
        | PATH_SYMLINK
        | PATH_REMOVE_DIRECTORY
        | PATH_UNLINK_FILE
        | PATH_FILESTAT_GET
        | PATH_FILESTAT_SET_TIMES
        | FD_FILESTAT_GET
        | FD_FILESTAT_SET_TIMES;

    /// The rights that C libraries expect of descriptors opened through it.
    pub(crate) const PREOPEN_INHERITING: u64 = PREOPEN
        | FD_DATASYNC
        | FD_READ
        | FD_SEEK
        | FD_FDSTAT_SET_FLAGS
        | FD_SYNC
        | FD_TELL
        | FD_WRITE
        | FD_ADVISE
        | FD_ALLOCATE
        | FD_FILESTAT_SET_SIZE
        | POLL_FD_READWRITE;

    /// Rights that directories never have.
    pub(crate) const NOT_DIRECTORY: u64 = FD_SEEK | FD_FILESTAT_SET_SIZE | PATH_FILESTAT_SET_SIZE;

    /// Rights of a device in addition to reading and writing. Without these, C libraries treat it
    /// as a terminal.
    pub(crate) const DEVICE: u64 = FD_SEEK | FD_TELL | FD_FDSTAT_SET_FLAGS | FD_FILESTAT_GET;
}

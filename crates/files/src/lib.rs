//! A virtual file system whose state is one value: the calls of WASI preview 1 on a persistent tree.
//!
//! [`Files`] is a tree of files with the descriptors that are open on it. A clone of it is a snapshot: it
//! costs a few counters, shares every block and every name, and neither sees what happens to the other. So
//! forks, rewinds and recovery points cost what changes, and nothing else.
//!
//! ```
//! use belljar_files::{Files, Limits, OpenOptions, OFlags, Pool, World, rights};
//!
//! struct Now;
//! impl World for Now {
//!     fn now(&mut self) -> u64 {
//!         1_700_000_000_000_000_000
//!     }
//!     fn random(&mut self, _: &mut [u8]) -> bool {
//!         false
//!     }
//! }
//!
//! # fn main() -> Result<(), belljar_files::Errno> {
//! let mut files = Files::new(&Pool::default(), Limits::NONE);
//! let workspace = files.make_dirs("/workspace", true)?;
//! let dir = files.give(workspace, "/workspace")?;
//!
//! let before = files.clone();
//! let options = OpenOptions {
//!     oflags: OFlags(OFlags::CREAT),
//!     rights: rights::FD_WRITE,
//!     ..OpenOptions::default()
//! };
//! let fd = files.path_open(dir, "notes.txt", options, &mut Now)?;
//! files.fd_write(fd, b"tea\n", &mut Now)?;
//!
//! assert_eq!(files.usage().bytes, 4);
//! assert!(before.find("/workspace/notes.txt").is_err());
//! # Ok(())
//! # }
//! ```
//!
//! * **Bytes** are in blocks of 64 KiB ([`Block`]), shared by all states in which they are the same, in
//!   memory up to a bound of the process and beyond that in one nameless file ([`Pool`]). That is read and
//!   written at positions and never mapped: a full disk is [`Errno::Nospc`] in one write.
//! * **Everything is counted** as it happens: bytes, files, names, descriptors ([`Usage`], [`Limits`]).
//! * **There is no out.** No path of the host is opened, whatever names and links a guest makes. What is the
//!   caller's (streams, directories of the host) has numbers in the same table of descriptors
//!   ([`Files::open_foreign`]) and places in the tree ([`Files::make_portal`]), and is the caller's to serve.
//! * **It repeats.** Time and chance come with each call ([`World`]), numbers of files from a counter in the
//!   state, lists are in the order in which names were made.
//! * **Read-only trees** are served beside it ([`ReadOnly`]), such as a library packed into one file
//!   ([`Packed`]).
//!
//! # Differences from Linux
//!
//! Random sequences of calls are done on this and on a file system of Linux, and every answer is the same,
//! but for these:
//!
//! | call | here | on Linux |
//! |---|---|---|
//! | Time of last access | moves only when it is set | moves when a file is read |
//! | Size of a directory | 0 | what the file system makes of it |
//! | Names that the host made | cannot be changed: `EPERM` | `EROFS` or `EACCES` |
//! | `fd_allocate` | `ENOTSUP`, as in wasmtime | sets room aside |
//! | `DSYNC`, `RSYNC`, `SYNC` | `ENOTSUP`, as in wasmtime | writes wait for the disk |
//! | `DIRECTORY` with `CREAT`, `EXCL` or `TRUNC` | `EINVAL`, as in wasmtime | depends on what is there |
//! | `path_link` that follows | `EINVAL`, as in wasmtime | links what the link points to |
//! | Setting no time | looks for the file | looks for nothing |
//! | Names made during a listing | are not in it | may be in it |
//! | `..` of a removed directory | `ENOENT` once the one around it is removed, too | stays |
//!
//! Names are UTF-8. There are no owners and no permissions.
#![forbid(unsafe_code)]
#![deny(missing_docs)]
#![cfg_attr(
    not(test),
    warn(clippy::unwrap_used, clippy::expect_used, clippy::panic)
)]

mod block;
mod content;
mod depth;
mod descriptors;
mod dir;
mod errno;
mod fd;
mod files;
mod host;
mod listing;
mod map;
mod namespace;
mod node;
mod open;
mod packed;
mod paths;
mod pool;
mod readonly;
mod rename;
mod resolve;
mod spool;
#[cfg(test)]
mod tests;
mod tree;
mod types;
mod walk;
mod world;

pub use self::block::{BLOCK, Block, WeakBlock};
pub use self::content::{Content, ContentReader, MAX_LEN, WeakContent};
pub use self::errno::Errno;
pub use self::files::{Files, Limits, MAX_NAME, MAX_PATH, Usage};
pub use self::namespace::{OpenFile, OpenOn};
pub use self::node::{Device, Node};
pub use self::open::OpenOptions;
pub use self::packed::Packed;
pub use self::pool::{DEFAULT_MEMORY, Pool, PoolOptions, PoolUsage};
pub use self::readonly::{ReadOnly, ReadOnlyEntry};
pub use self::resolve::MAX_LINKS;
pub use self::types::{FdFlags, FdStat, Kind, OFlags, SetTime, SetTimes, Stat, Whence, rights};
pub use self::walk::{Found, Walk};
pub use self::world::World;

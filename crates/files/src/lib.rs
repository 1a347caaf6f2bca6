//! A virtual file system with its state in one value: WASI preview 1 calls on a persistent tree.
//!
//! [`Files`] is a tree of files with the descriptors open on it. A clone is a snapshot: it costs a
//! few counters and shares all blocks and names, and changes to one do not affect the other. Forks,
//! rewinds and recovery points therefore cost only what they change.
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
//! * **Contents** are stored in blocks of 64 KiB ([`Block`]) that states share, in memory up to a
//!   limit for the process and beyond that in one unnamed file ([`Pool`]). The file is read and
//!   written at offsets and never mapped: a full disk fails a single write with [`Errno::Nospc`].
//! * **All resources are counted** as they change: bytes, files, names, descriptors ([`Usage`],
//!   [`Limits`]).
//! * **No escape.** No path of the host is opened, whatever names and links a guest creates.
//!   Objects of the caller (streams, directories of the host) have numbers in the descriptor table
//!   ([`Files::open_foreign`]) and places in the tree ([`Files::make_portal`]); the caller serves
//!   them.
//! * **Deterministic.** Time and randomness are passed with each call ([`World`]), file numbers
//!   come from a counter in the state, and listings are in order of creation.
//! * **Read-only trees** can be attached ([`ReadOnly`]), such as a library packed into one file
//!   ([`Packed`]).
//!
//! # Differences from Linux
//!
//! Tests run random sequences of calls on this crate and on a file system of Linux. All results are
//! the same, except:
//!
//! | call | here | on Linux |
//! |---|---|---|
//! | Time of last access | changes only when set | changes on reads |
//! | Size of a directory | 0 | depends on the file system |
//! | Names that the host made | cannot be changed: `EPERM` | `EROFS` or `EACCES` |
//! | `fd_allocate` | `ENOTSUP`, as in wasmtime | preallocates |
//! | `DSYNC`, `RSYNC`, `SYNC` | `ENOTSUP`, as in wasmtime | writes wait for the disk |
//! | `DIRECTORY` with `CREAT`, `EXCL` or `TRUNC` | `EINVAL`, as in wasmtime | depends on the file |
//! | `path_link` that follows | `EINVAL`, as in wasmtime | links the target of the link |
//! | Setting no time | resolves the path | does not resolve the path |
//! | Names made during a listing | are not listed | may be listed |
//! | `..` of a removed directory | `ENOENT` once its parent is removed, too | keeps working |
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

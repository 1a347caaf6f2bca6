//! Tests of the whole crate.

#[cfg(target_os = "linux")]
mod against;
mod calls;
mod host;
mod hostile;
#[cfg(target_os = "linux")]
mod linux;
mod room;
mod steps;
mod table;

use crate::{FdFlags, Files, Limits, Node, OFlags, OpenOptions, Pool, PoolOptions, World, rights};

/// A clock that advances by a microsecond per call.
#[derive(Debug)]
pub(crate) struct Clock(pub u64);

/// Its first time.
pub(crate) const EPOCH: u64 = 1_000_000_000_000_000_000;

impl Default for Clock {
    fn default() -> Self {
        Self(EPOCH)
    }
}

impl World for Clock {
    fn now(&mut self) -> u64 {
        self.0 += 1_000;
        self.0
    }

    fn random(&mut self, into: &mut [u8]) -> bool {
        into.fill(7);
        true
    }
}

/// A pool with this much memory and no spool.
pub(crate) fn memory(bytes: u64) -> Pool {
    Pool::new(PoolOptions {
        memory: bytes,
        spool: None,
        disk: 0,
    })
}

/// A tree with `/w` as the guest's descriptor 0.
pub(crate) fn tree(pool: &Pool, limits: Limits) -> (Files, Node) {
    let mut files = Files::new(pool, limits);
    let dir = files.make_dirs("/w", true).unwrap();
    assert_eq!(files.give(dir, "/w"), Ok(0));
    (files, dir)
}

/// Read, write, create if missing.
pub(crate) const MADE: OpenOptions = OpenOptions {
    follow: true,
    oflags: OFlags(OFlags::CREAT),
    rights: rights::FD_READ | rights::FD_WRITE,
    flags: FdFlags(0),
};

/// Read only.
pub(crate) const READ: OpenOptions = OpenOptions {
    follow: true,
    oflags: OFlags(0),
    rights: rights::FD_READ,
    flags: FdFlags(0),
};

/// Creates a file below descriptor 0.
pub(crate) fn write(files: &mut Files, path: &str, bytes: &[u8]) {
    let fd = files.path_open(0, path, MADE, &mut Clock::default()).unwrap();
    assert_eq!(files.fd_write(fd, bytes, &mut Clock::default()), Ok(bytes.len()));
    files.fd_close(fd).unwrap();
}

/// Reads a file below descriptor 0.
pub(crate) fn read(files: &mut Files, path: &str) -> Vec<u8> {
    let node = files.find(&format!("/w/{path}")).unwrap();
    let mut bytes = Vec::new();
    std::io::Read::read_to_end(&mut files.content(node).unwrap().reader(), &mut bytes).unwrap();
    bytes
}

//! What a process keeps.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::status::{LockdownError, Status};
use crate::system;

/// What a process may still do once it is locked down. Everything that is not named is taken.
///
/// Paths mean the file or directory that has the name when [`apply`](Self::apply) is called; a
/// link is followed then. A directory stands for all that is below it, also for what is made there
/// later. A file that is replaced by another of the same name is not kept: name its directory.
/// Paths that lead nowhere are left out.
#[derive(Clone, Debug, Default)]
#[must_use = "nothing is taken before it is applied"]
pub struct Lockdown {
    pub(crate) reads: Vec<PathBuf>,
    pub(crate) writes: Vec<PathBuf>,
    pub(crate) unlinks: Vec<PathBuf>,
    pub(crate) removes: Vec<PathBuf>,
    pub(crate) ports: Vec<u16>,
    pub(crate) resolves_names: bool,
    pub(crate) ends_children: bool,
}

static APPLIED: AtomicBool = AtomicBool::new(false);

/// Whether this process was locked down, or its parent before it was copied, even if in part.
pub fn is_applied() -> bool {
    APPLIED.load(Ordering::Relaxed)
}

/// What the resolver of the C library reads, and where distributions keep the certificates of
/// authorities.
const NAMES: &[&str] = &[
    "/etc/ca-certificates",
    "/etc/gai.conf",
    "/etc/host.conf",
    "/etc/hosts",
    "/etc/nsswitch.conf",
    "/etc/pki/ca-trust",
    "/etc/pki/tls/certs",
    "/etc/resolv.conf",
    "/etc/services",
    "/etc/ssl/cert.pem",
    "/etc/ssl/certs",
    "/etc/ssl/openssl.cnf",
    "/run/systemd/resolve",
    "/usr/share/ca-certificates",
];

impl Lockdown {
    /// Keeps nothing but what every process needs.
    pub fn new() -> Self {
        Self::default()
    }

    /// Keeps the right to read a file, or a directory and all below it.
    pub fn read(mut self, path: impl AsRef<Path>) -> Self {
        self.reads.push(path.as_ref().to_owned());
        self
    }

    /// Keeps the right to read, write, make and remove a file, or a directory and all below it.
    /// Sockets, pipes and devices cannot be made there.
    pub fn write(mut self, path: impl AsRef<Path>) -> Self {
        self.writes.push(path.as_ref().to_owned());
        self
    }

    /// Keeps the right to remove files below a directory, without reading or writing them.
    pub fn remove_files(mut self, directory: impl AsRef<Path>) -> Self {
        self.unlinks.push(directory.as_ref().to_owned());
        self
    }

    /// Keeps the right to remove empty directories below a directory.
    pub fn remove_directories(mut self, directory: impl AsRef<Path>) -> Self {
        self.removes.push(directory.as_ref().to_owned());
        self
    }

    /// Keeps the right to make TCP connections to a port, of any address: Landlock knows ports
    /// only, and before ABI 4 not even these: then every port can be connected to.
    pub fn connect(mut self, port: u16) -> Self {
        self.ports.push(port);
        self
    }

    /// Keeps what resolving names and checking certificates take: UDP and TCP to port 53, and the
    /// system's files for both.
    pub fn resolve_names(mut self) -> Self {
        self.resolves_names = true;
        self.reads.extend(NAMES.iter().map(PathBuf::from));
        self.connect(53)
    }

    /// Keeps the right to send signals, to end child processes that were started before. It cannot
    /// be kept for these alone: any process of the same user can be signalled.
    pub fn end_children(mut self) -> Self {
        self.ends_children = true;
        self
    }

    /// Takes the rest from every thread of this process, and from all threads that are started
    /// later. It cannot be undone; a second call takes more.
    ///
    /// Where the kernel lacks a part, the others are enforced all the same, and the status tells.
    ///
    /// Before Landlock ABI 8, and in a process with capabilities, a free real-time signal
    /// interrupts each other thread for some microseconds; system calls that do not restart return
    /// `EINTR`.
    ///
    /// Of capabilities, only those are kept with which root uses files of other users.
    ///
    /// On macOS and Windows, a second call is refused, in part or as a whole.
    pub fn apply(&self) -> Status {
        APPLIED.store(true, Ordering::Relaxed);
        system::apply(self)
    }

    /// As [`apply`](Self::apply) on Linux, and nothing elsewhere: for what locks itself down
    /// without having been asked to, which takes more than was tried on other systems.
    pub fn apply_by_default(&self) -> Status {
        if cfg!(target_os = "linux") {
            return self.apply();
        }
        Status {
            landlock: None,
            seccomp: false,
            other: None,
            failures: vec![LockdownError::System],
        }
    }
}

//! What a kernel can enforce, and what it does.

use std::fmt;
use std::io;

use crate::system;

/// What this kernel can enforce.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Support {
    /// The ABI of Landlock, if the kernel has it and it is not turned off.
    pub landlock: Option<u32>,
    /// Whether system calls can be filtered.
    pub seccomp: bool,
    /// The mechanism that replaces both on macOS and Windows, and how far it was tested.
    pub other: Option<&'static str>,
}

impl Support {
    /// Asks the kernel.
    #[must_use]
    pub fn probe() -> Self {
        system::support()
    }
}

/// What holds this process since [`Lockdown::apply`](crate::Lockdown::apply).
#[derive(Debug)]
#[must_use = "a kernel may enforce nothing"]
pub struct Status {
    pub(crate) landlock: Option<u32>,
    pub(crate) seccomp: bool,
    pub(crate) other: Option<&'static str>,
    pub(crate) failures: Vec<LockdownError>,
}

impl Status {
    /// The ABI of Landlock by which every thread is held.
    #[must_use]
    pub fn landlock(&self) -> Option<u32> {
        self.landlock
    }

    /// Whether the system calls of every thread are filtered.
    #[must_use]
    pub fn has_seccomp(&self) -> bool {
        self.seccomp
    }

    /// The mechanism that holds this process on macOS and Windows, and how far it was tested.
    #[must_use]
    pub fn other(&self) -> Option<&'static str> {
        self.other
    }

    /// Whether both hold, or what this system has instead, and nothing failed.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        let holds = self.other.is_some() || self.landlock.is_some() && self.seccomp;
        holds && self.failures.is_empty()
    }

    /// What could not be enforced, and why.
    #[must_use]
    pub fn failures(&self) -> &[LockdownError] {
        &self.failures
    }
}

impl From<&Status> for Support {
    fn from(status: &Status) -> Self {
        Self {
            landlock: status.landlock,
            seccomp: status.seccomp,
            other: status.other,
        }
    }
}

/// Such as `Landlock ABI 7, seccomp`.
impl fmt::Display for Support {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(other) = self.other {
            return f.write_str(other);
        }
        match self.landlock {
            Some(abi) => write!(f, "Landlock ABI {abi}, ")?,
            None => write!(f, "no Landlock, ")?,
        }
        f.write_str(if self.seccomp {
            "seccomp"
        } else {
            "no seccomp"
        })
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Support::from(self).fmt(f)
    }
}

/// Why a part of a lock-down is not enforced.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LockdownError {
    /// Nothing is enforced on this system, or only if it is asked for.
    #[error("this system has neither Landlock nor seccomp")]
    System,
    /// The kernel was built or started without Landlock.
    #[error("this kernel has no Landlock, or it is turned off")]
    NoLandlock,
    /// The kernel refuses a set of Landlock's rules.
    #[error("Landlock's rules are refused")]
    Landlock(#[source] io::Error),
    /// A path that was named cannot be looked at, or kept.
    #[error("{path} cannot be kept", path = path.display())]
    Path {
        /// The path.
        path: std::path::PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A thread does not take signals, and the kernel has no other way to hold it.
    #[error("thread {0} does not answer, and Landlock does not hold it")]
    Thread(i32),
    /// The threads of this process cannot be listed or signalled.
    #[error("the threads of this process cannot be reached")]
    Threads(#[source] io::Error),
    /// The kernel refuses the filter of system calls.
    #[error("seccomp refuses the filter")]
    Seccomp(#[source] io::Error),
    /// No filter is known for this processor.
    #[error("no filter of system calls is known for this processor")]
    Processor,
    /// The kernel refuses a setting of the process.
    #[error("the kernel refuses {what}")]
    Setting {
        /// Which.
        what: &'static str,
        /// Why.
        source: io::Error,
    },
}

//! Takes from a process what it does not need, so that code which breaks out of a sandbox in it
//! finds little: files by Landlock, system calls by seccomp.
//!
//! A [`Lockdown`] names what the process keeps. [`Lockdown::apply`] takes the rest from every
//! thread of the process, for good, and returns a [`Status`] that says what this kernel was able
//! to enforce. All below is about Linux. On macOS the sandbox of the system holds files, ports,
//! processes and signals, and was never tried; on Windows a job object and policies hold processes
//! only, and were tried under Wine only. Elsewhere nothing is enforced, and the status says so.
//!
//! ```no_run
//! use belljar_lockdown::Lockdown;
//!
//! let status = Lockdown::new().read("/srv/data").write("/srv/out").apply();
//! if !status.is_whole() {
//!     eprintln!("this process is held by {status}");
//! }
//! ```
//!
//! # What is taken
//!
//! * Files: opening, making, removing and renaming, except what was named, `/proc/self` and a few
//!   files that libraries read: `/dev/null`, `/dev/urandom`, time zones. Open files stay open.
//! * Network: new sockets and connections; with [`Lockdown::connect`], TCP to other ports.
//! * Processes: starting a program or a process, signals to others, `ptrace` and its kin.
//! * The kernel's other interfaces: namespaces, mounts, modules, `bpf`, `io_uring`,
//!   `perf_event_open`, key rings, System V and POSIX IPC, clocks, `userfaultfd` for kernel
//!   memory, and system calls that are newer than this crate.
//! * Capabilities of root, except those for files of other users.
//! * Other processes' hold on this one: no core file, no `ptrace` by the same user, no new
//!   privileges.
//!
//! # What is not
//!
//! Landlock does not cover `stat` and `readlink`: which files exist, their sizes and times, and
//! where links lead can still be seen. Who owns a file that may be read can change its mode and
//! times. Before Landlock ABI 10, [`Lockdown::resolve_names`] keeps UDP to any port.
//! Memory, processor time, descriptors that are open and sockets that are connected stay usable.

mod plan;
mod status;

#[cfg(any(test, target_os = "macos"))]
mod seatbelt;

#[cfg(not(any(target_os = "linux", target_os = "macos", windows)))]
use elsewhere as system;
#[cfg(target_os = "linux")]
use linux as system;
#[cfg(target_os = "macos")]
use macos as system;
#[cfg(windows)]
use windows as system;

#[cfg(not(any(target_os = "linux", target_os = "macos", windows)))]
mod elsewhere;
#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "macos")]
mod macos;
#[cfg(windows)]
mod windows;

pub use plan::{Lockdown, is_applied};
pub use status::{LockdownError, Status, Support};

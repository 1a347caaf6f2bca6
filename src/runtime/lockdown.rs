//! What a runtime needs of a process that locks itself down.

use std::path::PathBuf;

use belljar_lockdown::{Lockdown, Support};
use belljar_passes::Tier;
use serde::{Deserialize, Serialize};

use super::Runtime;

/// What a process keeps, as one JSON object, for bindings of other languages. Omitted rights are
/// given up.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct LockdownOptions {
    /// Files and directories that stay readable.
    pub read: Vec<PathBuf>,
    /// Files and directories that stay writable.
    pub write: Vec<PathBuf>,
    /// Ports that TCP connections can be made to.
    pub connect: Vec<u16>,
    /// Keeps what resolving names and checking certificates take.
    pub resolve_names: bool,
    /// Keeps the right to send signals.
    pub end_children: bool,
}

/// What holds a process since it was locked down.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct LockdownReport {
    /// The ABI of Landlock by which every thread is held.
    pub landlock: Option<u32>,
    /// Whether the system calls of every thread are filtered.
    pub seccomp: bool,
    /// The mechanism that holds this process on macOS and Windows, and how far it was tested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub other: Option<&'static str>,
    /// Whether both hold, or what this system has instead, and nothing failed.
    pub whole: bool,
    /// What could not be enforced, and why.
    pub failures: Vec<String>,
}

impl Runtime {
    /// Locks this process down: [`lockdown`](Self::lockdown) with these options, applied.
    pub fn apply_lockdown(&self, options: &LockdownOptions) -> LockdownReport {
        let mut plan = self.lockdown();
        for path in &options.read {
            plan = plan.read(path);
        }
        for path in &options.write {
            plan = plan.write(path);
        }
        for port in &options.connect {
            plan = plan.connect(*port);
        }
        if options.resolve_names {
            plan = plan.resolve_names();
        }
        if options.end_children {
            plan = plan.end_children();
        }
        let status = plan.apply();
        let held = Support::from(&status);
        LockdownReport {
            landlock: held.landlock,
            seccomp: held.seccomp,
            other: held.other,
            whole: status.is_whole(),
            failures: status
                .failures()
                .iter()
                .map(|error| match std::error::Error::source(error) {
                    Some(cause) => format!("{error}: {cause}"),
                    None => error.to_string(),
                })
                .collect(),
        }
    }

    /// Starts a lock-down of this process: takes from it what runs do not need, so that code which
    /// breaks out of a sandbox finds little. Nothing is taken before [`Lockdown::apply`].
    ///
    /// What this runtime needs is kept: reading the cache or bundle, writing the cache as long as
    /// [`is_set_up`](Self::is_set_up) is false, and the open files that sandboxes spill to.
    /// Mounted directories, files that are read or written by path, ports to connect to and
    /// everything else that the process does have to be named:
    ///
    /// ```no_run
    /// # fn example() -> Result<(), belljar::Error> {
    /// use belljar::Runtime;
    ///
    /// let runtime = Runtime::builder().build()?;
    /// let status = runtime.lockdown().read("/srv/data").write("/srv/out").apply();
    /// if !status.is_whole() {
    ///     eprintln!("this process is held by {status}");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// It concerns the **whole process** and all its threads, and it cannot be undone. The process
    /// can no longer start programs, open files or sockets that were not named, listen, change its
    /// user, use System V IPC, `io_uring`, `ptrace` or namespaces, signal other processes, or
    /// write a core file. Files and sockets that are open stay so: open them before. A process
    /// that also does other work should run belljar in a process of its own. macOS and Windows
    /// take less, and were hardly tried: [`Status::other`](crate::lockdown::Status::other).
    ///
    /// [`RuntimeBuilder::temp_dir`](crate::RuntimeBuilder::temp_dir) has to be named if
    /// [`Run::keep`](crate::Run::keep) is called.
    pub fn lockdown(&self) -> Lockdown {
        belljar_memory::prepare();
        // Without a file, memory is all the room there is.
        let _ = self.engine.roots.pool().has_spool();
        self.sessions.prepare();
        let place = self.engine.images.place();
        if self.is_set_up() {
            Lockdown::new().read(place)
        } else {
            Lockdown::new().write(place)
        }
    }

    /// Returns whether all code is compiled and all images are baked, so that runs only read the
    /// cache. A bundle always is.
    #[must_use]
    pub fn is_set_up(&self) -> bool {
        self.engine.images.are_at_hand()
            || self.engine.factory.suffices(Tier::All)
                && self.engine.images.are_made(&self.engine.factory)
    }
}

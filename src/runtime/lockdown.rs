//! What a runtime needs of a process that locks itself down.

use belljar_lockdown::Lockdown;
use belljar_passes::Tier;

use super::Runtime;

impl Runtime {
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
    /// that also does other work should run belljar in a process of its own.
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
            || self.engine.factory.suffices(Tier::All) && self.engine.images.are_made()
    }
}

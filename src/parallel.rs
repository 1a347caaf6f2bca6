//! Work on all cores, also in a forked child.

use crate::memory::Process;

/// Does `work`, which may divide itself by means of rayon. Rayon's threads are the process's that
/// first used them: a child that counted on them would wait for ever, so it gets some of its own,
/// for as long as the work takes.
pub(crate) fn on_all_cores<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    if !Process::is_forked() {
        return work();
    }
    let threads = rayon::ThreadPoolBuilder::new();
    let alone = || rayon::ThreadPoolBuilder::new().num_threads(1).use_current_thread();
    match threads.build().or_else(|_| alone().build()) {
        Ok(pool) => pool.install(work),
        Err(_) => work(),
    }
}

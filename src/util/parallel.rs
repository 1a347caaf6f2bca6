//! Parallel work: short work of requests on threads shared by all requests, and long work, such as
//! compiling, on its own threads. rayon's global pool is not used, because other code of the
//! process may keep it busy for minutes.

use std::num::NonZero;
use std::sync::{Mutex, OnceLock, PoisonError};

use belljar_memory::Process;
use rayon::{ThreadBuilder, ThreadPool, ThreadPoolBuilder};

/// Runs `work`, which may use rayon to divide itself. It must be short and must not wait, because
/// all requests in the process share these threads.
pub(crate) fn on_all_cores<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    match shared() {
        Some(pool) => pool.install(work),
        None => apart(work),
    }
}

/// Runs `work`, which may take minutes, on its own threads, one per processor.
pub(crate) fn apart<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    let threads = ThreadPoolBuilder::new().thread_name(|n| format!("belljar-apart-{n}"));
    run_in(threads.build(), work)
}

/// The threads that requests share.
struct Shared {
    process: Process,
    pool: ThreadPool,
    /// The pool of a forked child, which does not inherit threads.
    forked: OnceLock<Box<Self>>,
}

/// Returns this process's pool; `None` if the system grants no threads.
fn shared() -> Option<&'static ThreadPool> {
    static FIRST: OnceLock<Box<Shared>> = OnceLock::new();
    let mut place = &FIRST;
    loop {
        if place.get().is_none() {
            let threads = ThreadPoolBuilder::new().thread_name(|n| format!("belljar-work-{n}"));
            // Created before the lock is taken, so that no process is forked while it is held.
            let made = Shared {
                process: Process::current(),
                pool: threads.build().ok()?,
                forked: OnceLock::new(),
            };
            // If another thread was faster, this pool ends.
            let _ = place.set(Box::new(made));
        }
        let found = place.get()?;
        if found.process.is_current() {
            return Some(&found.pool);
        }
        place = &found.forked;
    }
}

/// Work that no caller waits for yet. It uses half of the processors, at a lower priority, until a
/// caller [waits](Self::hurry) for it.
#[derive(Default)]
pub(crate) struct Beforehand {
    held: Mutex<Held>,
}

#[derive(Default)]
struct Held {
    hurried: bool,
    /// Threads that are not started yet.
    spare: Vec<ThreadBuilder>,
}

impl Beforehand {
    /// Runs `work` on its own threads.
    pub(crate) fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        let all = std::thread::available_parallelism().map_or(1, NonZero::get);
        let half = (all / 2).max(1);
        let threads = ThreadPoolBuilder::new()
            .num_threads(all)
            .thread_name(|n| format!("belljar-later-{n}"))
            .spawn_handler(|thread| {
                let mut held = self.held();
                if held.hurried {
                    start(thread, false)
                } else if thread.index() < half {
                    start(thread, true)
                } else {
                    held.spare.push(thread);
                    Ok(())
                }
            });
        let done = run_in(threads.build(), work);
        self.held().spare.clear();
        done
    }

    /// Gives the work all processors. Existing threads keep their priority.
    pub(crate) fn hurry(&self) {
        let mut held = self.held();
        held.hurried = true;
        for thread in std::mem::take(&mut held.spare) {
            if let Err(error) = start(thread, false) {
                tracing::debug!(%error, "a thread cannot be started");
            }
        }
    }

    fn held(&self) -> std::sync::MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Starts a thread of a pool, at a lower priority if `later`.
fn start(thread: ThreadBuilder, later: bool) -> std::io::Result<()> {
    let mut builder = std::thread::Builder::new();
    if let Some(name) = thread.name() {
        builder = builder.name(name.to_owned());
    }
    let run = move || {
        if later {
            give_way();
        }
        thread.run();
    };
    builder.spawn(run).map(drop)
}

/// Lowers the priority of the calling thread.
fn give_way() {
    /// Less than a tenth of the processor time of a thread with normal priority.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    const NICE: i32 = 12;
    // On Linux this affects the calling thread, on other systems the whole process.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    if let Err(error) = rustix::process::setpriority_process(None, NICE) {
        tracing::debug!(%error, "a thread's priority cannot be lowered");
    }
}

/// Runs `work` in the pool, or on the calling thread if there is no pool.
fn run_in<T: Send>(
    pool: Result<ThreadPool, rayon::ThreadPoolBuildError>,
    work: impl FnOnce() -> T + Send,
) -> T {
    let alone = || ThreadPoolBuilder::new().num_threads(1).use_current_thread().build();
    match pool.or_else(|_| alone()) {
        Ok(pool) => pool.install(work),
        Err(_) => work(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
    use std::time::{Duration, Instant};

    use rayon::prelude::*;

    use super::*;

    /// Longer than any other timeout in the test.
    const PATIENCE: Duration = Duration::from_mins(1);

    /// Fills rayon's global pool with work until the returned flag is set.
    fn fill_the_global_pool() -> &'static AtomicBool {
        static STOP: AtomicBool = AtomicBool::new(false);
        for _ in 0..rayon::current_num_threads() {
            rayon::spawn(|| {
                let begun = Instant::now();
                while !STOP.load(Ordering::Relaxed) && begun.elapsed() < PATIENCE {
                    std::thread::sleep(Duration::from_millis(5));
                }
            });
        }
        &STOP
    }

    #[test]
    fn no_request_waits_for_who_else_uses_rayon() {
        let stop = fill_the_global_pool();
        let begun = Instant::now();
        let sum: usize = on_all_cores(|| (0..10_000_usize).into_par_iter().sum());
        assert_eq!(sum, 49_995_000);
        assert!(begun.elapsed() < PATIENCE, "it waited for the global pool");
        stop.store(true, Ordering::Relaxed);
    }

    #[test]
    fn what_nobody_waits_for_gets_half_of_the_processors_and_all_when_somebody_does() {
        let all = std::thread::available_parallelism().map_or(1, NonZero::get);
        let (beforehand, running) = (Beforehand::default(), AtomicUsize::new(0));
        let at_once = |enough: usize| {
            let begun = Instant::now();
            running.fetch_add(1, Ordering::SeqCst);
            while running.load(Ordering::SeqCst) < enough && begun.elapsed() < PATIENCE {
                std::thread::sleep(Duration::from_millis(5));
            }
        };
        beforehand.run(|| {
            // Each part occupies a thread, so that the other parts run on other threads.
            let part = |n: usize| {
                if n == 0 {
                    std::thread::sleep(Duration::from_millis(200));
                    let before = running.load(Ordering::SeqCst) + 1;
                    assert!(before <= (all / 2).max(1), "{before} of {all} run");
                    beforehand.hurry();
                }
                at_once(all);
            };
            (0..all).into_par_iter().with_max_len(1).for_each(part);
        });
        assert_eq!(running.load(Ordering::SeqCst), all);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn what_nobody_waits_for_gives_way() {
        let nice = || rustix::process::getpriority_process(None).unwrap();
        let usual = nice();
        assert!(Beforehand::default().run(nice) > usual);
        assert_eq!(apart(nice), usual);
        assert_eq!(nice(), usual);
    }
}

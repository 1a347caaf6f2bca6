//! Work on several processors: short work of requests on threads that all of them share, and long
//! work, such as compiling, on threads of its own. None of it uses rayon's global pool, which other
//! code of the process may keep busy for minutes.

use std::num::NonZero;
use std::sync::{Mutex, OnceLock, PoisonError};

use rayon::{ThreadBuilder, ThreadPool, ThreadPoolBuilder};

use crate::memory::Process;

/// Does `work`, which may divide itself by means of rayon. The work must be short and must wait for
/// nothing: every request in the process shares these threads.
pub(crate) fn on_all_cores<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    match shared() {
        Some(pool) => pool.install(work),
        None => apart(work),
    }
}

/// Does `work`, which may take minutes, on threads of its own for all processors.
pub(crate) fn apart<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    let threads = ThreadPoolBuilder::new().thread_name(|n| format!("belljar-apart-{n}"));
    run_in(threads.build(), work)
}

/// The threads that requests share.
struct Shared {
    process: Process,
    pool: ThreadPool,
    /// Those of a process that was forked from this one, which has none of its threads.
    forked: OnceLock<Box<Self>>,
}

/// The process's own threads; `None` where the system grants none.
fn shared() -> Option<&'static ThreadPool> {
    static FIRST: OnceLock<Box<Shared>> = OnceLock::new();
    let mut place = &FIRST;
    loop {
        if place.get().is_none() {
            let threads = ThreadPoolBuilder::new().thread_name(|n| format!("belljar-work-{n}"));
            // Made before it is put there, so that no process is forked while the place is locked.
            let made = Shared {
                process: Process::current(),
                pool: threads.build().ok()?,
                forked: OnceLock::new(),
            };
            // Another thread may have been first: then this pool ends.
            let _ = place.set(Box::new(made));
        }
        let found = place.get()?;
        if found.process.is_current() {
            return Some(&found.pool);
        }
        place = &found.forked;
    }
}

/// Work that nobody waits for yet. It takes half of the processors, at a lower priority, until
/// somebody [waits](Self::hurry) for it.
#[derive(Default)]
pub(crate) struct Beforehand {
    held: Mutex<Held>,
}

#[derive(Default)]
struct Held {
    hurried: bool,
    /// Threads that have yet to start.
    spare: Vec<ThreadBuilder>,
}

impl Beforehand {
    /// Does `work` on threads of its own.
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

    /// Gives the work all processors. The threads that it has keep their priority.
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

/// Starts a thread of a pool, which gives way to others if it is `later`.
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
    /// Less than a tenth of what a thread with the usual priority gets.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    const NICE: i32 = 12;
    // On Linux this is the calling thread's, elsewhere the whole process's.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    if let Err(error) = rustix::process::setpriority_process(None, NICE) {
        tracing::debug!(%error, "a thread's priority cannot be lowered");
    }
}

/// Does `work` in the pool, or on the calling thread alone where there is no pool.
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

    /// As long as nothing else ends what waits.
    const PATIENCE: Duration = Duration::from_mins(1);

    /// Fills rayon's global pool with work until the returned flag says to stop.
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
            // Each part holds a thread, so that others run on others.
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

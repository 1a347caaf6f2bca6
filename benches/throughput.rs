//! Thousands of short runs: runs per second, the duration of each, and their cost.
//!
//! `cargo bench --bench throughput`, on an otherwise idle machine. The median alone would hide
//! every third run, so the mean, the slowest hundredth and the processor time are printed as well.

#[path = "measure/spread.rs"]
mod spread;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use belljar::{Request, Runtime};

use spread::{Spread, Whose, cpu_time};

const RUNS: u32 = 6_000;
const WARM: u32 = 500;
const JOBS: [usize; 4] = [1, 2, 8, 16];

fn main() {
    for jobs in JOBS {
        let tokio = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(jobs.min(processors()))
            .enable_all()
            .build()
            .expect("threads");
        let runtime =
            Runtime::builder().environment().concurrency(jobs).build().expect("a runtime");
        runtime.images().prepare("data").expect("an image");
        tokio.block_on(all(&runtime, jobs, WARM));
        let (started, cpu) = (Instant::now(), cpu_time(Whose::Own));
        let times = tokio.block_on(all(&runtime, jobs, RUNS));
        let (elapsed, cpu) = (started.elapsed(), cpu_time(Whose::Own).saturating_sub(cpu));
        Spread::new(times).report(&format!("Runtime::run, {jobs} jobs"), jobs, elapsed, cpu);
    }
}

fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Distributes `runs` runs over `jobs` tasks. Returns the duration of each.
async fn all(runtime: &Runtime, jobs: usize, runs: u32) -> Vec<Duration> {
    let left = Arc::new(AtomicU32::new(runs));
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..jobs {
        let (runtime, left) = (runtime.clone(), Arc::clone(&left));
        tasks.spawn(async move {
            let mut times = Vec::new();
            while left
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1))
                .is_ok()
            {
                let run = runtime.run(Request::new("print(1)").image("data")).await.expect("a run");
                assert_eq!(run.outcome.stdout, "1\n");
                times.push(Duration::from_secs_f64(run.outcome.usage.wall_ms / 1_000.0));
                drop(run);
                tokio::task::yield_now().await;
            }
            times
        });
    }
    tasks.join_all().await.concat()
}

//! Shared by the benches: a figure next to its budget.

use std::cell::RefCell;
use std::time::{Duration, Instant};

use criterion::Criterion;

/// Measures `once` with criterion and prints its median next to `budget`, with its mean and its
/// slowest hundredth.
pub fn promise(
    c: &mut Criterion,
    name: &str,
    budget: Duration,
    mut once: impl FnMut() -> Duration,
) {
    let times = RefCell::new(Vec::new());
    c.bench_function(name, |b| {
        b.iter_custom(|count| {
            (0..count)
                .map(|_| {
                    let time = once();
                    times.borrow_mut().push(time);
                    time
                })
                .sum()
        });
    });
    let mut times = times.into_inner();
    times.sort();
    let Some(median) = times.get(times.len() / 2) else {
        return; // another bench was asked for
    };
    let verdict = if *median <= budget { "kept" } else { "MISSED" };
    let count = times.len();
    let mean = times.iter().sum::<Duration>() / u32::try_from(count).unwrap_or(u32::MAX);
    let slowest = times[count - 1 - count / 100];
    println!(
        "PROMISE {name}: median {median:.2?} (mean {mean:.2?}, p99 {slowest:.2?}) of {count} runs, \
         budget {budget:.2?}: {verdict}"
    );
}

/// The duration of `work`, without dropping its result.
pub fn timed<T>(work: impl FnOnce() -> T) -> Duration {
    let start = Instant::now();
    let value = work();
    let time = start.elapsed();
    drop(value);
    time
}

/// Milliseconds.
pub fn ms(ms: f64) -> Duration {
    Duration::from_secs_f64(ms / 1_000.0)
}

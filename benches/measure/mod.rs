//! What the benches share: a figure beside its budget.

use std::cell::RefCell;
use std::time::{Duration, Instant};

use criterion::Criterion;

/// Measures `once` with criterion and prints its median beside `budget`.
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
    println!(
        "PROMISE {name}: median {median:.2?} of {} runs, budget {budget:.2?}: {verdict}",
        times.len()
    );
}

/// How long `work` takes; dropping what it returns does not count.
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

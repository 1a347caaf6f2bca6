//! The budgets of `docs/reference/budgets.md`: each figure is printed next to its budget and to the
//! cost of starting a process in the same run.
//!
//! `cargo bench --bench promises`, on an otherwise idle machine.

mod measure;
#[path = "measure/memory.rs"]
mod memory;

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use belljar::{Request, Runtime};
use criterion::{Criterion, criterion_group, criterion_main};
use tokio::runtime::Runtime as Tokio;

use measure::{ms, promise, timed};
use memory::resident_kib;

const REGRESSION: &str = "
import numpy as np
from sklearn.linear_model import LinearRegression
x = np.arange(100.0).reshape(-1, 1)
print(LinearRegression().fit(x, 2 * x[:, 0] + 1).coef_)
";
const FRAME: &str = "
import pandas as pd
print(pd.DataFrame({'a': [1, 2, 3], 'b': ['x', 'y', 'z']}))
";
const PLOT: &str = "
import matplotlib.pyplot as plt
plt.plot([1, 2, 3], [4, 1, 2])
plt.savefig('plot.png')
plt.close()
";

fn sandboxes(c: &mut Criterion) {
    let runtime = Runtime::builder().environment().build().expect("a runtime");
    let tokio = Tokio::new().expect("threads");
    let process = || timed(|| Command::new("python3").args(["-S", "-c", "pass"]).output());
    promise(c, "reference: python3 -S -c pass", ms(1_000.0), process);

    promise(c, "engine start, warm cache", ms(30.0), || {
        timed(|| Runtime::builder().environment().build())
    });
    let cases = [
        ("fresh core sandbox, print(1)", "core", "print(1)", 0.7),
        ("fresh data sandbox, print(1)", "data", "print(1)", 1.0),
        ("fresh data sandbox, 3-row DataFrame printed", "data", FRAME, 5.0),
        ("fresh data sandbox, line plot as PNG", "data", PLOT, 100.0),
        ("fresh science sandbox, LinearRegression", "science", REGRESSION, 20.0),
    ];
    for (name, image, code, budget) in cases {
        runtime.images().prepare(image).expect("an image");
        let request = Request::new(code).image(image).timeout(Duration::from_secs(30));
        promise(c, name, ms(budget), || {
            let request = request.clone();
            timed(|| {
                let run = tokio.block_on(runtime.run(request)).expect("a run");
                assert!(run.outcome.success, "{:?}", run.outcome.error);
                run
            })
        });
    }
}

fn throughput(c: &mut Criterion) {
    const RUNS: u32 = 2_000;
    let runtime = Runtime::builder().environment().queue(RUNS as usize).build().expect("a runtime");
    runtime.images().prepare("data").expect("an image");
    let tokio = Tokio::new().expect("threads");
    let name = "2,000 runs of print(1), data, all at once";
    promise(c, name, Duration::from_secs(1), || {
        timed(|| {
            tokio.block_on(async {
                let mut runs = tokio::task::JoinSet::new();
                for _ in 0..RUNS {
                    let runtime = runtime.clone();
                    runs.spawn(async move {
                        runtime.run(Request::new("print(1)").image("data")).await.expect("a run");
                    });
                }
                while runs.join_next().await.is_some() {}
            });
        })
    });
}

/// From `print` in the guest to its reader, by the wall clocks of both. Meanwhile the guest
/// computes, and its thread does nothing else.
fn events(c: &mut Criterion) {
    const CODE: &str = "
import time
while True:
    time.sleep(0.001)
    print(time.time_ns(), end='')
    end = time.monotonic() + 0.003
    while time.monotonic() < end:
        pass
";
    let runtime = Runtime::builder().environment().build().expect("a runtime");
    runtime.images().prepare("core").expect("an image");
    let tokio = Tokio::new().expect("threads");
    let (watcher, mut events) = belljar::event::event_channel();
    let request = Request::new(CODE).image("core").timeout(Duration::from_mins(10)).watch(watcher);
    let running = tokio.spawn(async move { runtime.run(request).await });
    promise(c, "an event from print to a reader that awaits it", ms(1.0), || {
        // Output that came while nothing waited does not count.
        while events.try_next().is_some() {}
        tokio.block_on(async {
            loop {
                let event = events.next().await.expect("an event");
                if let belljar::event::EventKind::Stdout { text } = event.kind {
                    let now = UNIX_EPOCH.elapsed().expect("a clock after 1970");
                    if let Ok(written) = text.parse() {
                        return now.saturating_sub(Duration::from_nanos(written));
                    }
                }
            }
        })
    });
    running.abort();
}

/// Memory of a thousand sandboxes that sleep at the same time.
fn idle_memory(_: &mut Criterion) {
    const ALIVE: usize = 1_000;
    let tokio = Tokio::new().expect("threads");
    let runtime = Runtime::builder().environment().concurrency(ALIVE).build().expect("a runtime");
    runtime.images().prepare("data").expect("an image");
    let started = Arc::new(tokio::sync::Semaphore::new(0));
    let before = resident_kib();
    let after = tokio.block_on(async {
        let mut runs = tokio::task::JoinSet::new();
        for _ in 0..ALIVE {
            let (runtime, started) = (runtime.clone(), Arc::clone(&started));
            runs.spawn(async move {
                let request = Request::new("print('up'); import time; time.sleep(600)")
                    .image("data")
                    .timeout(Duration::from_mins(15))
                    .watch(Arc::new(Started(started)));
                let _ = runtime.run(request).await;
            });
        }
        let _all = started.acquire_many(ALIVE as u32).await.expect("an open semaphore");
        resident_kib()
    });
    let each = (after - before) as f64 / 1_024.0 / ALIVE as f64;
    let verdict = if each <= 3.0 { "kept" } else { "MISSED" };
    println!(
        "PROMISE memory per idle sandbox, 1,000 alive, data: {each:.2} MiB, budget 3 MiB: {verdict}"
    );
}

struct Started(Arc<tokio::sync::Semaphore>);

impl belljar::event::OutputWatcher for Started {
    fn write(&self, _: belljar::event::Stream, bytes: &[u8]) {
        if bytes.contains(&b'u') {
            self.0.add_permits(1);
        }
    }
}

/// Bakes the data image again, in a cache of its own that shares artifact and code.
fn baking(_: &mut Criterion) {
    let Some(cache) = copied_cache() else {
        println!(
            "PROMISE baking data: not measured, the cache directory is not where it usually is"
        );
        return;
    };
    let runtime = Runtime::builder().environment().cache(cache.path()).build().expect("a runtime");
    runtime.images().prepare("core").expect("an image");
    let time = timed(|| runtime.images().prepare("data").expect("an image"));
    let verdict = if time <= Duration::from_secs(8) {
        "kept"
    } else {
        "MISSED"
    };
    println!("PROMISE baking data: {time:.2?}, budget 8 s: {verdict}");
}

/// A copy of the cache without its images.
fn copied_cache() -> Option<tempfile::TempDir> {
    let home = std::env::var_os("BELLJAR_CACHE").map(Into::into).or_else(|| {
        directories::ProjectDirs::from("", "", "belljar").map(|d| d.cache_dir().to_owned())
    })?;
    let copy = tempfile::tempdir().ok()?;
    for entry in std::fs::read_dir(&home).ok()?.flatten() {
        let name = entry.file_name();
        if name.to_string_lossy().starts_with("artifact") || name == "code" {
            copy_tree(&entry.path(), &copy.path().join(name)).ok()?;
        }
    }
    Some(copy)
}

fn copy_tree(from: &Path, to: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_tree(&entry.path(), &target)?;
        } else {
            std::fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}

criterion_group! {
    name = promises;
    config = Criterion::default().sample_size(50).without_plots();
    targets = sandboxes, throughput, events, idle_memory, baking
}
criterion_main!(promises);

//! Runs leave nothing behind, however many they are and however they end.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use belljar::event::{OutputWatcher, Stream};
use belljar::{Request, Runtime};

use crate::support::{alone, check, comes_to, memory_taken, outcome, program, runtime_in, tokio};

const MIB: u64 = 1 << 20;

/// The resources of a process.
#[derive(Debug)]
struct Held {
    descriptors: usize,
    entries: usize,
    threads: usize,
    memory: u64,
    mappings: usize,
}

impl Held {
    fn now(dir: &Path) -> Self {
        let count = |path: &Path| fs::read_dir(path).unwrap().count();
        Self {
            descriptors: count(Path::new("/proc/self/fd")),
            entries: count(dir),
            threads: count(Path::new("/proc/self/task")),
            memory: memory_taken(),
            mappings: fs::read_to_string("/proc/self/maps").unwrap().lines().count(),
        }
    }

    /// Checks that resources have not grown, except for some cached memory. Memory of the last runs
    /// is freed in the background.
    #[track_caller]
    fn comes_back_to(before: &Self, more: u64, dir: &Path) {
        let mut now = Self::now(dir);
        let back = comes_to(|| {
            now = Self::now(dir);
            now.entries == before.entries
                && now.descriptors <= before.descriptors
                && now.threads <= before.threads + 2
                && now.mappings <= before.mappings + 64
                && now.memory <= before.memory + more
        });
        assert!(back, "{now:?}, before {before:?}");
    }
}

/// Programs that end in every possible way, quickly.
fn mixed(number: usize) -> Request {
    let request = match number % 10 {
        0 => Request::new("print(1)"),
        1 => Request::new("open('a.txt', 'w').write('x' * 1000)"),
        2 => Request::new("raise ValueError('no')"),
        3 => Request::new("import sys\nsys.exit(3)"),
        4 => Request::new("import os\nos._exit(1)"),
        5 => Request::new(program("contract/contract_02_bad_pointer")),
        6 => Request::new("x = bytearray(64 << 20)").memory_mib(16),
        7 => Request::new("while True: pass").timeout(Duration::from_millis(20)),
        8 => Request::new("import pandas as pd\nframe = pd.DataFrame({'a': [1, 2]})\nprint(frame)"),
        _ => Request::new(
            "import os, tempfile\nheld = [open(f'{n}', 'w') for n in range(50)]\n\
             os.symlink('0', 'link')\nos.makedirs('a/b/c')\ntempfile.mkstemp()\nheld[0].write('x')",
        ),
    };
    request.memory_mib(128)
}

/// Number of warm-up runs before counting.
const WARM: usize = 60;

#[test]
fn five_hundred_in_a_row_leave_nothing() {
    alone("reuse::five_hundred_in_a_row_leave_nothing", || {
        let dir = tempfile::tempdir().unwrap();
        let runtime = runtime_in(dir.path());
        for number in 0..WARM {
            check(&runtime.blocking().run(mixed(number)).unwrap().outcome);
        }
        let before = Held::now(dir.path());
        for number in 0..500 {
            check(&runtime.blocking().run(mixed(number)).unwrap().outcome);
        }
        Held::comes_back_to(&before, 24 * MIB, dir.path());
    });
}

#[test]
fn two_hundred_at_once_leave_nothing() {
    alone("reuse::two_hundred_at_once_leave_nothing", || {
        let dir = tempfile::tempdir().unwrap();
        let runtime =
            Runtime::builder().environment().temp_dir(dir.path()).concurrency(200).build().unwrap();
        let tokio = tokio(2);
        let wave = || {
            tokio.block_on(async {
                let runs: Vec<_> = (0..200)
                    .map(|number| {
                        let runtime = runtime.clone();
                        tokio::spawn(async move { runtime.run(mixed(number)).await })
                    })
                    .collect();
                for run in runs {
                    check(&run.await.unwrap().unwrap().outcome);
                }
            });
        };
        wave();
        wave();
        let before = Held::now(dir.path());
        for _ in 0..4 {
            wave();
        }
        // Sixteen idle memories of up to 8 MiB, which may not all have existed before.
        Held::comes_back_to(&before, 128 * MIB, dir.path());
    });
}

/// Two hundred runs at the same time, each waiting with its memory until all have started.
#[test]
fn two_hundred_live_at_the_same_time() {
    alone("reuse::two_hundred_live_at_the_same_time", || {
        let (dir, signal) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let runtime =
            Runtime::builder().environment().temp_dir(dir.path()).concurrency(200).build().unwrap();
        runtime.images().prepare("data").unwrap();
        let tokio = tokio(2);
        let code = "import os, time\nopen('a.txt', 'w').write('x')\nprint('up')\nwhile not os.path.exists('/signal/go'):\n    \
                    time.sleep(1)\nprint('done')";
        let request = Request::new(code).mount(signal.path(), "/signal").image("data");
        let request = request.timeout(Duration::from_mins(5));
        let before = Held::now(dir.path());
        let up = Arc::new(Lines::default());
        tokio.block_on(async {
            let runs: Vec<_> = (0..200)
                .map(|_| {
                    let (runtime, request) = (runtime.clone(), request.clone());
                    let up: Arc<dyn OutputWatcher> = up.clone();
                    tokio::spawn(async move { runtime.run(request.watch(up)).await })
                })
                .collect();
            let started = Instant::now();
            while up.0.load(Ordering::Relaxed) < 200 {
                assert!(started.elapsed() < Duration::from_mins(3), "{up:?} came up");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            let live = Held::now(dir.path());
            assert_eq!(live.entries, 0, "{live:?}");
            let each = live.memory.saturating_sub(before.memory) / 200;
            assert!(each <= 3 * MIB, "{} KiB for each live sandbox", each >> 10);
            fs::write(signal.path().join("go"), "").unwrap();
            for run in runs {
                assert_eq!(run.await.unwrap().unwrap().outcome.stdout, "up\ndone\n");
            }
        });
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    });
}

/// Counts the lines that guests print.
#[derive(Debug, Default)]
struct Lines(AtomicUsize);

impl OutputWatcher for Lines {
    fn write(&self, _: Stream, bytes: &[u8]) {
        let lines = String::from_utf8_lossy(bytes).matches('\n').count();
        self.0.fetch_add(lines, Ordering::Relaxed);
    }
}

/// A cancelled run ends at once, wherever it was.
#[test]
fn a_dropped_run_is_gone() {
    alone("reuse::a_dropped_run_is_gone", || {
        let dir = tempfile::tempdir().unwrap();
        let runtime =
            Runtime::builder().environment().temp_dir(dir.path()).concurrency(2).build().unwrap();
        let tokio = tokio(2);
        let drop_after = |code: &str, milliseconds| {
            let request = Request::new(code).timeout(Duration::from_mins(1));
            tokio.block_on(async {
                let run = runtime.run(request);
                tokio::time::timeout(Duration::from_millis(milliseconds), run).await.err()
            })
        };
        let codes = [
            "while True: pass",
            "import time\ntime.sleep(60)",
            "import collections, itertools\ncollections.deque(itertools.repeat(0), maxlen=0)",
            "open('a.txt', 'w').write('x')\nwhile True: print('y')",
        ];
        for code in codes {
            drop_after(code, 50);
        }
        let before = Held::now(dir.path());
        for (number, code) in (0..40).zip(codes.iter().cycle()) {
            let started = Instant::now();
            assert!(drop_after(code, 10 + number).is_some(), "{code} ended by itself");
            let late = started.elapsed().saturating_sub(Duration::from_millis(10 + number));
            assert!(late < Duration::from_secs(3), "{code}: {late:?} to let go");
            assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "{code} left its workspace");
        }
        Held::comes_back_to(&before, 24 * MIB, dir.path());
        // Its slot is free again, too.
        let last = tokio.block_on(runtime.run(Request::new("print('free')"))).unwrap();
        assert_eq!(last.outcome.stdout, "free\n");
    });
}

/// Data written to a run's memory never appears in another run.
#[test]
fn memory_is_never_seen_again() {
    let dir = tempfile::tempdir().unwrap();
    let runtime = Arc::new(
        Runtime::builder().environment().temp_dir(dir.path()).concurrency(1).build().unwrap(),
    );
    let write = "marker = bytes.fromhex('5ec7e75ec7e7') * 4_000_000\nlen(marker)";
    // Memory that this run has not written yet, as returned by numpy.
    let look = "
import numpy as np
needle = bytes.fromhex('5ec7e7' * 4)
pieces = [np.empty(size, np.uint8) for size in [32 << 20] + [1 << 20] * 16 + [1 << 12] * 500]
print(sum(piece.tobytes().count(needle) for piece in pieces))
";
    for _ in 0..5 {
        let run = |code| runtime.blocking().run(Request::new(code).image("data")).unwrap().outcome;
        let first = run(write);
        assert!(first.success, "{first:#?}");
        let second = run(look);
        assert_eq!(second.stdout, "0\n", "pieces of another run's memory: {second:#?}");
    }
}

/// Within one run freed memory is seen again, so the search can find something.
#[test]
fn the_same_run_does_see_its_memory_again() {
    let code = "
import numpy as np
marker = bytes.fromhex('5ec7e75ec7e7') * 4_000_000
del marker
needle = bytes.fromhex('5ec7e7' * 4)
print(np.empty(20 << 20, np.uint8).tobytes().count(needle) > 0)
";
    let outcome = outcome(code);
    assert_eq!(outcome.stdout, "True\n", "{outcome:#?}");
}

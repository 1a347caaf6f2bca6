//! Item 20: in deterministic mode the same request gives the same bytes and the same fuel.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use belljar::outcome::ErrorKind;
use belljar::request::Deterministic;
use belljar::{Request, Run, Runtime};

use crate::support::{failed, program, run, run_on, runtime, runtime_in, succeeded};

fn fixed(seed: u64) -> Deterministic {
    Deterministic::default().seed(seed)
}

fn repeatable(name: &str) -> Request {
    Request::new(program(&format!("determinism/{name}")))
        .deterministic(fixed(7))
        .timeout(Duration::from_mins(1))
        .arg("given")
}

/// The outcome and every artifact, as bytes.
fn bytes(run: &Run) -> String {
    let outcome = serde_json::to_string_pretty(&run.outcome).unwrap();
    let files = run.outcome.files.iter().filter(|f| f.symlink.is_none());
    let contents = files.map(|f| format!("{}: {:?}", f.path, run.read(&f.path).unwrap()));
    std::iter::once(outcome).chain(contents).collect::<Vec<_>>().join("\n")
}

/// Shows the first line in which two texts differ.
#[track_caller]
fn assert_same(left: &str, right: &str) {
    if let Some((left, right)) = left.lines().zip(right.lines()).find(|(left, right)| left != right)
    {
        panic!("they differ:\n{left:.2000}\n{right:.2000}");
    }
    assert_eq!(left.len(), right.len());
}

const PROGRAMS: [&str; 3] = ["everything", "files", "science"];

#[test]
fn the_same_bytes_every_time() {
    for name in PROGRAMS {
        let first = run(repeatable(name));
        succeeded(&first.outcome);
        for _ in 0..3 {
            assert_same(&bytes(&first), &bytes(&run(repeatable(name))));
        }
    }
}

#[test]
fn the_same_bytes_in_another_place() {
    let mut places = vec![std::env::temp_dir()];
    // A file system in memory numbers and orders its files differently.
    places.extend(Some("/dev/shm".into()).filter(|place: &PathBuf| place.is_dir()));
    for place in places {
        let elsewhere =
            tempfile::Builder::new().prefix("a-much-longer-name-").tempdir_in(place).unwrap();
        for name in PROGRAMS {
            let there = run_on(&runtime_in(elsewhere.path()), repeatable(name));
            assert_same(&bytes(&run(repeatable(name))), &bytes(&there));
        }
    }
}

/// Addresses, caches and counters: all of them follow from the recipe.
#[test]
fn the_same_bytes_from_an_image_made_again() {
    let cache = crate::caches::copy_of_the_shared_one();
    fs::remove_dir_all(cache.path().join("images")).unwrap();
    let again = Runtime::builder().environment().cache(cache.path()).build().unwrap();
    for name in PROGRAMS {
        let first = bytes(&run(repeatable(name)));
        assert_same(&first, &bytes(&run_on(&again, repeatable(name))));
    }
}

/// The values shown instead of the host's numbers and times are plausible.
#[test]
fn files_are_what_programs_take_them_for() {
    let outcome = run(repeatable("files")).outcome;
    succeeded(&outcome);
    let lines: Vec<&str> = outcome.stdout.lines().skip(2).collect();
    let numbers = [lines[2], lines[4], lines[6]];
    assert!(numbers[0] != numbers[1] && numbers[1] != numbers[2], "{lines:#?}");
    let others: Vec<&str> =
        [0, 1, 3, 5].into_iter().chain(8..lines.len()).map(|n| lines[n]).collect();
    assert_eq!(
        others,
        [
            "[True, True, False]",
            "0",
            "0",
            "0",
            "2000.0 True",
            "5",
            "False 500 500",
            "[('x', ['y'], []), ('x/y', ['z'], []), ('x/y/z', [], [])] True",
            "first",
            "second",
            "['a', 'b', 'hard', 'soft', 'x']",
        ]
    );
}

#[test]
fn the_same_bytes_under_load() {
    let alone = run(repeatable("everything"));
    let stop = Arc::new(AtomicBool::new(false));
    let load: Vec<_> = (0..3)
        .map(|_| {
            let stop = Arc::clone(&stop);
            std::thread::spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    let busy =
                        Request::new("x = [bytes(n) for n in range(3000)]\nwhile True: x.sort()");
                    runtime().blocking().run(busy.timeout(Duration::from_millis(300))).unwrap();
                }
            })
        })
        .collect();
    let loaded: Vec<String> = (0..3).map(|_| bytes(&run(repeatable("everything")))).collect();
    stop.store(true, Ordering::Relaxed);
    for thread in load {
        thread.join().unwrap();
    }
    for text in loaded {
        assert_same(&bytes(&alone), &text);
    }
}

#[test]
fn the_same_bytes_after_other_runs_in_the_same_memory() {
    let runtime = Runtime::builder().environment().concurrency(1).build().unwrap();
    let first = run_on(&runtime, repeatable("everything"));
    run_on(&runtime, Request::new("x = bytearray(100 << 20)\nprint('x' * 100_000)"));
    run_on(&runtime, Request::new(program("recursion/mapped")));
    assert_same(&bytes(&first), &bytes(&run_on(&runtime, repeatable("everything"))));
}

#[test]
fn the_same_bytes_in_another_process() {
    const ELSEWHERE: &str = "BELLJAR_TEST_ELSEWHERE";
    let digests = || PROGRAMS.map(|name| digest(&bytes(&run(repeatable(name))))).concat();
    if std::env::var_os(ELSEWHERE).is_some() {
        print!("{}", digests());
        return;
    }
    let output = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "determinism::the_same_bytes_in_another_process", "--nocapture"])
        .env(ELSEWHERE, "yes")
        .output()
        .unwrap();
    let (printed, expected) = (String::from_utf8_lossy(&output.stdout), digests());
    assert!(printed.contains(&expected), "{expected} is not in {printed}");
}

fn digest(text: &str) -> String {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    format!("{:016x};", hasher.finish())
}

#[test]
fn another_seed_gives_something_else() {
    let draw = |code: &str, seed| {
        run(Request::new(code).deterministic(fixed(seed))).outcome.stdout.trim().to_owned()
    };
    for (code, known) in [
        // The results of `random.seed(1)` and `numpy.random.seed(1)` on any platform.
        ("import random\nprint(random.random())", Some("0.13436424411240122")),
        ("import numpy as np\nprint(np.random.rand())", Some("0.417022004702574")),
        ("import os\nprint(os.urandom(4))", None),
        ("import uuid\nprint(uuid.uuid4())", None),
    ] {
        let first = draw(code, 1);
        assert_eq!(first, draw(code, 1), "{code}");
        assert_ne!(first, draw(code, 2), "{code}");
        assert!(known.is_none_or(|known| first == known), "{code}: {first}");
    }
}

#[test]
fn without_it_runs_differ() {
    let draw = |code: &str| run(Request::new(code)).outcome.stdout;
    for code in [
        "import random\nprint(random.random())",
        "import os\nprint(os.urandom(8))",
        "import uuid\nprint(uuid.uuid4())",
        "import numpy as np\nprint(np.random.rand())",
        "import tempfile\nprint(tempfile.mkdtemp())",
        "import secrets\nprint(secrets.token_hex())",
        "import time\nprint(time.time_ns())",
    ] {
        let draws = [draw(code), draw(code), draw(code)];
        assert!(draws[0] != draws[1] && draws[1] != draws[2], "{code}: {draws:?}");
    }
}

#[test]
fn the_clock_says_what_it_is_told() {
    let request = |epoch, step_ns| {
        let code = "import time, datetime\nfirst = time.time()\ntime.sleep(3600)\n\
                    print(first, time.time() - first, datetime.datetime.now(datetime.UTC).year)";
        Request::new(code)
            .deterministic(Deterministic::default().seed(0).epoch(epoch).step_ns(step_ns))
    };
    let frozen = run(request(1_000_000_000, 0)).outcome;
    assert_eq!(frozen.stdout, "1000000000.0 3600.0 2001\n", "{frozen:#?}");
    let stepping = run(request(0, 1_000_000)).outcome;
    let numbers: Vec<f64> =
        stepping.stdout.split_whitespace().map(|word| word.parse().unwrap()).collect();
    assert!(numbers[0] < 1.0 && numbers[1] > 3600.0 && numbers[1] < 3601.0, "{numbers:?}");
}

#[test]
fn fuel_is_the_same_every_time() {
    let code = "import json\nprint(sum(len(json.dumps({'a': n})) for n in range(1000)))";
    let used = |_| run(Request::new(code).deterministic(fixed(1))).outcome.usage.fuel;
    let all: Vec<u64> = (0..5).map(used).collect();
    assert!(all.iter().all(|fuel| *fuel == all[0]), "{all:?}");
    // One iteration more costs more.
    let more = code.replace("1000", "1001");
    assert!(run(Request::new(more).deterministic(fixed(1))).outcome.usage.fuel > all[0]);
}

#[test]
fn it_stops_at_the_same_place() {
    let code = "n = 0\nwhile True:\n    n += 1\n    if n % 1000 == 0: print(n)";
    let stop = |fuel| {
        let request = Request::new(code).deterministic(fixed(1)).fuel(fuel);
        let run = run(request.timeout(Duration::from_mins(1)));
        failed(&run.outcome, ErrorKind::Fuel);
        bytes(&run)
    };
    let place = stop(301_000_000);
    assert_same(&place, &stop(301_000_000));
    // That is the place of the limit itself, not of the next check of the clock.
    assert_ne!(place, stop(310_000_000));
}

#[test]
fn failures_repeat_as_well() {
    for code in [
        "raise ValueError(object())",
        "x = bytearray(1 << 30)",
        "import os\nos._exit(3)",
        "def f(n): return f(n + 1)\nf(0)",
        "x = 1 +",
    ] {
        let again = || bytes(&run(Request::new(code).deterministic(fixed(3))));
        assert_same(&again(), &again());
    }
}

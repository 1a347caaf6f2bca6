//! Concurrent runs: fair to each other, and to the threads that they share.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use belljar::event::{OutputWatcher, Stream};
use belljar::tool::ToolLimits;
use belljar::{Error, Request, Runtime, Tool};
use serde_json::{Value, json};

use crate::support::{program, runtime, tokio};

const SPIN: &str = "while True: pass";

/// Records that the guest has printed something.
#[derive(Default)]
struct Said(AtomicBool);

impl OutputWatcher for Said {
    fn write(&self, _: Stream, _: &[u8]) {
        self.0.store(true, Ordering::Release);
    }
}

/// During a run that never waits, another task of the same thread gets its turns. A run that does
/// not yield keeps the thread until its time limit.
#[test]
fn a_spinning_run_gives_way() {
    const LIMIT: Duration = Duration::from_secs(30);
    const TURNS: usize = 20;
    for name in ["spin", "c_loop", "regex", "power", "swallow"] {
        tokio(1).block_on(async move {
            let request = Request::new(program(&format!("stops/{name}"))).timeout(LIMIT);
            let started = Arc::new(Said::default());
            let watcher = Arc::clone(&started);
            let run =
                tokio::spawn(
                    async move { runtime().run(request.image("core").watch(watcher)).await },
                );
            let others = tokio::spawn(async move {
                while !started.0.load(Ordering::Acquire) {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
                let since = Instant::now();
                for _ in 0..TURNS {
                    tokio::task::yield_now().await;
                }
                since.elapsed()
            });
            let took = others.await.unwrap();
            assert!(!run.is_finished() && took < LIMIT / 2, "{name}: {took:?} for {TURNS} turns");
            run.abort();
        });
    }
}

/// The same for a run that starts a call in every time slice without waiting for an answer: it
/// yields long before it has used up its calls.
#[test]
fn a_run_that_begins_calls_gives_way() {
    const TURNS: usize = 20;
    const CALLS: u32 = 2_000;
    const BEGINS: &str = r#"
import _host, json
begin = b'b' + json.dumps({"name": "note", "arguments": {}}).encode()
print("started", flush=True)
while True:
    reply = json.loads(_host.call(begin))
    for _ in range(30_000): pass
    if "id" in reply:
        _host.call(b'k' + json.dumps({"id": reply["id"]}).encode())
"#;
    let noted = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&noted);
    let note = Tool::new("note", json!({"type": "object"}), move |_: Value| {
        count.fetch_add(1, Ordering::Relaxed);
        async { Ok(()) }
    });
    tokio(1).block_on(async move {
        let started = Arc::new(Said::default());
        let request =
            Request::new(BEGINS).image("core").tool(note).watch(Arc::clone(&started) as Arc<_>);
        let request = request.timeout(Duration::from_secs(30));
        let request = request.tool_limits(ToolLimits::default().calls(CALLS));
        let run = tokio::spawn(async move { runtime().run(request).await });
        let others = tokio::spawn(async move {
            while !started.0.load(Ordering::Acquire) {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            let before = noted.load(Ordering::Relaxed);
            for _ in 0..TURNS {
                tokio::task::yield_now().await;
            }
            let then = noted.load(Ordering::Relaxed);
            // The attack works: the host sees calls in consecutive slices.
            while noted.load(Ordering::Relaxed) < then + 20 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            then - before
        });
        let calls = others.await.unwrap();
        assert!(!run.is_finished() && calls <= 100, "{calls} calls in {TURNS} turns of another");
        run.abort();
    });
}

#[test]
fn spinning_runs_do_not_keep_others_waiting() {
    runtime().blocking().run(Request::new("print(1)").image("core")).unwrap();
    tokio(2).block_on(async {
        let spinning: Vec<_> = (0..4)
            .map(|_| {
                let request = Request::new(SPIN).timeout(Duration::from_secs(30)).image("core");
                tokio::spawn(async move { runtime().run(request).await })
            })
            .collect();
        let mut times = Vec::new();
        for number in 0..30 {
            let started = Instant::now();
            let request = Request::new(format!("print({number})")).image("core");
            let run = runtime().run(request).await.unwrap();
            assert_eq!(run.outcome.stdout, format!("{number}\n"));
            times.push(started.elapsed());
        }
        for run in spinning {
            run.abort();
        }
        times.sort();
        let median = times[times.len() / 2];
        assert!(median <= Duration::from_secs(3), "{times:?}");
    });
}

#[test]
fn a_sleeping_run_takes_no_thread() {
    tokio(1).block_on(async {
        let started = Instant::now();
        let runs: Vec<_> = (0..12)
            .map(|_| {
                let request = Request::new("import time\ntime.sleep(1)").image("core");
                let request = request.timeout(Duration::from_mins(1));
                tokio::spawn(async move { runtime().run(request).await.unwrap() })
            })
            .collect();
        for run in runs {
            assert!(run.await.unwrap().outcome.success);
        }
        // One after the other they would take twelve.
        assert!(started.elapsed() < Duration::from_secs(10), "{:?}", started.elapsed());
    });
}

#[test]
fn the_queue_has_an_end() {
    let runtime = Runtime::builder().environment().concurrency(1).queue(2).build().unwrap();
    runtime.images().prepare("core").unwrap();
    tokio(2).block_on(async {
        let slow = Request::new("import time\ntime.sleep(3)").image("core");
        let slow = slow.timeout(Duration::from_mins(1));
        let mut runs = Vec::new();
        for _ in 0..3 {
            let (runtime, request) = (runtime.clone(), slow.clone());
            runs.push(tokio::spawn(async move { runtime.run(request).await }));
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        let refused = runtime.run(slow).await;
        assert!(matches!(refused, Err(Error::Busy { waiting: 2 })), "{refused:?}");
        assert!(refused.unwrap_err().hint().is_some());
        for run in runs {
            assert!(run.await.unwrap().unwrap().outcome.success);
        }
        // There is room again.
        assert!(runtime.run(Request::new("1")).await.unwrap().outcome.success);
    });
}

#[test]
fn those_that_wait_are_served_in_order() {
    let runtime = Runtime::builder().environment().concurrency(1).build().unwrap();
    runtime.images().prepare("core").unwrap();
    let start = |code: &str| {
        let (runtime, request) = (runtime.clone(), Request::new(code).image("core"));
        async move { runtime.run(request).await.unwrap().outcome.stdout }
    };
    let begun: Vec<f64> = tokio(2).block_on(async {
        let first = tokio::spawn(start("import time\ntime.sleep(2)"));
        tokio::time::sleep(Duration::from_millis(200)).await;
        let mut waiting = Vec::new();
        for _ in 0..5 {
            waiting.push(tokio::spawn(start("import time\nprint(time.time())")));
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        first.await.unwrap();
        let mut begun = Vec::new();
        for run in waiting {
            begun.push(run.await.unwrap().trim().parse().unwrap());
        }
        begun
    });
    assert!(begun.is_sorted(), "{begun:?}");
}

#[test]
fn one_that_stopped_waiting_gives_up_its_place() {
    let runtime = Runtime::builder().environment().concurrency(1).queue(1).build().unwrap();
    runtime.images().prepare("core").unwrap();
    tokio(2).block_on(async {
        let slow = Request::new("import time\ntime.sleep(3)").image("core");
        let slow = slow.timeout(Duration::from_mins(1));
        let first = tokio::spawn({
            let (runtime, request) = (runtime.clone(), slow.clone());
            async move { runtime.run(request).await }
        });
        tokio::time::sleep(Duration::from_millis(100)).await;
        let waiting = tokio::time::timeout(Duration::from_millis(100), runtime.run(slow)).await;
        assert!(waiting.is_err());
        let next = runtime.run(Request::new("print('next')").image("core")).await.unwrap();
        assert_eq!(next.outcome.stdout, "next\n");
        assert!(first.await.unwrap().unwrap().outcome.success);
    });
}

#[test]
fn many_clones_on_many_threads() {
    let done = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let done = &done;
            scope.spawn(move || {
                for number in 0..10 {
                    let code = format!("print({thread} * 100 + {number})");
                    let outcome =
                        runtime().clone().blocking().run(Request::new(code)).unwrap().outcome;
                    assert_eq!(outcome.stdout, format!("{}\n", thread * 100 + number));
                    done.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    assert_eq!(done.into_inner(), 80);
}

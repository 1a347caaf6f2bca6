//! The promises about sessions in `docs/budgets.md`, measured: a session with pandas loaded and
//! 20 MiB of memory that nothing can compress.
//!
//! `cargo bench --bench sessions`, on a machine that does nothing else.

mod measure;
#[path = "measure/memory.rs"]
mod memory;

use std::time::{Duration, Instant};

use belljar::{Outcome, Request, Runtime, Session, SessionBounds, SessionOptions, SessionStatus};
use criterion::{Criterion, criterion_group, criterion_main};
use tokio::runtime::Runtime as Tokio;

use measure::{ms, promise, timed};
use memory::resident_kib;

const LOADED: &str = "
import numpy as np
import pandas as pd
big = np.random.rand(20 * 1024 * 1024 // 8)
";

async fn loaded(runtime: &Runtime) -> Session {
    let session = runtime.session(SessionOptions::new().init_code(LOADED)).await;
    session.expect("a session")
}

async fn run(session: &Session, code: &str) -> Outcome {
    let outcome = session.run(Request::new(code)).await.expect("a run");
    assert!(outcome.success, "{:?}", outcome.error);
    outcome
}

/// What the run itself took, as it says.
fn alone(outcome: &Outcome) -> Duration {
    Duration::from_secs_f64(outcome.usage.wall_ms / 1_000.0)
}

fn one_session(c: &mut Criterion) {
    let runtime = Runtime::builder().build().expect("a runtime");
    runtime.images().prepare("data").expect("an image");
    let tokio = Tokio::new().expect("threads");
    let session = tokio.block_on(loaded(&runtime));
    promise(c, "session: run of x = 1, without what follows it", ms(0.3), || {
        alone(&tokio.block_on(run(&session, "x = 1")))
    });
    let cases = [("x = 1", "x = 1", 3.0), ("4 MiB changed", "big[:2**19] += 1", 1_000.0)];
    for (what, code, budget) in cases {
        let name = format!("session: keeping the recovery point after a run, {what}");
        promise(c, &name, ms(budget), || {
            let start = Instant::now();
            let outcome = tokio.block_on(run(&session, code));
            start.elapsed().saturating_sub(alone(&outcome))
        });
    }
    promise(c, "session: fork", ms(3.0), || {
        let start = Instant::now();
        let fork = tokio.block_on(session.fork()).expect("a fork");
        let time = start.elapsed();
        fork.close();
        time
    });
    promise(c, "session: fork to the first result", ms(100.0), || {
        tokio.block_on(async {
            let start = Instant::now();
            let fork = session.fork().await.expect("a fork");
            run(&fork, "x = 2").await;
            let time = start.elapsed();
            fork.close();
            time
        })
    });
    promise(c, "session: rewind to the first result", ms(10.0), || {
        tokio.block_on(async {
            let execution = session.execution().await;
            run(&session, "x = 3").await;
            let start = Instant::now();
            session.rewind(execution).await.expect("a state");
            run(&session, "x = 4").await;
            start.elapsed()
        })
    });
    session.close();
}

fn checkpoints(c: &mut Criterion) {
    let runtime = Runtime::builder().build().expect("a runtime");
    let tokio = Tokio::new().expect("threads");
    let session = tokio.block_on(async {
        let session = loaded(&runtime).await;
        for n in 0..5 {
            run(&session, &format!("x = {n}")).await;
        }
        session
    });
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("session.belljar");
    promise(c, "session: checkpoint to a file", ms(50.0), || {
        timed(|| tokio.block_on(session.checkpoint(&path)).expect("a checkpoint"))
    });
    let Ok(written) = path.metadata() else {
        return; // another bench was asked for
    };
    println!(
        "a checkpoint of 20 MiB of random numbers and five runs: {:.1} MiB",
        mib(written.len())
    );
    promise(c, "session: restore from a file to the first result", ms(30.0), || {
        tokio.block_on(async {
            let start = Instant::now();
            let restored = runtime.restore(&path).await.expect("a session");
            run(&restored, "x = 1").await;
            let time = start.elapsed();
            restored.close();
            time
        })
    });
}

/// What the pages that sessions set aside take, which belong to this process as well.
fn shared_kib() -> i64 {
    use std::os::unix::fs::MetadataExt;
    let open = std::fs::read_dir("/proc/self/fd").expect("Linux").flatten();
    let kept = open.filter(|entry| {
        std::fs::read_link(entry.path())
            .is_ok_and(|to| to.to_string_lossy().starts_with("/memfd:belljar-pages"))
    });
    let blocks = kept.filter_map(|entry| Some(std::fs::metadata(entry.path()).ok()?.blocks()));
    blocks.sum::<u64>().cast_signed() / 2
}

fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

/// A thousand sessions alive, then ten thousand suspended.
fn many(_: &mut Criterion) {
    const ALIVE: usize = 1_000;
    const SUSPENDED: usize = 10_000;
    let bounds = SessionBounds::default()
        .max(ALIVE + SUSPENDED)
        .max_awake(2 * ALIVE)
        .suspend_after(Duration::from_hours(1));
    let runtime = Runtime::builder().sessions(bounds).build().expect("a runtime");
    runtime.images().prepare("data").expect("an image");
    let tokio = Tokio::new().expect("threads");
    let used = || resident_kib() + shared_kib();
    let before = used();
    let alive: Vec<Session> = tokio.block_on(async {
        let mut alive = Vec::new();
        for n in 0..ALIVE {
            let session = runtime.session(SessionOptions::new()).await.expect("a session");
            run(&session, &format!("import pandas as pd\nx = {n}")).await;
            alive.push(session);
        }
        alive
    });
    let each = (used() - before) as f64 / 1_024.0 / ALIVE as f64;
    println!(
        "PROMISE session: memory of an idle one, 1,000 alive, data: {each:.2} MiB, budget 5 MiB"
    );
    tokio.block_on(async {
        for (n, session) in alive.iter().enumerate() {
            assert_eq!(run(session, "x").await.stdout, format!("{n}\n"));
        }
    });
    let (mut disk, start) = (Vec::new(), Instant::now());
    tokio.block_on(async {
        for session in &alive {
            assert!(session.suspend().await);
        }
    });
    println!("1,000 sessions suspended in {:.2?}", start.elapsed());
    let each = (used() - before) as f64 / 1_024.0 / ALIVE as f64;
    println!("PROMISE session: memory of a suspended one, data: {each:.3} MiB, budget 0");
    drop(alive);

    let start = Instant::now();
    tokio.block_on(async {
        for n in 0..SUSPENDED - ALIVE {
            let options = SessionOptions::new().image("core");
            let session = runtime.session(options).await.expect("a session");
            run(&session, &format!("x = {n}")).await;
            assert!(session.suspend().await);
            disk.push(session);
        }
    });
    let all = runtime.sessions().list();
    assert!(all.iter().all(|info| info.status == SessionStatus::Suspended));
    println!("{} sessions are suspended, the last 9,000 in {:.2?}", all.len(), start.elapsed());
    let start = Instant::now();
    tokio.block_on(async {
        for (n, session) in disk.iter().enumerate().step_by(97) {
            assert_eq!(run(session, "x").await.stdout, format!("{n}\n"));
        }
    });
    println!("93 of them woken up in {:.2?}", start.elapsed());
}

criterion_group! {
    name = sessions;
    config = Criterion::default().sample_size(50).without_plots();
    targets = one_session, checkpoints, many
}
criterion_main!(sessions);

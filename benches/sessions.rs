//! The promises about sessions in `docs/budgets.md`, measured: a session with pandas loaded and
//! 20 MiB of memory that nothing can compress.
//!
//! `cargo bench --bench sessions`, on a machine that does nothing else.

mod measure;

use std::time::{Duration, Instant};

use belljar::{Outcome, Request, Runtime, Session, SessionOptions};
use criterion::{Criterion, criterion_group, criterion_main};
use tokio::runtime::Runtime as Tokio;

use measure::{ms, promise, timed};

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

fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

criterion_group! {
    name = sessions;
    config = Criterion::default().sample_size(50).without_plots();
    targets = one_session, checkpoints
}
criterion_main!(sessions);

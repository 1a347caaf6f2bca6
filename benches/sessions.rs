//! The budgets for sessions in `docs/reference/budgets.md`: a session with pandas loaded and 20 MiB
//! of incompressible memory.
//!
//! `cargo bench --bench sessions`, on an otherwise idle machine.

mod measure;

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use belljar::session::RestoreOptions;
use belljar::store::{Condition, DirectoryStore, Store};
use belljar::{Outcome, Request, Runtime, Session, SessionOptions};
use criterion::{Criterion, criterion_group, criterion_main};
use tokio::runtime::Runtime as Tokio;
use tokio::task::JoinSet;

use measure::{ms, promise, timed};

const LOADED: &str = "
import numpy as np
import pandas as pd
big = np.random.rand(20 * 1024 * 1024 // 8)
";

const TABLES: &str = "
for n in range(10):
    globals()[f'df_{n}'] = pd.DataFrame({
        'key': np.arange(100_000) % 7,
        'value': np.random.rand(100_000),
        'name': np.array(['tea', 'coffee'])[np.arange(100_000) % 2],
    })
";

const TIMED: &str = "
import time
start = time.perf_counter()
print(df_7.head())
result = time.perf_counter() - start
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

/// Waits until the state of the last run is stored.
async fn kept(session: &Session) {
    session.history().await.expect("a history");
}

/// The duration of the run itself, as reported in its outcome.
fn alone(outcome: &Outcome) -> Duration {
    Duration::from_secs_f64(outcome.usage.wall_ms / 1_000.0)
}

fn one_session(c: &mut Criterion) {
    let runtime = Runtime::builder().environment().build().expect("a runtime");
    runtime.images().prepare("data").expect("an image");
    let tokio = Tokio::new().expect("threads");
    let session = tokio.block_on(loaded(&runtime));
    promise(c, "session: run of x = 1, without what follows it", ms(0.3), || {
        alone(&tokio.block_on(run(&session, "x = 1")))
    });
    promise(c, "session: x = 1, to the answer", ms(0.3), || {
        let time = timed(|| tokio.block_on(run(&session, "x = 1")));
        tokio.block_on(kept(&session));
        time
    });
    let cases = [("x = 1", "x = 1", 0.4), ("4 MiB changed", "big[:2**19] += 1", 1_000.0)];
    for (what, code, budget) in cases {
        let name = format!("session: {what}, until its recovery point is there");
        promise(c, &name, ms(budget), || {
            timed(|| {
                tokio.block_on(async {
                    run(&session, code).await;
                    kept(&session).await;
                });
            })
        });
        let name = format!("session: {what}, runs one after the other");
        promise(c, &name, ms(budget), || timed(|| tokio.block_on(run(&session, code))));
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
    promise(c, "session: best of 8 forks, one line each", ms(30.0), || {
        tokio.block_on(async {
            let start = Instant::now();
            let mut attempts = JoinSet::new();
            for n in 0..8 {
                let fork = session.fork().await.expect("a fork");
                attempts.spawn(async move {
                    run(&fork, &format!("y = {n} * len(big)")).await;
                    fork
                });
            }
            let forks = attempts.join_all().await;
            let time = start.elapsed();
            forks.iter().for_each(Session::close);
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

/// A hundred concurrent sessions, each with one run after the other.
fn many(_: &mut Criterion) {
    const SESSIONS: usize = 100;
    const RUNS: usize = 60;
    let asked: Vec<String> =
        std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    if !asked.is_empty() && !asked.iter().any(|word| "100 sessions".contains(word.as_str())) {
        return; // another bench was asked for
    }
    let runtime = Runtime::builder().environment().build().expect("a runtime");
    let tokio = Tokio::new().expect("threads");
    let sessions: Vec<Session> = tokio.block_on(async {
        let mut sessions = Vec::new();
        for _ in 0..SESSIONS {
            let options = SessionOptions::new().init_code("import pandas as pd");
            sessions.push(runtime.session(options).await.expect("a session"));
        }
        sessions
    });
    let mut rounds = Vec::new();
    for round in 0..6 {
        let start = Instant::now();
        tokio.block_on(async {
            let mut all = JoinSet::new();
            for session in sessions.clone() {
                all.spawn(async move {
                    for n in 0..RUNS {
                        run(&session, &format!("x = {n}")).await;
                    }
                    kept(&session).await;
                });
            }
            all.join_all().await;
        });
        // The first round writes to many pages for the first time.
        if round > 0 {
            rounds.push((SESSIONS * RUNS) as f64 / start.elapsed().as_secs_f64());
        }
    }
    rounds.sort_by(f64::total_cmp);
    println!(
        "PROMISE sessions: x = 1 in turn over 100 sessions: {:.0} runs/s ({:.0} to {:.0}), budget 3,000",
        rounds[rounds.len() / 2],
        rounds[0],
        rounds[rounds.len() - 1]
    );
    sessions.iter().for_each(Session::close);
}

/// Ten tables of 100,000 rows, and the cost of each run besides its own code.
fn tables(c: &mut Criterion) {
    let runtime = Runtime::builder().environment().build().expect("a runtime");
    let tokio = Tokio::new().expect("threads");
    let session = tokio.block_on(loaded(&runtime));
    tokio.block_on(run(&session, TABLES));
    for code in ["df_7.head()", "x = 1"] {
        let name = format!("session: {code} among ten tables of 100,000 rows, to the answer");
        promise(c, &name, ms(3.0), || {
            let time = timed(|| tokio.block_on(run(&session, code)));
            tokio.block_on(kept(&session));
            time
        });
    }
    // The rest is the cost of the tables: the code measures its own time.
    let name = "session: df_7.head() among ten tables of 100,000 rows, beyond what the code takes";
    promise(c, name, ms(1.0), || {
        let start = Instant::now();
        let outcome = tokio.block_on(run(&session, TIMED));
        let time = start.elapsed();
        tokio.block_on(kept(&session));
        let own = outcome.result.as_f64().expect("seconds");
        time.saturating_sub(Duration::from_secs_f64(own))
    });
    session.close();
}

fn checkpoints(c: &mut Criterion) {
    let runtime = Runtime::builder().environment().build().expect("a runtime");
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
    promise(c, "session: checkpoint after 1 MiB changed", ms(50.0), || {
        tokio.block_on(async {
            run(&session, "big[:2**17] += 1").await;
            kept(&session).await;
            let start = Instant::now();
            session.checkpoint(&path).await.expect("a checkpoint");
            start.elapsed()
        })
    });
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
    stored(c, &runtime, &tokio, &session, dir.path());
}

/// The same session in a store, to which only changes are written.
fn stored(c: &mut Criterion, runtime: &Runtime, tokio: &Tokio, session: &Session, dir: &Path) {
    let store = DirectoryStore::open(dir.join("store")).expect("a store");
    let store: Arc<dyn Store> = Arc::new(store);
    let mut written = 0;
    let mut save = async |session: &Session| {
        written += 1;
        let key = format!("states/{written}");
        let saved = session.save(&store, &key, Condition::Absent).await.expect("a store");
        (key, saved.expect("a new key"))
    };
    let first = tokio.block_on(save(session));
    let mut last = None;
    promise(c, "session: saved to a store in a directory after 1 MiB changed", ms(8.0), || {
        tokio.block_on(async {
            run(session, "big[:2**17] += 1").await;
            kept(session).await;
            let start = Instant::now();
            last = Some(save(session).await);
            start.elapsed()
        })
    });
    let Some((key, saved)) = last else {
        return; // another bench was asked for
    };
    println!(
        "the first time {:.1} MiB in {} chunks, then {:.1} MiB in {}",
        mib(first.1.bytes),
        first.1.chunks,
        mib(saved.bytes),
        saved.chunks
    );
    promise(c, "session: restored from there to the first result", ms(15.0), || {
        tokio.block_on(async {
            let start = Instant::now();
            let options = RestoreOptions::stored(Arc::clone(&store), &key);
            let restored = runtime.restore(options).await.expect("a session");
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
    targets = one_session, many, tables, checkpoints
}
criterion_main!(sessions);

//! How many sessions fit into one process: a thousand active, then ten thousand suspended
//! (`docs/reference/budgets.md`).
//!
//! `cargo bench --bench density`, on an otherwise idle machine; takes about two minutes.

#[path = "measure/memory.rs"]
mod memory;

use std::time::{Duration, Instant};

use belljar::session::{RegistryLimits, SessionStatus};
use belljar::{Outcome, Request, Runtime, Session, SessionOptions};
use tokio::runtime::Runtime as Tokio;

use memory::resident_kib;

const ALIVE: usize = 1_000;
const SUSPENDED: usize = 10_000;

fn main() {
    // Some hundred are enough to measure one.
    let awake = std::env::var("BELLJAR_ALIVE").ok().and_then(|n| n.parse().ok()).unwrap_or(ALIVE);
    let bounds = RegistryLimits::default()
        .max(awake + SUSPENDED)
        .max_awake(2 * awake)
        .suspend_after(Duration::from_hours(1));
    let runtime = Runtime::builder().environment().sessions(bounds).build().expect("a runtime");
    runtime.images().prepare("data").expect("an image");
    let tokio = Tokio::new().expect("threads");
    let used = || resident_kib() + shared_kib();
    let before = used();
    let alive: Vec<Session> = tokio.block_on(async {
        let mut alive = Vec::new();
        for n in 0..awake {
            let session = runtime.session(SessionOptions::new()).await.expect("a session");
            run(&session, &format!("import pandas as pd\nx = {n}")).await;
            alive.push(session);
        }
        alive
    });
    let each = (used() - before) as f64 / 1_024.0 / awake as f64;
    println!(
        "PROMISE session: memory of an idle one, {awake} alive, data: {each:.2} MiB, budget 5 MiB"
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
    println!("{awake} sessions suspended in {:.2?}", start.elapsed());
    let each = (used() - before) as f64 / 1_024.0 / awake as f64;
    println!("PROMISE session: memory of a suspended one, data: {each:.3} MiB, budget 0");
    drop(alive);
    if awake != ALIVE {
        return;
    }

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

async fn run(session: &Session, code: &str) -> Outcome {
    let outcome = session.run(Request::new(code)).await.expect("a run");
    assert!(outcome.success, "{:?}", outcome.error);
    outcome
}

/// The memory of pages set aside by sessions, which belong to this process as well.
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

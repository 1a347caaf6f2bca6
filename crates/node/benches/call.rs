//! Overhead of a run through Node, compared with Rust: medians of alternating rounds.

use std::hint::black_box;
use std::process::Command;
use std::time::{Duration, Instant};

use belljar::{Request, Runtime};

const ROUNDS: usize = 5;
const RUNS: usize = 400;

fn main() {
    let runtime = tokio::runtime::Runtime::new().expect("an event loop");
    let engine = Runtime::builder().environment().build().expect("a runtime");
    let (mut rust, mut node) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        rust.push(runtime.block_on(in_rust(&engine)));
        node.push(in_node());
    }
    let (rust, node) = (median(rust), median(node));
    println!("print(1), median of {ROUNDS} rounds of {RUNS} runs");
    println!("  Rust {rust:>6} us");
    println!("  Node {node:>6} us, {} us more (budget 150)", node.saturating_sub(rust));
}

async fn in_rust(engine: &Runtime) -> u128 {
    let mut times = Vec::with_capacity(RUNS);
    for _ in 0..RUNS {
        let begun = Instant::now();
        let run = engine.run(Request::new("print(1)").image("data")).await.expect("a run");
        black_box(serde_json::to_string(&run.outcome).expect("JSON"));
        // As in Node, the run's directory is removed later.
        let taken: Duration = begun.elapsed();
        times.push(taken.as_micros());
    }
    median(times)
}

fn in_node() -> u128 {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/call.mjs");
    let ran = Command::new("node").args([script, &RUNS.to_string()]).output();
    let printed = ran.expect("node").stdout;
    let printed = String::from_utf8(printed).expect("text");
    printed.trim().parse().expect("node says a number")
}

fn median(mut times: Vec<u128>) -> u128 {
    times.sort_unstable();
    times[times.len() / 2]
}

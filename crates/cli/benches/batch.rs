//! Benchmark of `belljar batch` as a process: runs per second, time of each run, and CPU time.
//!
//! `cargo bench --bench batch`, on an otherwise idle machine.

#[path = "../../../benches/measure/spread.rs"]
mod spread;

use std::fs::File;
use std::io::{Seek, Write};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use spread::{Spread, Whose, cpu_time};

const RUNS: u32 = 6_000;
const JOBS: [usize; 4] = [1, 2, 8, 16];

fn main() {
    let mut input = tempfile::tempfile().expect("a file");
    for id in 0..RUNS {
        let line = json!({"id": id, "code": "print(1)", "image": "data"});
        writeln!(input, "{line}").expect("a written line");
    }
    for jobs in JOBS {
        let output = tempfile::NamedTempFile::new().expect("a file");
        let (started, cpu) = (Instant::now(), cpu_time(Whose::Children));
        input.rewind().expect("the start of a file");
        let status = Command::new(env!("CARGO_BIN_EXE_belljar"))
            .args(["batch", "--quiet", "--jobs", &jobs.to_string(), "-"])
            .stdin(input.try_clone().expect("a descriptor"))
            .stdout(output.reopen().expect("a descriptor"))
            .stderr(Stdio::inherit())
            .status()
            .expect("a process");
        let (elapsed, cpu) = (started.elapsed(), cpu_time(Whose::Children).saturating_sub(cpu));
        assert!(status.success(), "{status}");
        let times = times(&output.reopen().expect("a descriptor"));
        Spread::new(times).report(&format!("belljar batch, {jobs} jobs"), jobs, elapsed, cpu);
    }
}

/// The time of each run, from its outcome.
fn times(output: &File) -> Vec<Duration> {
    let lines = serde_json::Deserializer::from_reader(std::io::BufReader::new(output));
    let times: Vec<Duration> = lines
        .into_iter::<Value>()
        .map(|line| {
            let line = line.expect("JSON");
            assert_eq!(line["stdout"], "1\n");
            Duration::from_secs_f64(line["usage"]["wall_ms"].as_f64().expect("a number") / 1_000.0)
        })
        .collect();
    assert_eq!(times.len(), RUNS as usize);
    times
}

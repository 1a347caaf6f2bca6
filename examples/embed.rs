//! Embeds the engine: one run with a file, a limit and live output, then many at once.
//!
//! `cargo run --release --example embed`

use std::sync::Arc;
use std::time::{Duration, Instant};

use belljar::event::{OutputWatcher, Stream};
use belljar::{Error, Request, Runtime};

const ANALYSIS: &str = "
import pandas as pd

readings = pd.read_csv('readings.csv')
print(readings.groupby('sensor')['value'].describe()[['count', 'mean', 'max']])
readings.plot(x='hour', y='value', kind='scatter')
result = readings['value'].mean()
";

const READINGS: &str = "hour,sensor,value\n0,a,1.5\n1,a,2.5\n0,b,4.0\n1,b,6.0\n";

/// Shows output as it comes.
struct Live;

impl OutputWatcher for Live {
    fn write(&self, stream: Stream, bytes: &[u8]) {
        if matches!(stream, Stream::Stdout) {
            print!("{}", String::from_utf8_lossy(bytes));
        }
    }
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    let runtime = Runtime::builder().build()?;

    let request = Request::new(ANALYSIS)
        .file("readings.csv", READINGS)
        .timeout(Duration::from_secs(10))
        .memory_mib(128)
        .watch(Arc::new(Live));
    let run = runtime.run(request).await?;
    println!("result: {}", run.outcome.result);
    for plot in &run.outcome.plots {
        println!("{}: {} bytes", plot.path, run.read(&plot.path)?.len());
    }

    // What code does wrong is data, not an error.
    let failed = runtime.run(Request::new("prices = {}\nprices['apple']")).await?;
    if let Some(detail) = failed.outcome.error_detail {
        println!("line {:?}: {}: {}", detail.line, detail.type_, detail.message);
    }

    // Each run has an interpreter of its own, so that many cost little.
    let started = Instant::now();
    let runs: Vec<_> = (0..1_000)
        .map(|n| {
            let runtime = runtime.clone();
            tokio::spawn(
                async move { runtime.run(Request::new(format!("result = {n} ** 2"))).await },
            )
        })
        .collect();
    let mut sum = 0;
    for run in runs {
        let outcome = run.await.expect("the task ends by itself")?.outcome;
        sum += outcome.result.as_u64().unwrap_or_default();
    }
    println!("1,000 runs in {:.1?}, the sum of their squares is {sum}", started.elapsed());
    Ok(())
}

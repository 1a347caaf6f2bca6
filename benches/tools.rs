//! What calls of tools promise: see `docs/budgets.md`.
//!
//! `cargo bench --bench tools`, on a machine that does nothing else. Both figures are the guest's, by its
//! own clock, so the sandbox around them does not count.

#[expect(dead_code, reason = "the guest measures the time")]
mod measure;

use std::time::Duration;

use belljar::{Request, Runtime, Tool, ToolLimits};
use criterion::{Criterion, criterion_group, criterion_main};
use serde_json::{Value, json};

use measure::{ms, promise};

const ROUND_TRIPS: &str = "
import time, tools
for _ in range(100):
    tools.echo(x=1)
start = time.perf_counter()
for _ in range(1000):
    tools.echo(x=1)
result = (time.perf_counter() - start) / 1000
";
const TOGETHER: &str = "
import asyncio, time, tools
await tools.nap(seconds=0)
start = time.perf_counter()
await asyncio.gather(*(tools.nap(seconds=0.02) for _ in range(10)))
result = time.perf_counter() - start
";

fn tools(c: &mut Criterion) {
    let runtime = Runtime::builder().build().expect("a runtime").blocking();
    let object = json!({"type": "object", "properties": {"x": {"type": "integer"}}});
    let echo = Tool::new("echo", object, async |arguments: Value| Ok(arguments));
    let number = json!({"type": "object", "properties": {"seconds": {"type": "number"}}});
    let nap = Tool::new("nap", number, async |arguments: Value| {
        let seconds = arguments["seconds"].as_f64().unwrap_or_default();
        tokio::time::sleep(Duration::from_secs_f64(seconds)).await;
        Ok(())
    });
    let cases = [
        ("a call of a tool, there and back", ROUND_TRIPS, 0.03),
        ("ten awaited tools of 20 ms", TOGETHER, 25.0),
    ];
    for (name, code, budget) in cases {
        let request = Request::new(code)
            .image("core")
            .tool(echo.clone())
            .tool(nap.clone())
            .tool_limits(ToolLimits::default().calls(10_000));
        promise(c, name, ms(budget), || {
            let run = runtime.run(request.clone()).expect("a run");
            let seconds = run.outcome.result.as_f64();
            Duration::from_secs_f64(seconds.unwrap_or_else(|| panic!("{:#?}", run.outcome)))
        });
    }
}

criterion_group! {
    name = promises;
    config = Criterion::default().sample_size(10);
    targets = tools
}
criterion_main!(promises);

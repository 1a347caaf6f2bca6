//! The budgets for tool calls and fetched values: see `docs/reference/budgets.md`.
//!
//! `cargo bench --bench tools`, on an otherwise idle machine. Times of tools are measured by the
//! guest, so the sandbox around them does not count.

mod measure;

use std::time::Duration;

use belljar::tool::ToolLimits;
use belljar::value::Value as Typed;
use belljar::{Request, Runtime, SessionOptions, Tool};
use criterion::{Criterion, criterion_group, criterion_main};
use serde_json::{Value, json};

use measure::{ms, promise, timed};

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
    let runtime = Runtime::builder().environment().build().expect("a runtime").blocking();
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

const FRAME: &str = "
import numpy as np, pandas as pd
rng = np.random.default_rng(1)
n = 1_000_000
frame = pd.DataFrame({'a': rng.random(n), 'b': rng.integers(0, 1 << 40, n),
                      'c': rng.random(n), 'd': rng.integers(0, 9, n)})
";

fn values(c: &mut Criterion) {
    let runtime = Runtime::builder().environment().build().expect("a runtime").blocking();
    let options = SessionOptions::new().image("data").init_code(FRAME);
    let session = runtime.session(options).expect("a session");
    promise(c, "a DataFrame of 1,000,000 x 4 numbers out of a session", ms(60.0), || {
        timed(|| {
            let value = session.get("frame").expect("an answer");
            let Some(Typed::DataFrame(frame)) = &value else {
                panic!("no DataFrame");
            };
            assert_eq!(frame.data.len(), 4);
            value
        })
    });
    session.close();
}

criterion_group! {
    name = promises;
    config = Criterion::default().sample_size(10);
    targets = tools, values
}
criterion_main!(promises);

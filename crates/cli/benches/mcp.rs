//! The budget for `belljar mcp` in `docs/reference/budgets.md`: a call, from the request line to
//! the response line, next to the same runs with the library.
//!
//! `cargo bench --bench mcp`, on an otherwise idle machine.

#[path = "../../../benches/measure/beside.rs"]
mod beside;

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use std::time::{Duration, Instant};

use belljar::{Request, Runtime};
use serde_json::{Value, json};

use beside::{Side, print, promise};

/// Rounds of each. They alternate, so that other load on the machine affects both.
const ROUNDS: usize = 8;
const CALLS: usize = 200;

/// A client with one request at a time.
struct Client {
    process: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    asked: u64,
}

impl Client {
    fn start() -> Self {
        let mut process = Command::new(env!("CARGO_BIN_EXE_belljar"))
            .arg("mcp")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a server");
        let input = process.stdin.take();
        let output = BufReader::new(process.stdout.take().expect("its output"));
        let mut client = Self {
            process,
            input,
            output,
            asked: 0,
        };
        let us = json!({"name": "bench", "version": "0"});
        client.ask(
            "initialize",
            &json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": us}),
        );
        client.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        client
    }

    fn send(&mut self, message: &Value) {
        let input = self.input.as_mut().expect("its input");
        writeln!(input, "{message}").and_then(|()| input.flush()).expect("a server that reads");
    }

    fn ask(&mut self, method: &str, params: &Value) -> Value {
        self.asked += 1;
        self.send(&json!({"jsonrpc": "2.0", "id": self.asked, "method": method, "params": params}));
        let mut line = String::new();
        self.output.read_line(&mut line).expect("a server that answers");
        serde_json::from_str(&line).expect("an answer")
    }

    fn run(&mut self, code: &str) {
        let params = json!({"name": "run_python", "arguments": {"code": code}});
        let answer = self.ask("tools/call", &params);
        assert_eq!(answer["result"]["isError"], false, "{answer}");
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        drop(self.input.take());
        let _ = self.process.wait();
    }
}

#[tokio::main]
async fn main() {
    let runtime = Runtime::builder().environment().build().expect("a runtime");
    runtime.images().prepare("data").expect("an image");
    let mut client = Client::start();
    let processes = [std::process::id(), client.process.id()];
    for code in ["print(1)", "import pandas\nprint(1)"] {
        by_library(&runtime, code).await;
        by_mcp(&mut client, code);
        let (mut library, mut mcp) = (Side::default(), Side::default());
        for _ in 0..ROUNDS {
            library.add(&processes, by_library(&runtime, code)).await;
            mcp.add(&processes, async { by_mcp(&mut client, code) }).await;
        }
        let name = format!("mcp: run_python {:?}", code.replace('\n', "; "));
        print(&name, &library, &mcp);
        promise(&name, mcp.median(), Duration::from_millis(3));
    }
}

async fn by_library(runtime: &Runtime, code: &str) -> Vec<Duration> {
    let mut times = Vec::new();
    for _ in 0..CALLS {
        let started = Instant::now();
        let run = runtime.run(Request::new(code).image("data")).await.expect("a run");
        assert_eq!(run.outcome.stdout, "1\n");
        times.push(started.elapsed());
    }
    times
}

fn by_mcp(client: &mut Client, code: &str) -> Vec<Duration> {
    let once = || {
        let started = Instant::now();
        client.run(code);
        started.elapsed()
    };
    std::iter::repeat_with(once).take(CALLS).collect()
}

//! The promise of `docs/budgets.md` about `belljar mcp`: a call, from the line that asks to the line that
//! answers.
//!
//! `cargo bench --bench mcp`, on a machine that does nothing else.

#[path = "../../../benches/measure/mod.rs"]
mod measure;

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use criterion::{Criterion, criterion_group, criterion_main};
use serde_json::{Value, json};

use measure::{ms, promise, timed};

/// A client that asks for one thing at a time.
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

fn calls(c: &mut Criterion) {
    let mut client = Client::start();
    for (name, code) in [
        ("mcp: run_python print(1)", "print(1)"),
        ("mcp: run_python, on data", "import pandas\nprint(1)"),
    ] {
        client.run(code);
        promise(c, name, ms(3.0), || timed(|| client.run(code)));
    }
}

criterion_group! {
    name = mcp;
    config = Criterion::default().sample_size(50).without_plots();
    targets = calls
}
criterion_main!(mcp);

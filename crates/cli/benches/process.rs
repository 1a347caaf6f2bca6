//! The budgets for whole processes in `docs/reference/budgets.md`.
//!
//! `cargo bench --bench process`, on an otherwise idle machine.

#[path = "../../../benches/measure/mod.rs"]
mod measure;

#[cfg(feature = "server")]
use std::io::{BufRead, BufReader, Read, Write};
#[cfg(feature = "server")]
use std::net::TcpStream;
use std::process::Command;
#[cfg(feature = "server")]
use std::process::{Child, Stdio};
use std::time::Duration;

use criterion::{Criterion, criterion_group, criterion_main};

use measure::{ms, promise, timed};

/// Processes started as from a shell.
fn processes(c: &mut Criterion) {
    let belljar = env!("CARGO_BIN_EXE_belljar");
    let run = |program: &str, args: &[&str]| {
        let mut command = Command::new(program);
        command.args(args);
        timed(|| command.output().expect("a program"))
    };
    let ours = ["run", "-c", "import pandas"];
    promise(c, "process: belljar run -c 'import pandas'", ms(60.0), || run(belljar, &ours));
    if run("python3", &["-c", "import pandas"]) > Duration::ZERO && has_pandas() {
        let theirs = ["-c", "import pandas"];
        promise(c, "reference: python3 -c 'import pandas'", ms(1_000.0), || {
            run("python3", &theirs)
        });
    }
}

/// Time from the start of a server until it reports that it is ready.
#[cfg(feature = "server")]
fn servers(c: &mut Criterion) {
    promise(c, "process: belljar serve until it is ready", ms(150.0), || timed(started));
}

#[cfg(not(feature = "server"))]
fn servers(_: &mut Criterion) {}

/// A server, killed on drop.
#[cfg(feature = "server")]
struct Served(Child);

#[cfg(feature = "server")]
impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[cfg(feature = "server")]
fn started() -> Served {
    let mut child = Command::new(env!("CARGO_BIN_EXE_belljar"))
        .args(["serve", "--listen", "127.0.0.1:0", "--no-auth", "--json"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("a server");
    let output = child.stdout.take().expect("its output");
    let served = Served(child);
    let mut line = String::new();
    BufReader::new(output).read_line(&mut line).expect("a server that listens");
    let ready: serde_json::Value = serde_json::from_str(&line).expect("what it says");
    let address = ready["url"].as_str().and_then(|url| url.strip_prefix("http://"));
    let mut stream = TcpStream::connect(address.expect("an address")).expect("a connection");
    stream
        .write_all(b"GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        .expect("a request");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    served
}

fn has_pandas() -> bool {
    let found = Command::new("python3").args(["-c", "import pandas"]).status();
    found.is_ok_and(|status| status.success())
}

criterion_group! {
    name = process;
    config = Criterion::default().sample_size(50).without_plots();
    targets = processes, servers
}
criterion_main!(process);

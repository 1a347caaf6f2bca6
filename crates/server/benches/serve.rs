//! `POST /v1/runs` compared with the same runs in the library, and the latency of a stream's first
//! event.
//!
//! `cargo bench -p belljar-server --bench serve` on an otherwise idle machine. The client runs in
//! the same process and shares its processors.

#[path = "../../../benches/measure/beside.rs"]
mod beside;

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use belljar::{Request, Runtime};
use belljar_server::{App, Keys, Server, Service, Settings};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use beside::{Side, print, promise};

/// Rounds of each, alternating so that other load affects both.
const ROUNDS: usize = 8;
/// Runs per round.
const RUNS: [(usize, usize); 2] = [(1, 400), (CONNECTIONS, 1_280)];
const CONNECTIONS: usize = 64;
const STREAMS: usize = 100;

#[tokio::main]
async fn main() {
    let runtime = Runtime::builder().environment().build().expect("a runtime");
    runtime.images().prepare("data").expect("an image");
    let app = App::new(Service::new(runtime.clone()), Keys::none(), Settings::default());
    let any_port = SocketAddr::from(([127, 0, 0, 1], 0));
    let server = Server::bind(app, any_port).await.expect("a port");
    let address: SocketAddr =
        server.url().trim_start_matches("http://").parse().expect("an address");
    tokio::spawn(server.run(std::future::pending()));
    let this = [std::process::id()];
    for (jobs, runs) in RUNS {
        let each = runs / jobs;
        by_library(&runtime, jobs, each).await;
        by_http(address, jobs, each).await;
        let (mut library, mut http) = (Side::default(), Side::default());
        for _ in 0..ROUNDS {
            library.add(&this, by_library(&runtime, jobs, each)).await;
            http.add(&this, by_http(address, jobs, each)).await;
        }
        print(&format!("POST /v1/runs, {jobs} at once"), &library, &http);
        if jobs == 1 {
            let more = http.median().saturating_sub(library.median());
            promise("POST /v1/runs over the library call", more, Duration::from_micros(400));
        } else {
            let share = http.rate() / library.rate() * 100.0;
            let verdict = if share >= 70.0 { "kept" } else { "MISSED" };
            println!(
                "PROMISE runs/s at {jobs} connections: {share:.0} % of the library's, budget 70 %: {verdict}"
            );
        }
    }
    let mut late = Vec::new();
    for _ in 0..STREAMS {
        late.push(first_event(address).await);
    }
    late.sort();
    let median = late[late.len() / 2];
    promise("first event of a stream after it was printed", median, Duration::from_millis(2));
}

async fn by_library(runtime: &Runtime, jobs: usize, runs: usize) -> Vec<Duration> {
    let mut tasks = JoinSet::new();
    for _ in 0..jobs {
        let runtime = runtime.clone();
        tasks.spawn(async move {
            let mut times = Vec::new();
            for _ in 0..runs {
                let started = Instant::now();
                let run = runtime.run(Request::new("print(1)").image("data")).await.expect("a run");
                assert_eq!(run.outcome.stdout, "1\n");
                drop(run);
                times.push(started.elapsed());
            }
            times
        });
    }
    tasks.join_all().await.concat()
}

async fn by_http(address: SocketAddr, jobs: usize, runs: usize) -> Vec<Duration> {
    let mut tasks = JoinSet::new();
    for _ in 0..jobs {
        tasks.spawn(async move {
            let mut stream = connect(address).await;
            let mut times = Vec::new();
            for _ in 0..runs {
                let started = Instant::now();
                send(&mut stream, "application/json", r#"{"code": "print(1)", "image": "data"}"#)
                    .await;
                let answer = read_until(&mut stream, is_whole).await;
                assert!(answer.contains(r#""stdout":"1\n""#), "{answer}");
                times.push(started.elapsed());
            }
            times
        });
    }
    tasks.join_all().await.concat()
}

/// Time from the print in the code, by its clock, to the event's arrival at the client.
async fn first_event(address: SocketAddr) -> Duration {
    let code = r#"{"code": "import time\ntime.sleep(0.01)\nprint(time.time_ns())\ntime.sleep(0.05)", "image": "data"}"#;
    let mut stream = connect(address).await;
    send(&mut stream, "text/event-stream", code).await;
    let is_printed = |text: &str| {
        text.split_once("event: stdout\n").is_some_and(|(_, rest)| rest.contains("\n\n"))
    };
    let answer = read_until(&mut stream, is_printed).await;
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("a clock");
    let text = answer.split_once(r#""text":""#).expect("text").1;
    let digits: String = text.chars().take_while(char::is_ascii_digit).collect();
    now.saturating_sub(Duration::from_nanos(digits.parse().expect("a time")))
}

async fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).await.expect("a connection");
    stream.set_nodelay(true).expect("a socket");
    stream
}

async fn send(stream: &mut TcpStream, accept: &str, body: &str) {
    let request = format!(
        "POST /v1/runs HTTP/1.1\r\nHost: localhost\r\nAccept: {accept}\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).await.expect("a request");
}

async fn read_until(stream: &mut TcpStream, is_enough: impl Fn(&str) -> bool) -> String {
    let mut answer = Vec::with_capacity(16 << 10);
    loop {
        let read = stream.read_buf(&mut answer).await.expect("an answer");
        assert_ne!(read, 0, "the server closed the connection");
        let text = String::from_utf8_lossy(&answer);
        if is_enough(&text) {
            return text.into_owned();
        }
    }
}

/// Whether a response has as many bytes as its head announces.
fn is_whole(text: &str) -> bool {
    let Some((head, body)) = text.split_once("\r\n\r\n") else {
        return false;
    };
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    body.len() >= length.and_then(|text| text.parse().ok()).expect("a length")
}

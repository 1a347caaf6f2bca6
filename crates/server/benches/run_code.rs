//! Many short runs over `/run_code`, as from a reward server, on several connections, compared with
//! the same runs in the library.
//!
//! `cargo bench -p belljar-server --bench run_code` on an otherwise idle machine. The client runs
//! in the same process and shares its processors.

#[path = "../../../benches/measure/beside.rs"]
#[expect(dead_code, reason = "nothing is promised of this way in")]
mod beside;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use belljar::request::Capture;
use belljar::{Request, Runtime};
use belljar_server::{App, Faces, Keys, Server, Service, Settings};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;

use beside::{Side, print};

const CONNECTIONS: [usize; 3] = [1, 8, 64];
const RUNS: u32 = 4_000;
const WARM: u32 = 500;
const ROUNDS: u32 = 4;

#[tokio::main]
async fn main() {
    let runtime = Runtime::builder().environment().build().expect("a runtime");
    for image in ["core", "data"] {
        runtime.images().prepare(image).expect("an image");
    }
    let mut settings = Settings::default();
    settings.faces = Faces::all();
    let app = App::new(Service::new(runtime.clone()), Keys::none(), settings);
    let any_port = SocketAddr::from(([127, 0, 0, 1], 0));
    let server = Server::bind(app, any_port).await.expect("a port");
    let address: SocketAddr =
        server.url().trim_start_matches("http://").parse().expect("an address");
    let stop = CancellationToken::new();
    let stopped = stop.clone().cancelled_owned();
    let serving = tokio::spawn(server.grace(Duration::from_secs(1)).run(stopped));
    let this = [std::process::id()];
    for connections in CONNECTIONS {
        by_library(&runtime, connections, WARM).await;
        by_http(address, connections, WARM).await;
        let (mut library, mut http) = (Side::default(), Side::default());
        // Alternating, so that other load affects both.
        for _ in 0..ROUNDS {
            library.add(&this, by_library(&runtime, connections, RUNS / ROUNDS)).await;
            http.add(&this, by_http(address, connections, RUNS / ROUNDS)).await;
        }
        print(&format!("/run_code, {connections} connections"), &library, &http);
    }
    stop.cancel();
    serving.await.expect("the server ends").expect("no sessions to keep");
}

/// Takes the next of the remaining runs.
fn next(left: &AtomicU32) -> bool {
    left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1)).is_ok()
}

async fn by_library(runtime: &Runtime, jobs: usize, runs: u32) -> Vec<Duration> {
    let left = Arc::new(AtomicU32::new(runs));
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..jobs {
        let (runtime, left) = (runtime.clone(), Arc::clone(&left));
        tasks.spawn(async move {
            let mut times = Vec::new();
            while next(&left) {
                let started = Instant::now();
                let capture = Capture::default().figures(false).dataframes(false);
                let run = runtime.run(Request::new("print(1)").capture(capture)).await;
                assert_eq!(run.expect("a run").outcome.stdout, "1\n");
                times.push(started.elapsed());
            }
            times
        });
    }
    tasks.join_all().await.concat()
}

async fn by_http(address: SocketAddr, connections: usize, runs: u32) -> Vec<Duration> {
    let left = Arc::new(AtomicU32::new(runs));
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..connections {
        let left = Arc::clone(&left);
        tasks.spawn(async move {
            let mut stream = TcpStream::connect(address).await.expect("a connection");
            stream.set_nodelay(true).expect("a socket");
            let mut times = Vec::new();
            while next(&left) {
                let started = Instant::now();
                ask(&mut stream).await;
                times.push(started.elapsed());
            }
            times
        });
    }
    tasks.join_all().await.concat()
}

/// Sends a request on a kept-alive connection.
async fn ask(stream: &mut TcpStream) {
    const BODY: &str = r#"{"compile_timeout": 10, "run_timeout": 10, "code": "print(1)", "stdin": "", "memory_limit_MB": 1024, "language": "python", "files": {}, "fetch_files": []}"#;
    let request = format!(
        "POST /run_code HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{BODY}",
        BODY.len()
    );
    stream.write_all(request.as_bytes()).await.expect("a request");
    let mut answer = Vec::with_capacity(16 << 10);
    loop {
        let read = stream.read_buf(&mut answer).await.expect("an answer");
        assert_ne!(read, 0, "the server closed the connection");
        let text = String::from_utf8_lossy(&answer);
        let Some((head, body)) = text.split_once("\r\n\r\n") else {
            continue;
        };
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        let length: usize = length.and_then(|text| text.parse().ok()).expect("a length");
        if body.len() >= length {
            assert!(body.contains(r#""stdout":"1\n""#), "{text}");
            return;
        }
    }
}

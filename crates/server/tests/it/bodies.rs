//! Request bodies: authentication before reading, and limits on their memory.

use std::time::Duration;

use belljar_server::KeyLimits;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::{Keyed, Started, alone, everything, open, reactor, start_keyed};

const LONG: Duration = Duration::from_secs(30);

/// Begins a request with a body of `length` bytes, and sends none of it.
async fn begin(server: &Started, head: &str, length: usize) -> TcpStream {
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    let request = format!(
        "{head} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
         Content-Length: {length}\r\n"
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    stream
}

async fn first_line(stream: &mut TcpStream) -> String {
    let mut bytes = vec![0; 4096];
    let read = tokio::time::timeout(LONG, stream.read(&mut bytes)).await;
    let read = read.expect("an answer before the body").unwrap();
    let text = String::from_utf8_lossy(&bytes[..read]).into_owned();
    text.lines().next().unwrap_or_default().to_owned()
}

/// All routes of all faces that accept a body.
async fn routes() -> Vec<String> {
    let mut routes: Vec<String> = [
        "POST /v1/sandbox/run",
        "POST /run_code",
        "POST /run_jupyter",
        "POST /api/v2/execute",
        "POST /api/v2/piston/execute",
        "POST /librechat/exec",
        "POST /librechat/exec/programmatic",
        "POST /librechat/exec/programmatic/cancel",
        "POST /librechat/upload",
        "POST /librechat/upload/batch",
        "POST /v1/containers",
        "POST /v1/containers/x/files",
        "POST /v1/containers/x/code_interpreter_calls",
        "POST /judge0/submissions",
        "POST /judge0/submissions/batch",
        "POST /mcp",
        "POST /api/kernels",
        "POST /api/sessions",
        "PATCH /api/sessions/x",
        "POST /sandboxes",
        "POST /v2/sandboxes",
        "POST /sandboxes/x/connect",
        "POST /sandboxes/x/timeout",
        "POST /sandboxes/x/pause",
        "POST /sandboxes/x/fork",
        "POST /sandboxes/x/snapshots",
        "PUT /sandboxes/x/network",
        "POST /execute",
        "POST /contexts",
        "POST /files?path=a",
        "POST /filesystem.Filesystem/Stat",
    ]
    .map(str::to_owned)
    .to_vec();
    let document = open().get("/v1/openapi.json").await.json();
    for (path, operations) in document["paths"].as_object().unwrap() {
        for (method, operation) in operations.as_object().unwrap() {
            if operation.get("requestBody").is_some() {
                let path = path.replace("{id}", "x").replace("{path}", "a").replace("{name}", "b");
                routes.push(format!("{} {path}", method.to_uppercase()));
            }
        }
    }
    routes
}

/// Every face must check the key before it reads the body.
#[tokio::test(flavor = "multi_thread")]
async fn whoever_has_no_key_is_refused_before_the_body() {
    let Keyed { server, .. } =
        start_keyed([("a", KeyLimits::default())], everything(), |server| server).await;
    let routes = routes().await;
    assert!(routes.len() > 40, "{routes:?}");
    for route in routes {
        for key in ["", "Authorization: Bearer belljar_00\r\n"] {
            let mut stream = begin(&server, &route, 1 << 20).await;
            stream.write_all(format!("{key}\r\n").as_bytes()).await.unwrap();
            let line = first_line(&mut stream).await;
            let status = line.split(' ').nth(1).unwrap_or_default();
            assert!(["401", "403"].contains(&status), "{route}: {line}");
        }
    }
}

pub fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<usize>().unwrap() << 10
}

/// Two hundred connections without a key, each one byte short of the longest body, use almost no
/// memory.
#[test]
fn whoever_has_no_key_takes_no_memory() {
    alone("bodies::whoever_has_no_key_takes_no_memory", || reactor().block_on(flood()));
}

async fn flood() {
    let Keyed {
        server, clients, ..
    } = start_keyed([("a", KeyLimits::default())], everything(), |server| server).await;
    // The first run's memory is allocated before the measurement.
    clients[0].post("/v1/runs", &json!({"code": "1", "image": "core"})).await;
    let (length, piece) = (32 << 20, vec![b' '; 1 << 20]);
    let before = resident();
    let mut open = Vec::new();
    for n in 0..200 {
        let path = ["/api/v2/execute", "/v1/runs", "/judge0/submissions", "/mcp"][n % 4];
        let mut stream = begin(&server, &format!("POST {path}"), length).await;
        stream.write_all(b"\r\n").await.unwrap();
        let mut left = length - 1;
        while left > 0 {
            let now = left.min(piece.len());
            // A connection that was answered and closed accepts no more.
            let sent = tokio::time::timeout(LONG, stream.write_all(&piece[..now])).await;
            if !matches!(sent, Ok(Ok(()))) {
                break;
            }
            left -= now;
        }
        let taken = resident().saturating_sub(before);
        assert!(taken <= 32 << 20, "{} MiB after {} connections", taken >> 20, n + 1);
        open.push(stream);
    }
    let answer = clients[0].post("/v1/runs", &json!({"code": "print(1)", "image": "core"})).await;
    assert_eq!(answer.json()["stdout"], "1\n");
}

/// Unfinished bodies of one key do not block other keys.
#[tokio::test(flavor = "multi_thread")]
async fn bodies_that_never_end_leave_room_for_others() {
    let mut settings = everything();
    (settings.body_bytes, settings.body_memory) = (2 << 20, 4 << 20);
    let accounts = ["a", "b"].map(|name| (name, KeyLimits::default()));
    let Keyed {
        server, clients, ..
    } = start_keyed(accounts, settings, |server| server).await;
    let [a, b] = &clients;
    let (mut open, blank) = (Vec::new(), vec![b' '; (2 << 20) - 1]);
    for _ in 0..4 {
        let mut stream = begin(&server, "POST /v1/runs", 2 << 20).await;
        let key = format!("Authorization: Bearer {}\r\n\r\n", a.key.as_ref().unwrap());
        stream.write_all(key.as_bytes()).await.unwrap();
        let sent = stream.write_all(&blank);
        let _ = tokio::time::timeout(Duration::from_millis(300), sent).await;
        open.push(stream);
    }
    let code = format!("print({:?}[0])", "x".repeat(1 << 20));
    let answer = b.post("/v1/runs", &json!({"code": code, "image": "core"})).await;
    assert_eq!(answer.status, 200, "{answer}");
    // A body that waits too long for memory is refused.
    let mut refused = false;
    for stream in &mut open {
        let mut bytes = vec![0; 4096];
        let read = tokio::time::timeout(Duration::from_secs(12), stream.read(&mut bytes)).await;
        let text = String::from_utf8_lossy(&bytes).into_owned();
        refused |= matches!(read, Ok(Ok(_))) && text.starts_with("HTTP/1.1 503");
        if refused {
            break;
        }
    }
    assert!(refused, "all of them wait");
}

/// Stalled uploads use none of the blocking threads, of which there are four here, so another key's
/// work proceeds.
#[test]
fn slow_uploads_hold_no_threads() {
    let mut few = tokio::runtime::Builder::new_multi_thread();
    few.enable_all().max_blocking_threads(4).build().unwrap().block_on(slow_uploads());
}

async fn slow_uploads() {
    const NAMES: [&str; 10] = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"];
    let accounts = NAMES.map(|name| (name, KeyLimits::default()));
    let Keyed {
        server, clients, ..
    } = start_keyed(accounts, everything(), |server| server).await;
    let [other, slow @ ..] = &clients;
    let session = other.session(&json!({"image": "core"})).await;
    let path = format!("/v1/sessions/{session}");
    let saved = other.get(&format!("{path}/checkpoint")).await.body;
    let work = async {
        assert!(other.put(&format!("{path}/files/a"), "x").await.status.is_success());
        let suspended = other.ask("POST", &format!("{path}/suspend"), &[]).await;
        assert!(suspended.status.is_success(), "{suspended}");
        let body = axum::body::Body::from(saved);
        let request = axum::http::Request::post("/v1/checkpoints").body(body).unwrap();
        let restored = other.send(request).await;
        assert_eq!(restored.status, 201, "{restored}");
    };
    let mut open = Vec::new();
    for client in slow {
        let theirs = client.session(&json!({"image": "core"})).await;
        for n in 0..60 {
            let head = match n % 2 {
                0 => format!("PUT /v1/sessions/{theirs}/files/{n}"),
                _ => "POST /v1/checkpoints".to_owned(),
            };
            let mut stream = begin(&server, &head, 1 << 20).await;
            let key = client.key.as_ref().unwrap();
            let rest = format!("Authorization: Bearer {key}\r\n\r\nx");
            stream.write_all(rest.as_bytes()).await.unwrap();
            open.push(stream);
        }
    }
    assert!(open.len() > 512);
    tokio::time::sleep(Duration::from_secs(1)).await;
    // Otherwise it would wait for the unfinished uploads.
    tokio::time::timeout(LONG, work).await.expect("another key's work goes on");
}

/// A client that writes a refused body after the server has decided gets the refusal, and can go on
/// with the same connection, whether the body has a length or not, and was opened or not.
#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_is_refused_does_not_end_its_connection() {
    let server = crate::support::start().await;
    for (head, body) in [
        ("POST /v1/none", "Content-Length: 5\r\n\r\n|hello"),
        ("POST /v1/none", "Transfer-Encoding: chunked\r\n\r\n|5\r\nhello\r\n0\r\n\r\n"),
        ("PUT /v1/sessions/none/files/a", "Content-Length: 5\r\n\r\n|hello"),
        (
            "PUT /v1/sessions/none/files/a",
            "Transfer-Encoding: chunked\r\n\r\n|5\r\nhello\r\n0\r\n\r\n",
        ),
    ] {
        let (more, late) = body.split_once('|').unwrap();
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        let request = format!("{head} HTTP/1.1\r\nHost: localhost\r\n{more}");
        stream.write_all(request.as_bytes()).await.unwrap();
        // Long enough that the server has decided.
        tokio::time::sleep(Duration::from_millis(200)).await;
        stream.write_all(late.as_bytes()).await.unwrap();
        assert!(first_line(&mut stream).await.contains(" 404 "), "{head}, {body:?}");
        stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
        let next = first_line(&mut stream).await;
        assert!(next.contains(" 200 "), "{head}, {body:?}: {next:?}");
    }
}

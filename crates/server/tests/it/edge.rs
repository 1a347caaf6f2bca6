//! Layers in front of all faces: origins, metrics, readiness, preconditions and shutdown.

use std::time::{Duration, Instant};

use axum::body::Body;
use axum::http::Request;
use belljar::Runtime;
use belljar_server::{App, Key, KeyLimits, Keys, Service, router};
use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::Message;

use crate::connections::socket;
use crate::support::{Client, Keyed, engine, everything, open, start_keyed, with_keys};

const ORIGIN: &str = "https://app.example";

fn initialize() -> Value {
    json!({
        "jsonrpc": "2.0", "id": 1, "method": "initialize",
        "params": {
            "protocolVersion": "2025-03-26", "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"},
        },
    })
}

/// Pages of a configured origin may read the responses of all faces.
#[tokio::test(flavor = "multi_thread")]
async fn pages_of_named_origins_may_read_answers() {
    let mut settings = everything();
    settings.origins = vec![ORIGIN.to_owned()];
    let app = App::new(Service::new(engine()), Keys::none(), settings);
    let client = Client {
        router: router(app),
        key: None,
    };
    let asks = [
        ("origin", ORIGIN),
        ("access-control-request-method", "PUT"),
        ("access-control-request-headers", "authorization, content-type"),
    ];
    for path in ["/v1/sessions/x/files/a", "/mcp", "/api/kernels", "/sandboxes"] {
        let preflight = client.ask("OPTIONS", path, &asks).await;
        assert_eq!(preflight.status, 200, "{path}: {preflight}");
        assert_eq!(preflight.headers["access-control-allow-origin"], ORIGIN);
        assert_eq!(preflight.headers["access-control-allow-methods"], "PUT");
        let allowed = preflight.headers["access-control-allow-headers"].to_str().unwrap();
        assert!(allowed.contains("authorization"), "{allowed}");
    }
    let answer = client.ask("GET", "/v1/sessions", &[("origin", ORIGIN)]).await;
    assert_eq!(answer.headers["access-control-allow-origin"], ORIGIN);
    let request = Request::post("/mcp")
        .header("origin", ORIGIN)
        .header("host", "localhost")
        .header("accept", "application/json, text/event-stream")
        .header("content-type", "application/json")
        .body(initialize().to_string().into());
    let answer = client.send(request.unwrap()).await;
    assert_eq!(answer.status, 200, "{answer}");
    for origin in ["https://evil.example", "http://localhost:6274"] {
        let answer = client.ask("GET", "/v1/sessions", &[("origin", origin)]).await;
        assert_eq!(answer.problem(), "foreign_origin");
        assert!(!answer.headers.contains_key("access-control-allow-origin"), "{origin}");
    }
    let closed = open().ask("OPTIONS", "/v1/runs", &asks).await;
    assert!(!closed.headers.contains_key("access-control-allow-origin"));
}

/// A server with a full queue is still ready.
#[tokio::test(flavor = "multi_thread")]
async fn a_busy_server_is_ready() {
    let runtime = Runtime::builder().environment().concurrency(1).queue(1).build().unwrap();
    let service = Service::new(runtime);
    let app = App::new(service.clone(), Keys::none(), everything());
    let client = Client {
        router: router(app),
        key: None,
    };
    let endless = json!({"code": "while True: pass", "timeout": 60, "image": "core"});
    let runs: Vec<_> = (0..2)
        .map(|_| {
            let (client, endless) = (client.clone(), endless.clone());
            tokio::spawn(async move { client.post("/v1/runs", &endless).await })
        })
        .collect();
    while service.under_way() < 2 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let full = async {
        // A request that was queued after all leaves the queue.
        let ask = || client.post("/v1/runs", &endless);
        while !tokio::time::timeout(Duration::from_secs(1), ask())
            .await
            .is_ok_and(|answer| answer.status == 503)
        {}
    };
    tokio::time::timeout(Duration::from_secs(30), full).await.expect("the queue is full");
    let answer = client.get("/readyz").await;
    assert_eq!(answer.text(), "ready\n");
    service.interrupt_all();
    for run in runs {
        run.await.unwrap();
    }
}

/// Of two clients that create a file with `If-None-Match`, only one succeeds.
#[tokio::test(flavor = "multi_thread")]
async fn conditions_hold_when_a_file_is_written() {
    let client = open();
    let id = client.session(&json!({"image": "core"})).await;
    for n in 0..5 {
        let path = format!("/v1/sessions/{id}/files/{n}");
        let write = async |body: &'static str| {
            let request = Request::put(&path).header("if-none-match", "*");
            client.send(request.body(Body::from(body)).unwrap()).await
        };
        let (one, other) = tokio::join!(write("one"), write("other"));
        let mut statuses = [one.status.as_u16(), other.status.as_u16()];
        statuses.sort_unstable();
        assert_eq!(statuses, [201, 412], "{one} {other}");
        let first = if one.status == 201 { "one" } else { "other" };
        assert_eq!(client.get(&path).await.text(), first);
    }
}

/// A client's request id is in all log lines, so its length is limited.
#[tokio::test(flavor = "multi_thread")]
async fn an_id_of_a_request_is_bounded() {
    let client = open();
    let ask = async |id: &str| {
        client.ask("GET", "/healthz", &[("x-request-id", id)]).await.headers["x-request-id"].clone()
    };
    assert_eq!(ask("mine-1").await, "mine-1");
    assert!(ask(&"x".repeat(60_000)).await.len() < 64);
}

/// Metrics cover all accounts, so other accounts cannot read them.
#[tokio::test(flavor = "multi_thread")]
async fn figures_of_all_are_for_operators() {
    let [alone] = with_keys([("one", KeyLimits::default())]);
    assert_eq!(alone.get("/metrics").await.status, 200);
    let made = ["one", "two"].map(|name| Key::generate(name, KeyLimits::default()).unwrap());
    let [(one, first), (mut two, second)] = made;
    two.is_operator = true;
    let app = App::new(Service::new(engine()), Keys::of(vec![one, two]), everything());
    let router = router(app);
    for (key, status) in [(first, 403), (second, 200)] {
        let client = Client {
            router: router.clone(),
            key: Some(key),
        };
        assert_eq!(client.get("/metrics").await.status, status);
    }
}

/// A notebook's message of more than 16 MiB arrives in one frame.
#[tokio::test(flavor = "multi_thread")]
async fn a_long_message_to_a_kernel_is_one_frame() {
    let Keyed {
        server, clients, ..
    } = start_keyed([("a", KeyLimits::default())], everything(), |server| server).await;
    let (_, kernel) = server.ask(&clients[0], "POST", "/api/kernels", &json!({})).await;
    let path = format!("/api/kernels/{}/channels", kernel["id"].as_str().unwrap());
    let mut socket = socket(&server, &clients[0], &path).await.unwrap();
    let ask = json!({
        "channel": "shell", "content": {}, "parent_header": {},
        "header": {"msg_id": "1", "msg_type": "kernel_info_request", "session": "s", "version": "5.3"},
        "metadata": {"padding": "x".repeat(17 << 20)},
    });
    socket.send(Message::text(ask.to_string())).await.unwrap();
    let reply = async {
        loop {
            let message = socket.next().await.expect("it stays open").unwrap();
            let told: Value = serde_json::from_slice(&message.into_data()).unwrap_or_default();
            if told["header"]["msg_type"] == "kernel_info_reply" {
                return;
            }
        }
    };
    tokio::time::timeout(Duration::from_mins(1), reply).await.expect("a reply");
}

/// An idle event stream does not delay the server's shutdown.
#[tokio::test(flavor = "multi_thread")]
async fn a_stream_on_which_nothing_comes_does_not_hold_up_the_end() {
    const GRACE: Duration = Duration::from_mins(1);
    let Keyed {
        mut server,
        clients,
        ..
    } = start_keyed([("a", KeyLimits::default())], everything(), |server| server.grace(GRACE))
        .await;
    let key = clients[0].key.clone().unwrap();
    let body = initialize().to_string();
    let head = |method: &str, more: &str| {
        format!(
            "{method} /mcp HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {key}\r\n\
             Accept: application/json, text/event-stream\r\n{more}\r\n"
        )
    };
    let length = format!("Content-Type: application/json\r\nContent-Length: {}\r\n", body.len());
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    stream.write_all((head("POST", &length) + &body).as_bytes()).await.unwrap();
    let session = heard_until(&mut stream, "\"serverInfo\"").await;
    let session = session
        .lines()
        .find_map(|line| line.strip_prefix("mcp-session-id: "))
        .unwrap_or_else(|| panic!("{session}"))
        .to_owned();
    let mut listening = TcpStream::connect(server.address).await.unwrap();
    let named = format!("Mcp-Session-Id: {session}\r\n");
    listening.write_all(head("GET", &named).as_bytes()).await.unwrap();
    heard_until(&mut listening, "200 OK").await;
    let since = Instant::now();
    server.stop();
    let ended = tokio::time::timeout(GRACE / 2, &mut server.running).await;
    ended.expect("the stream holds it up").unwrap();
    println!("the server ended after {:?}", since.elapsed());
}

async fn heard_until(stream: &mut TcpStream, what: &str) -> String {
    let mut heard = String::new();
    let all = async {
        while !heard.contains(what) {
            let mut bytes = [0; 4096];
            let read = stream.read(&mut bytes).await.unwrap();
            assert!(read > 0, "{heard}");
            heard.push_str(&String::from_utf8_lossy(&bytes[..read]));
        }
    };
    tokio::time::timeout(Duration::from_secs(30), all).await.expect("an answer");
    heard
}

/// A client with only a signature cannot make the server hash a long path for every sandbox.
#[tokio::test(flavor = "multi_thread")]
async fn a_signature_of_a_long_path_is_refused_at_once() {
    let [client] = with_keys([("one", KeyLimits::default())]);
    let ask = async |length: usize| {
        let path = format!("/files?signature=v1_x&path={}", "a".repeat(length));
        client.get(&path).await.status.as_u16()
    };
    assert_eq!((ask(100).await, ask(10_000).await), (401, 400));
}

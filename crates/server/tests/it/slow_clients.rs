//! Clients that send requests and never read the responses.

use std::time::{Duration, Instant};

use belljar_server::Settings;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

use crate::support::{Started, start_with};

const PATIENCE: Duration = Duration::from_secs(1);

async fn start() -> Started {
    let mut settings = Settings::default();
    settings.write_timeout = PATIENCE;
    start_with(settings).await
}

/// A connection with small buffers, so that little is in transit.
async fn connect(server: &Started) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    socket.connect(server.address).await.unwrap()
}

async fn ask(stream: &mut TcpStream, head: &str, accept: &str, body: &Value) {
    let body = body.to_string();
    let request = format!(
        "{head} HTTP/1.1\r\nHost: localhost\r\nAccept: {accept}\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).await.unwrap();
}

/// Waits until no run is in progress, and returns how long that took.
async fn idle(server: &Started) -> Duration {
    let since = Instant::now();
    while server.service.under_way() > 0 {
        assert!(since.elapsed() < Duration::from_secs(20), "a run goes on");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    since.elapsed()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_nobody_reads_ends_with_its_run() {
    let server = start().await;
    let code = "while True: print('x' * 1000)";
    let mut stream = connect(&server).await;
    let body = json!({"code": code, "timeout": 600, "output_bytes": 256 << 20});
    ask(&mut stream, "POST /v1/runs", "text/event-stream", &body).await;
    while server.service.under_way() == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    idle(&server).await;
    // Data in transit arrives, and nothing after it.
    let mut rest = Vec::new();
    let ended = stream.read_to_end(&mut rest);
    let ended = tokio::time::timeout(Duration::from_secs(10), ended).await;
    assert!(ended.is_ok(), "the connection is open still");
    assert!(!String::from_utf8_lossy(&rest).contains("event: outcome"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_nobody_reads_costs_its_connection() {
    let server = start().await;
    let session = server.client.session(&json!({"image": "core"})).await;
    let path = format!("/v1/sessions/{session}/files/a");
    let size = 32 << 20;
    assert!(server.client.put(&path, vec![7_u8; size]).await.status.is_success());
    let mut stream = connect(&server).await;
    ask(&mut stream, &format!("GET {path}"), "*/*", &Value::Null).await;
    tokio::time::sleep(PATIENCE * 3).await;
    let mut rest = Vec::new();
    // The connection may end with a reset.
    let _ = stream.read_to_end(&mut rest).await;
    assert!(rest.len() < size, "all of it came");
    assert_eq!(server.client.get(&path).await.body.len(), size);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_reads_slowly_gets_all_of_it() {
    let server = start().await;
    let mut stream = connect(&server).await;
    let body = json!({"code": "print('x' * 300_000)", "output_bytes": 1 << 20});
    ask(&mut stream, "POST /v1/runs", "application/json", &body).await;
    let mut heard = 0;
    let mut bytes = vec![0; 64 << 10];
    let since = Instant::now();
    while heard < 300_000 {
        tokio::time::sleep(PATIENCE / 5).await;
        let read = stream.read(&mut bytes).await.unwrap();
        assert!(read > 0, "it ended after {heard} bytes");
        heard += read;
    }
    assert!(since.elapsed() > PATIENCE);
}

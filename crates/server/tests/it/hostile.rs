//! Hostile clients.

use std::time::{Duration, Instant};

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::{Started, open, start};

async fn connect(server: &Started) -> TcpStream {
    TcpStream::connect(server.address).await.unwrap()
}

/// The server's response to these bytes until it closes the connection or `time` is over.
async fn say(server: &Started, bytes: &[u8], time: Duration) -> String {
    let mut stream = connect(server).await;
    stream.write_all(bytes).await.unwrap();
    let mut answer = Vec::new();
    let _ = tokio::time::timeout(time, stream.read_to_end(&mut answer)).await;
    String::from_utf8_lossy(&answer).into_owned()
}

const SHORT: Duration = Duration::from_secs(2);

/// Waits until no run is in progress.
async fn idle(server: &Started) {
    let since = Instant::now();
    while server.service.under_way() > 0 {
        assert!(since.elapsed() < Duration::from_secs(10), "a run goes on");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn paths_lead_nowhere_else() {
    let client = open();
    let id = client.session(&json!({"image": "core"})).await;
    let files = format!("/v1/sessions/{id}/files");
    for path in [
        "..%2F..%2Fetc%2Fpasswd",
        "%2e%2e/%2e%2e/etc/passwd",
        "../x",
        "a/../../x",
        "%2Fetc%2Fpasswd",
        "/etc/passwd",
        "a%00b",
        "a//b",
        "./a",
        "%5c..%5cx%00",
    ] {
        let read = client.get(&format!("{files}/{path}")).await;
        assert!(read.status.is_client_error(), "{path}: {read}");
        let write = client.put(&format!("{files}/{path}"), "x").await;
        // A backslash is an ordinary character.
        assert!(write.status.is_client_error(), "{path}: {write}");
    }
    let listed = client.get(&files).await.json();
    assert_eq!(listed["entries"], json!([]));
    let long = "x".repeat(3000);
    assert!(client.put(&format!("{files}/{long}"), "x").await.status.is_client_error());
    let deep = "d/".repeat(100);
    assert!(client.put(&format!("{files}/{deep}x"), "x").await.status.is_client_error());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_link_is_not_followed() {
    let client = open();
    let id = client.session(&json!({"image": "core"})).await;
    client
        .run(
            &id,
            "import os\nos.mkdir('d')\nopen('f', 'w').write('f')\n\
                     os.symlink('f', 'a')\nos.symlink('d', 'b')",
        )
        .await;
    for path in ["a", "b/x"] {
        let path = format!("/v1/sessions/{id}/files/{path}");
        assert!(client.get(&path).await.status.is_client_error(), "{path}");
        assert!(client.put(&format!("{path}/y"), "x").await.status.is_client_error(), "{path}");
    }
    let code = "import os\nopen('b', 'w').write('')\nos.symlink('b', 'a')";
    let outcome = client.post("/v1/runs", &json!({ "code": code })).await.json();
    let run = outcome["run"].as_str().unwrap();
    assert_eq!(client.get(&format!("/v1/runs/{run}/files/b")).await.status, 200);
    assert!(client.get(&format!("/v1/runs/{run}/files/a")).await.status.is_client_error());
}

#[tokio::test(flavor = "multi_thread")]
async fn heads_that_are_none_are_refused() {
    let server = start().await;
    let many = "X: y\r\n".repeat(200);
    let long = format!("X: {}\r\n", "y".repeat(200_000));
    for head in [
        "nonsense\r\n\r\n".to_owned(),
        "GET /healthz HTTP/9.9\r\n\r\n".to_owned(),
        format!("GET /healthz HTTP/1.1\r\nHost: localhost\r\n{many}\r\n"),
        format!("GET /healthz HTTP/1.1\r\nHost: localhost\r\n{long}\r\n"),
        "POST /v1/runs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n"
            .into(),
        "POST /v1/runs HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n".into(),
        "POST /v1/runs HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n".into(),
    ] {
        let answer = say(&server, head.as_bytes(), SHORT).await;
        assert!(answer.starts_with("HTTP/1.1 4") || answer.is_empty(), "{head:.60}: {answer}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_length_that_lies_costs_its_own_request() {
    let server = start().await;
    // Content-Length exceeds the body: the client disconnects early.
    let head = "POST /v1/runs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n";
    let mut stream = connect(&server).await;
    stream.write_all(format!("{head}Content-Length: 1000\r\n\r\n{{").as_bytes()).await.unwrap();
    drop(stream);
    // Too long: refused before it is read.
    let answer =
        say(&server, format!("{head}Content-Length: 99999999999\r\n\r\n").as_bytes(), SHORT).await;
    assert!(answer.starts_with("HTTP/1.1 413"), "{answer}");
    // A body that never ends.
    let mut stream = connect(&server).await;
    let session = server.client.session(&json!({"image": "core", "workspace_mb": 1})).await;
    let head = format!(
        "PUT /v1/sessions/{session}/files/a HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let chunk = [b"10000\r\n".as_slice(), &vec![0; 0x10000], b"\r\n"].concat();
    let sent = async {
        let mut sent = 0;
        while sent < 64 << 20 && stream.write_all(&chunk).await.is_ok() {
            sent += 0x10000;
        }
        sent
    };
    let sent = tokio::time::timeout(Duration::from_secs(10), sent).await.unwrap_or_default();
    assert!(sent < 64 << 20, "all of it was read");
    drop(stream);
    let listed = server.client.get(&format!("/v1/sessions/{session}/files")).await.json();
    assert_eq!(listed["entries"], json!([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upload_that_breaks_off_changes_nothing() {
    let server = start().await;
    let session = server.client.session(&json!({"image": "core"})).await;
    let path = format!("/v1/sessions/{session}/files/a");
    server.client.put(&path, "before").await;
    let mut stream = connect(&server).await;
    let head = format!("PUT {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\nhalf");
    stream.write_all(head.as_bytes()).await.unwrap();
    tokio::time::sleep(Duration::from_millis(100)).await;
    drop(stream);
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(server.client.get(&path).await.text(), "before");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_leaves_takes_its_run_along() {
    let server = start().await;
    let body = json!({"code": "while True: pass", "timeout": 60}).to_string();
    for accept in ["application/json", "text/event-stream"] {
        let mut stream = connect(&server).await;
        let request = format!(
            "POST /v1/runs HTTP/1.1\r\nHost: localhost\r\nAccept: {accept}\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(request.as_bytes()).await.unwrap();
        while server.service.under_way() == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        drop(stream);
        idle(&server).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_survives_a_client_that_leaves() {
    let server = start().await;
    let session = server.client.session(&json!({"image": "core"})).await;
    let body = json!({"code": "x = 5\nprint('go')\nwhile True: pass", "timeout": 60}).to_string();
    let mut stream = connect(&server).await;
    let request = format!(
        "POST /v1/sessions/{session}/runs HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut heard = String::new();
    while !heard.contains("\"go\"") {
        let mut bytes = [0; 4096];
        let read = stream.read(&mut bytes).await.unwrap();
        assert!(read > 0, "{heard}");
        heard.push_str(std::str::from_utf8(&bytes[..read]).unwrap());
    }
    drop(stream);
    let outcome = server.client.run(&session, "x").await;
    assert_eq!((&outcome["stdout"], &outcome["execution"]), (&json!("5\n"), &json!(2)));
    assert!(outcome.get("interpreter_restarted").is_none(), "{outcome}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_streams_that_are_half_open_keep_nobody_out() {
    let server = start().await;
    let mut streams = Vec::new();
    for n in 0..1000 {
        let Ok(mut stream) = TcpStream::connect(server.address).await else {
            break;
        };
        let half: &[u8] = match n % 3 {
            0 => b"",
            1 => b"POST /v1/runs HTTP/1.1\r\nHost: localhost\r\n",
            _ => b"POST /v1/runs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 50\r\n\r\n{",
        };
        stream.write_all(half).await.unwrap();
        streams.push(stream);
    }
    assert!(streams.len() > 200, "{}", streams.len());
    let request = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    let answer = say(&server, request, SHORT).await;
    assert!(answer.ends_with("ok\n"), "{answer}");
}

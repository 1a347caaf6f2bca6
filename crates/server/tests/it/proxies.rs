//! A server behind a proxy that adds a path prefix.

use axum::http::StatusCode;
use belljar_server::Settings;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::{Started, start_with};

/// The response to a proxy that sends these headers.
async fn ask(server: &Started, head: &str, headers: &str, body: &Value) -> String {
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    let body = if body.is_null() {
        String::new()
    } else {
        body.to_string()
    };
    let request = format!(
        "{head} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n{headers}\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

fn location(answer: &str) -> &str {
    let find = |line: &str| line.strip_prefix("location: ").map(str::len);
    let line = answer.lines().find(|line| find(line).is_some());
    line.unwrap_or_else(|| panic!("{answer}")).split_at("location: ".len()).1
}

fn servers(answer: &str) -> Value {
    let (_, body) = answer.split_once("\r\n\r\n").unwrap();
    let mut document: Value = serde_json::from_str(body).unwrap();
    document["servers"].take()
}

async fn behind(proxies: &[&str], base_path: &str) -> Started {
    let mut settings = Settings::default();
    settings.trusted_proxies = proxies.iter().map(|proxy| proxy.parse().unwrap()).collect();
    settings.base_path = base_path.into();
    start_with(settings).await
}

const PREFIX: &str = "X-Forwarded-Prefix: /tools/belljar\r\n";

#[tokio::test(flavor = "multi_thread")]
async fn links_lead_through_the_proxy_that_is_trusted() {
    let server = behind(&["127.0.0.0/8"], "").await;
    let new = json!({"image": "core"});
    for (head, body, path) in [
        ("POST /v1/sessions", &new, "/tools/belljar/v1/sessions/"),
        ("POST /api/kernels", &json!({"name": "python3"}), "/tools/belljar/api/kernels/"),
    ] {
        let answer = ask(&server, head, PREFIX, body).await;
        assert!(location(&answer).starts_with(path), "{answer}");
    }
    let answer = ask(&server, "GET /v1/openapi.json", PREFIX, &Value::Null).await;
    assert_eq!(servers(&answer), json!([{"url": "/tools/belljar"}]));
    let page = ask(&server, "GET /v1/docs", PREFIX, &Value::Null).await;
    assert!(page.contains("href=\"openapi.json\"") && !page.contains("href=\"/"), "{page:.2000}");
    let answer = ask(&server, "GET /v1/openapi.json", "", &Value::Null).await;
    assert_eq!(servers(&answer), json!([{"url": "/"}]));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_nobody_vouches_for_is_not_believed() {
    let new = json!({"image": "core"});
    for proxies in [&[][..], &["10.0.0.0/8"], &["unix"]] {
        let server = behind(proxies, "").await;
        let answer = ask(&server, "POST /v1/sessions", PREFIX, &new).await;
        assert!(location(&answer).starts_with("/v1/sessions/"), "{answer}");
    }
    let server = behind(&["127.0.0.1"], "").await;
    for prefix in ["//evil.example", "https://evil.example", "/a\"b", "a"] {
        let prefix = format!("X-Forwarded-Prefix: {prefix}\r\n");
        let answer = ask(&server, "POST /v1/sessions", &prefix, &new).await;
        assert!(location(&answer).starts_with("/v1/sessions/"), "{answer}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_base_path_lies_below_the_prefix() {
    let server = behind(&["127.0.0.1"], "/belljar").await;
    let new = json!({"image": "core"});
    let answer = ask(&server, "POST /belljar/v1/sessions", "", &new).await;
    let path = location(&answer).to_owned();
    assert!(path.starts_with("/belljar/v1/sessions/"), "{answer}");
    assert_eq!(server.client.get(&path).await.status, StatusCode::OK);
    let prefix = "X-Forwarded-Prefix: /tools\r\n";
    let answer = ask(&server, "POST /belljar/v1/sessions", prefix, &new).await;
    assert!(location(&answer).starts_with("/tools/belljar/v1/sessions/"), "{answer}");
    let answer = ask(&server, "GET /belljar/v1/openapi.json", prefix, &Value::Null).await;
    assert_eq!(servers(&answer), json!([{"url": "/tools/belljar"}]));
    let answer = ask(&server, "POST /belljar/api/kernels", "", &json!({})).await;
    assert!(location(&answer).starts_with("/belljar/api/kernels/"), "{answer}");
    assert_eq!(server.client.get("/v1/sessions").await.problem(), "no_route");
}

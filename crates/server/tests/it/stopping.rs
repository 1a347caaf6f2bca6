//! Shutdown of a server.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::{Started, start};

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_ends_lets_runs_end_and_begins_none() {
    let mut server = start().await;
    let mut idle = TcpStream::connect(server.address).await.unwrap();
    let mut stream =
        begin(&server, &json!({"code": "import time; time.sleep(0.5); print('done')"})).await;
    server.stop();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.contains("done\\n"), "{answer}");
    let ended = tokio::time::timeout(Duration::from_secs(3), &mut server.running).await;
    ended.expect("the idle connection is not waited for").unwrap();
    let mut rest = Vec::new();
    idle.read_to_end(&mut rest).await.unwrap();
    assert!(rest.is_empty());
    let answer = server.client.post("/v1/runs", &json!({"code": "1"})).await;
    assert_eq!((answer.status.as_u16(), answer.problem().as_str()), (503, "stopping"));
    assert!(TcpStream::connect(server.address).await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_does_not_end_in_time_is_interrupted() {
    let mut server = start().await;
    let mut stream = begin(&server, &json!({"code": "while True: pass", "timeout": 600})).await;
    server.stop();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.contains("\"kind\":\"interrupted\""), "{answer}");
    server.running.await.unwrap();
}

/// A connection with a run in progress.
async fn begin(server: &Started, body: &Value) -> TcpStream {
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    let body = body.to_string();
    let request = format!(
        "POST /v1/runs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    while server.service.under_way() == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    stream
}

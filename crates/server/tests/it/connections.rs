//! Connections are counted until they end, also those that became WebSockets.

use std::time::Duration;

use belljar_server::{Key, KeyLimits};
use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::{self, Message};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream};

use crate::support::{Client, Keyed, Started, everything, start_keyed};

type Socket = WebSocketStream<MaybeTlsStream<TcpStream>>;

const LONG: Duration = Duration::from_secs(30);

pub async fn socket(
    server: &Started,
    client: &Client,
    path: &str,
) -> Result<Socket, tungstenite::Error> {
    let mut request = format!("ws://{}{path}", server.address).into_client_request().unwrap();
    let key = format!("Bearer {}", client.key.as_ref().unwrap());
    request.headers_mut().insert("authorization", key.parse().unwrap());
    Ok(tokio_tungstenite::connect_async(request).await?.0)
}

async fn two() -> Keyed<2> {
    let accounts = ["a", "b"].map(|name| (name, KeyLimits::default()));
    start_keyed(accounts, everything(), |server| server).await
}

/// A key that opens socket after socket gets its share of them, and leaves the rest to others.
#[tokio::test(flavor = "multi_thread")]
async fn sockets_of_one_key_are_bounded() {
    let Keyed {
        server, clients, ..
    } = two().await;
    let [a, b] = &clients;
    let path = format!("/v1/sessions/{}/terminal", a.session(&json!({"image": "core"})).await);
    let (mut open, mut refused) = (Vec::new(), 0);
    for n in 0..5_000 {
        match socket(&server, a, &path).await {
            Ok(socket) => open.push(socket),
            Err(tungstenite::Error::Http(answer)) => {
                assert_eq!(answer.status(), 429, "after {n}");
                refused += 1;
            }
            Err(error) => panic!("after {n}: {error}"),
        }
    }
    assert_eq!((open.len(), refused), (512, 5_000 - 512));
    let theirs = format!("/v1/sessions/{}/terminal", b.session(&json!({"image": "core"})).await);
    let mut other = socket(&server, b, &theirs).await.unwrap();
    let run = json!({"id": 1, "type": "run", "code": "print(2)"}).to_string();
    other.send(Message::text(run)).await.unwrap();
    assert!(heard(&mut other, "outcome").await["success"].as_bool().unwrap());
    // A place is free again when its socket has ended.
    drop(open.pop());
    let again = async {
        while socket(&server, a, &path).await.is_err() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(LONG, again).await.expect("the place of a socket that ended");
}

/// The next message of a type.
pub async fn heard(socket: &mut Socket, kind: &str) -> Value {
    let next = async {
        loop {
            let message = socket.next().await.expect("it stays open").unwrap();
            let told: Value = serde_json::from_slice(&message.into_data()).unwrap_or_default();
            if told["type"] == kind {
                return told;
            }
        }
    };
    tokio::time::timeout(LONG, next).await.unwrap_or_else(|_| panic!("no {kind} came"))
}

/// Sockets and streams that are open when their key is revoked end, and those of others go on.
#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_is_revoked_ends_what_is_open() {
    let Keyed {
        server,
        clients,
        keys,
        made,
    } = two().await;
    let mut sockets = Vec::new();
    for client in &clients {
        let id = client.session(&json!({"image": "core"})).await;
        let path = format!("/v1/sessions/{id}/terminal");
        sockets.push(socket(&server, client, &path).await.unwrap());
    }
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    let body = json!({"code": "while True: pass", "timeout": 60, "image": "core"}).to_string();
    let request = format!(
        "POST /v1/runs HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\
         Authorization: Bearer {}\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n\r\n{body}",
        clients[0].key.as_ref().unwrap(),
        body.len()
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    while server.service.under_way() == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let (another, _) = Key::generate("a", KeyLimits::default()).unwrap();
    keys.replace(vec![another, made[1].clone()]);
    let mut rest = Vec::new();
    let ended = tokio::time::timeout(LONG, stream.read_to_end(&mut rest)).await;
    assert!(ended.is_ok(), "the stream of events goes on");
    let ended = async { while matches!(sockets[0].next().await, Some(Ok(_))) {} };
    tokio::time::timeout(LONG, ended).await.expect("the socket is open still");
    // Its run has been interrupted.
    let idle = async {
        while server.service.under_way() > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(LONG, idle).await.expect("a run goes on");
    let run = json!({"id": 1, "type": "run", "code": "1"}).to_string();
    sockets[1].send(Message::text(run)).await.unwrap();
    heard(&mut sockets[1], "outcome").await;
}

/// What a client asks while a run waits for input does not keep the answer from being read.
#[tokio::test(flavor = "multi_thread")]
async fn a_question_does_not_hold_up_an_answer() {
    let Keyed {
        server, clients, ..
    } = two().await;
    let path =
        format!("/v1/sessions/{}/terminal", clients[0].session(&json!({"image": "core"})).await);
    let mut socket = socket(&server, &clients[0], &path).await.unwrap();
    let mut say = async |what: Value| {
        socket.send(Message::text(what.to_string())).await.unwrap();
    };
    say(json!({"id": 1, "type": "run", "code": "x = input()"})).await;
    say(json!({"id": 2, "type": "complete", "code": "pri", "cursor": 3})).await;
    say(json!({"id": 3, "type": "is_complete", "code": "if 1:"})).await;
    heard(&mut socket, "input").await;
    let answer = json!({"type": "input", "text": "y"}).to_string();
    socket.send(Message::text(answer)).await.unwrap();
    assert_eq!(heard(&mut socket, "outcome").await["success"], true);
    assert_eq!(heard(&mut socket, "completion").await["id"], 2);
    assert_eq!(heard(&mut socket, "completeness").await["status"], "incomplete");
}

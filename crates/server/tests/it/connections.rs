//! Connections, including WebSockets, count against limits until they end.

use std::sync::Arc;
use std::time::Duration;

use belljar_server::{Key, KeyLimits};
use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::{self, Message};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream};

use crate::bodies::resident;
use crate::support::{Client, Keyed, Started, alone, everything, reactor, start_keyed};

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

/// A key can open only its share of WebSockets; the rest remains for others.
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
    // Closing a WebSocket releases its permit.
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
            assert_ne!(told["type"], "problem", "{told}");
        }
    };
    tokio::time::timeout(LONG, next).await.unwrap_or_else(|_| panic!("no {kind} came"))
}

/// Begins a request for a run that does not end.
async fn begin(server: &Started, client: &Client, path: &str, headers: &str) -> TcpStream {
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    let body = json!({"code": "while True: pass", "timeout": 60, "image": "core"}).to_string();
    let request = format!(
        "POST {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\n{headers}\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        client.key.as_ref().unwrap(),
        body.len()
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    stream
}

/// Revoking a key ends its open WebSockets and streams, and no others.
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
    let mut stream = begin(&server, &clients[0], "/v1/runs", "Accept: text/event-stream\r\n").await;
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
    // Its run was interrupted.
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

/// Revoking a key also ends runs whose responses have not begun.
#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_is_revoked_ends_what_is_not_answered_yet() {
    let Keyed {
        server,
        clients,
        keys,
        made,
    } = two().await;
    let mut streams = Vec::new();
    for (path, headers) in [("/v1/runs", ""), ("/v1/sessions", "Idempotency-Key: once\r\n")] {
        streams.push(begin(&server, &clients[0], path, headers).await);
    }
    while server.service.under_way() < streams.len() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    keys.replace(vec![made[1].clone()]);
    for mut stream in streams {
        let mut head = [0; 12];
        let read = tokio::time::timeout(LONG, stream.read_exact(&mut head)).await;
        read.expect("the request goes on").unwrap();
        assert_eq!(&head, b"HTTP/1.1 401");
    }
    let idle = async {
        while server.service.under_way() > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(LONG, idle).await.expect("a run goes on");
}

/// Queries during a run that waits for input do not block the input.
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

/// Unfinished messages stay within the body memory in every face, and leave memory for others.
#[test]
fn unfinished_messages_take_no_more_than_the_budget() {
    alone("connections::unfinished_messages_take_no_more_than_the_budget", || {
        reactor().block_on(unfinished());
    });
}

async fn unfinished() {
    const LENGTH: usize = 4 << 20;
    let mut settings = everything();
    (settings.body_bytes, settings.body_memory) = (LENGTH, 16 << 20);
    let accounts = ["a", "b"].map(|name| (name, KeyLimits::default()));
    let Keyed {
        server, clients, ..
    } = start_keyed(accounts, settings, |server| server).await;
    let [a, b] = &clients;
    let (status, kernel) = server.ask(a, "POST", "/api/kernels", &json!({})).await;
    assert_eq!(status, 201, "{kernel}");
    let notebook = format!("/api/kernels/{}/channels", kernel["id"].as_str().unwrap());
    let prompt = format!("/v1/sessions/{}/terminal", a.session(&json!({"image": "core"})).await);
    let payload: Arc<[u8]> = vec![b' '; LENGTH - 1].into();
    let before = resident();
    let mut sending = Vec::new();
    for n in 0..40 {
        let path = if n % 2 == 0 { &prompt } else { &notebook };
        let mut socket = socket(&server, a, path).await.unwrap();
        let payload = Arc::clone(&payload);
        sending.push(tokio::spawn(async move {
            let stream = socket.get_mut();
            // Text in one frame, masked with zeros.
            let mut head = vec![0x81, 0xff];
            head.extend((LENGTH as u64).to_be_bytes());
            head.extend([0; 4]);
            let _ = stream.write_all(&head).await;
            let _ = stream.write_all(&payload).await;
            socket
        }));
    }
    tokio::time::sleep(Duration::from_secs(2)).await;
    let taken = resident() - before;
    println!("unfinished messages take {} MiB", taken >> 20);
    // The share of one key, plus the memory of the sockets themselves.
    assert!(taken < 32 << 20, "{} MiB", taken >> 20);
    let path = format!("/v1/sessions/{}/terminal", b.session(&json!({"image": "core"})).await);
    let mut other = socket(&server, b, &path).await.unwrap();
    let run = json!({"id": 1, "type": "run", "code": "1", "pad": " ".repeat(1 << 20)});
    other.send(Message::text(run.to_string())).await.unwrap();
    heard(&mut other, "outcome").await;
    // Ending unfinished messages releases their memory.
    for one in sending {
        one.abort();
    }
    // The server still reads data already sent, so this may take as long as a wait for memory.
    let again = async {
        loop {
            let mut again = socket(&server, a, &prompt).await.unwrap();
            if again.send(Message::text(run.to_string())).await.is_err() {
                continue;
            }
            while let Some(Ok(message)) = again.next().await {
                if message.to_text().is_ok_and(|text| text.contains("\"outcome\"")) {
                    return;
                }
            }
        }
    };
    tokio::time::timeout(2 * LONG, again).await.expect("the room of messages that were given up");
}

/// Requests queued for kernels use body memory, of which a key has one share for all its kernels.
#[tokio::test(flavor = "multi_thread")]
async fn what_waits_for_kernels_has_room_in_the_budget_of_bodies() {
    let mut settings = everything();
    (settings.body_bytes, settings.body_memory) = (2 << 20, 4 << 20);
    let accounts = [("a", KeyLimits::default())];
    let Keyed {
        server, clients, ..
    } = start_keyed(accounts, settings, |server| server).await;
    let [a] = &clients;
    let (status, kernel) = server.ask(a, "POST", "/api/kernels", &json!({})).await;
    assert_eq!(status, 201, "{kernel}");
    let path = format!("/api/kernels/{}/channels", kernel["id"].as_str().unwrap());
    let mut socket = socket(&server, a, &path).await.unwrap();
    let ask = |kind: &str, channel: &str, code: &str| {
        let header = json!({"msg_id": code.get(..9).unwrap_or("interrupt"), "msg_type": kind, "session": "s",
            "username": "u", "date": "2026-01-01T00:00:00Z", "version": "5.3"});
        let message = json!({"header": header, "parent_header": {}, "metadata": {},
            "content": {"code": code}, "channel": channel});
        Message::text(message.to_string())
    };
    let long = "#".repeat(900 << 10);
    let said = [("print('go')\nwhile True: pass", "stream"), (&long, ""), (&long, "QueueFull")];
    for (code, answer) in said {
        socket.send(ask("execute_request", "shell", code)).await.unwrap();
        if !answer.is_empty() {
            told(&mut socket, answer).await;
        }
    }
    // An interrupt gets through anyway.
    socket.send(ask("interrupt_request", "control", "")).await.unwrap();
    told(&mut socket, "KeyboardInterrupt").await;
}

/// Waits for a kernel's message that contains a text.
async fn told(socket: &mut Socket, what: &str) {
    let heard = async {
        while let Some(message) = socket.next().await {
            if message.unwrap().to_text().is_ok_and(|text| text.contains(what)) {
                return;
            }
        }
        panic!("the socket has ended");
    };
    tokio::time::timeout(LONG, heard).await.expect(what);
}

/// A key can keep only its share of connections; the rest remains for others.
#[tokio::test(flavor = "multi_thread")]
async fn plain_connections_of_one_key_are_bounded() {
    const MOST: usize = 1024;
    let Keyed {
        server, clients, ..
    } = two().await;
    let request = |client: &Client| {
        let key = client.key.as_ref().unwrap();
        format!(
            "GET /v1/sessions HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {key}\r\n\r\n"
        )
    };
    let ask = async |stream: &mut TcpStream, client: &Client| {
        stream.write_all(request(client).as_bytes()).await.unwrap();
        let mut answer = vec![0; 4096];
        let read = stream.read(&mut answer).await.unwrap();
        String::from_utf8_lossy(&answer[..read]).into_owned()
    };
    let mut open = Vec::new();
    for n in 0..MOST {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        let answer = ask(&mut stream, &clients[0]).await;
        assert!(answer.starts_with("HTTP/1.1 200"), "{n}: {answer}");
        open.push(stream);
    }
    for _ in 0..20 {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        let answer = ask(&mut stream, &clients[0]).await.to_lowercase();
        assert!(answer.starts_with("http/1.1 429"), "{answer}");
        assert!(answer.contains("connection: close") && answer.contains("retry-after: 1"));
    }
    // Open connections stay usable. If another owner uses one, it counts for that owner.
    assert!(ask(&mut open[0], &clients[0]).await.starts_with("HTTP/1.1 200"));
    assert!(ask(&mut open[0], &clients[1]).await.starts_with("HTTP/1.1 200"));
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    assert!(ask(&mut stream, &clients[0]).await.starts_with("HTTP/1.1 200"));
    // Closing a connection releases its permit.
    drop(open);
    let again = async {
        loop {
            let mut stream = TcpStream::connect(server.address).await.unwrap();
            if ask(&mut stream, &clients[0]).await.starts_with("HTTP/1.1 200") {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(LONG, again).await.expect("the place of a connection that ended");
}

//! The terminal of a session over a WebSocket.

use belljar_server::Settings;
use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message;

use crate::support::{Started, start, start_with};

type Socket =
    tokio_tungstenite::WebSocketStream<tokio_tungstenite::MaybeTlsStream<tokio::net::TcpStream>>;

async fn connect(server: &Started, id: &str) -> Socket {
    let url = format!("ws://{}/v1/sessions/{id}/terminal", server.address);
    tokio_tungstenite::connect_async(url).await.unwrap().0
}

async fn say(socket: &mut Socket, what: Value) {
    socket.send(Message::text(what.to_string())).await.unwrap();
}

/// The next message of a type.
async fn hear(socket: &mut Socket, kind: &str) -> Value {
    loop {
        let message = socket.next().await.expect("it stays open").unwrap();
        let told: Value = serde_json::from_str(message.to_text().unwrap()).unwrap();
        if told["type"] == kind {
            return told;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_prompt_runs_asks_and_completes() {
    let server = start().await;
    let id = server.client.session(&json!({"image": "core"})).await;
    let mut socket = connect(&server, &id).await;
    say(&mut socket, json!({"id": 1, "type": "run", "code": "who = input('Who? ')\nwho * 2"}))
        .await;
    let asked = hear(&mut socket, "input").await;
    assert_eq!((&asked["id"], &asked["prompt"]), (&json!(1), &json!("Who? ")));
    say(&mut socket, json!({"type": "input", "text": "Ada"})).await;
    let result = hear(&mut socket, "result").await;
    assert_eq!(result["data"]["text/plain"], "'AdaAda'");
    assert_eq!(hear(&mut socket, "outcome").await["success"], true);
    say(&mut socket, json!({"id": "c", "type": "complete", "code": "wh", "cursor": 2})).await;
    let found = hear(&mut socket, "completion").await;
    assert_eq!((&found["id"], &found["matches"]), (&json!("c"), &json!(["while", "who"])));
    say(&mut socket, json!({"type": "nonsense"})).await;
    assert_eq!(hear(&mut socket, "problem").await["code"], "bad_message");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_prompt_is_interrupted_by_a_message_and_by_leaving() {
    let server = start().await;
    let id = server.client.session(&json!({"image": "core"})).await;
    let mut socket = connect(&server, &id).await;
    let endless = json!({"id": 1, "type": "run", "code": "x = 7\nprint('go')\nwhile True: pass"});
    say(&mut socket, endless.clone()).await;
    hear(&mut socket, "stdout").await;
    say(&mut socket, json!({"type": "interrupt"})).await;
    let outcome = hear(&mut socket, "outcome").await;
    assert_eq!(outcome["error_detail"]["kind"], "interrupted");
    say(&mut socket, endless).await;
    hear(&mut socket, "stdout").await;
    drop(socket);
    // It runs after the previous run has ended.
    let outcome = server.client.run(&id, "x").await;
    assert_eq!((&outcome["stdout"], &outcome["execution"]), (&json!("7\n"), &json!(3)));
}

/// Sixty-four messages of any length could be queued on each socket.
#[tokio::test(flavor = "multi_thread")]
async fn what_waits_has_room_in_the_budget_of_bodies() {
    let mut settings = Settings::default();
    (settings.body_bytes, settings.body_memory) = (2 << 20, 4 << 20);
    let server = start_with(settings).await;
    let id = server.client.session(&json!({"image": "core"})).await;
    let mut socket = connect(&server, &id).await;
    let run = |id: u8, code: &str| json!({"id": id, "type": "run", "code": code});
    say(&mut socket, run(1, "print('go')\nwhile True: pass")).await;
    hear(&mut socket, "stdout").await;
    let long = format!("x = {:?}", "x".repeat(900 << 10));
    for n in 2..=3 {
        say(&mut socket, run(n, &long)).await;
    }
    let problem = hear(&mut socket, "problem").await;
    assert_eq!((&problem["id"], &problem["code"]), (&json!(3), &json!("busy")), "{problem}");
    say(&mut socket, json!({"type": "interrupt"})).await;
    for n in 1..=2 {
        let outcome = hear(&mut socket, "outcome").await;
        assert_eq!((&outcome["id"], &outcome["success"]), (&json!(n), &json!(n > 1)));
    }
    // Finished runs hold no memory.
    say(&mut socket, run(5, &long)).await;
    assert_eq!(hear(&mut socket, "outcome").await["id"], 5);
}

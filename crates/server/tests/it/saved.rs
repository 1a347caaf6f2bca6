//! Sessions over a restart, and servers that end while something runs on a socket.

use std::time::{Duration, Instant};

use belljar_server::{App, Key, KeyLimits, Keys, Service, router};
use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message;

use crate::connections::{heard, socket};
use crate::support::{Client, Keyed, engine, everything, start_keyed};

const GRACE: Duration = Duration::from_secs(1);

/// Whether the directory's sessions are there for a server that starts with it.
async fn reopened(dir: &std::path::Path) -> (Service, usize) {
    let service = Service::new(engine());
    let count = service.load(dir).await.unwrap();
    (service, count)
}

fn client_of(service: &Service, keys: &Keys, client: &Client) -> Client {
    let app = App::new(service.clone(), keys.clone(), everything());
    Client {
        router: router(app),
        key: client.key.clone(),
    }
}

/// A run on a socket is interrupted after the grace, and all sessions are saved.
#[tokio::test(flavor = "multi_thread")]
async fn a_run_on_a_socket_does_not_keep_sessions_from_being_saved() {
    let dir = tempfile::tempdir().unwrap();
    let Keyed {
        mut server,
        clients,
        keys,
        ..
    } = start_keyed([("a", KeyLimits::default())], everything(), |server| {
        server.grace(GRACE).state(dir.path())
    })
    .await;
    let [a] = &clients;
    let quiet = a.session(&json!({"image": "core"})).await;
    a.run(&quiet, "x = 1").await;
    let busy = a.session(&json!({"image": "core"})).await;
    let path = format!("/v1/sessions/{busy}/terminal");
    let mut terminal = socket(&server, a, &path).await.unwrap();
    let mut idle = socket(&server, a, &path).await.unwrap();
    let code = "y = 2\nprint('go')\nwhile True: pass";
    let run = json!({"id": 1, "type": "run", "code": code, "timeout": 300}).to_string();
    terminal.send(Message::text(run)).await.unwrap();
    heard(&mut terminal, "stdout").await;
    let (status, kernel) = server.ask(a, "POST", "/api/kernels", &json!({})).await;
    assert_eq!(status, 201, "{kernel}");
    let kernel = kernel["id"].as_str().unwrap().to_owned();
    let mut notebook =
        socket(&server, a, &format!("/api/kernels/{kernel}/channels")).await.unwrap();
    let execute = json!({
        "channel": "shell", "content": {"code": "z = 3\nwhile True: pass", "silent": false},
        "header": {"msg_id": "1", "msg_type": "execute_request", "session": "s", "version": "5.3"},
        "parent_header": {}, "metadata": {},
    });
    notebook.send(Message::text(execute.to_string())).await.unwrap();
    while server.service.under_way() < 2 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let since = Instant::now();
    server.stop();
    // A socket on which nothing runs is closed at once.
    let closed = async { while matches!(idle.next().await, Some(Ok(_))) {} };
    closed.await;
    // The client that waits for its run is told how it ended.
    let outcome = heard(&mut terminal, "outcome").await;
    assert_eq!(outcome["error_detail"]["kind"], "interrupted", "{outcome}");
    (&mut server.running).await.unwrap();
    let took = since.elapsed();
    assert!(took < GRACE + Duration::from_secs(10), "{took:?}");
    println!("the server ended after {took:?}");
    let (service, count) = reopened(dir.path()).await;
    assert_eq!(count, 3);
    let again = client_of(&service, &keys, a);
    for (id, code, value) in
        [(&quiet, "print(x)", "1\n"), (&busy, "print(y)", "2\n"), (&kernel, "print(z)", "3\n")]
    {
        assert_eq!(again.run(id, code).await["stdout"], value, "{id}");
    }
    service.close_all();
}

/// A kernel goes on after a restart, under the id that its clients know.
#[tokio::test(flavor = "multi_thread")]
async fn a_kernel_is_found_again() {
    let dir = tempfile::tempdir().unwrap();
    let (key, text) = Key::generate("a", KeyLimits::default()).unwrap();
    let start = async || {
        let keys = Keys::of(vec![key.clone()]);
        crate::support::start_as(keys, &text, |server| server.grace(GRACE).state(dir.path())).await
    };
    let (mut server, a) = start().await;
    let (_, kernel) = server.ask(&a, "POST", "/api/kernels", &json!({})).await;
    let path = format!("/api/kernels/{}", kernel["id"].as_str().unwrap());
    server.stop();
    (&mut server.running).await.unwrap();
    let (server, a) = start().await;
    let (_, found) = server.ask(&a, "GET", &path, &Value::Null).await;
    assert_eq!(found["id"], kernel["id"], "{found}");
    let (_, listed) = server.ask(&a, "GET", "/api/kernels", &Value::Null).await;
    assert_eq!(listed.as_array().unwrap().len(), 1);
    assert_eq!(server.ask(&a, "DELETE", &path, &Value::Null).await.0, 204);
    let (_, left) = server.ask(&a, "GET", "/v1/sessions", &Value::Null).await;
    assert_eq!(left["sessions"], json!([]));
}

/// A session that cannot be restored now is there for a later start, however many there are in between.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_cannot_be_restored_is_kept() {
    let dir = tempfile::tempdir().unwrap();
    let Keyed {
        mut server,
        clients,
        keys,
        ..
    } = start_keyed([("a", KeyLimits::default())], everything(), |server| server.state(dir.path()))
        .await;
    let [a] = &clients;
    let (one, two) =
        (a.session(&json!({"image": "core"})).await, a.session(&json!({"image": "core"})).await);
    a.run(&one, "x = 1").await;
    server.stop();
    (&mut server.running).await.unwrap();
    let file = dir.path().join(format!("{one}.belljar"));
    let content = std::fs::read(&file).unwrap();
    std::fs::write(&file, "damaged").unwrap();
    for _ in 0..2 {
        let (service, count) = reopened(dir.path()).await;
        assert_eq!(count, 1);
        let again = client_of(&service, &keys, a);
        assert_eq!(again.get(&format!("/v1/sessions/{two}")).await.status, 200);
        service.save(dir.path(), Instant::now() + Duration::from_secs(30)).await.unwrap();
        service.close_all();
    }
    std::fs::write(&file, content).unwrap();
    let (service, count) = reopened(dir.path()).await;
    assert_eq!(count, 2);
    let again = client_of(&service, &keys, a);
    assert_eq!(again.run(&one, "print(x)").await["stdout"], "1\n");
    service.close_all();
}

//! Operating a server: health, metrics, origins, key rotation and persistent sessions.

use std::time::Duration;

use axum::body::Body;
use axum::http::Request;
use belljar_server::{App, Key, KeyLimits, Keys, Server, Service, Settings, keyfile, router};
use serde_json::json;

use crate::support::{Client, engine, open, with_keys};

#[tokio::test(flavor = "multi_thread")]
async fn a_server_says_how_it_is() {
    let [client] = with_keys([("one", KeyLimits::default())]);
    client.post("/v1/runs", &json!({"code": "1/0"})).await;
    client.post("/v1/runs", &json!({"code": "1", "timeout": 1e9})).await;
    let figures = client.get("/metrics").await;
    let text = figures.text();
    for line in [
        "belljar_runs_total{kind=\"exception\"} 1",
        "belljar_refusals_total{code=\"refused\"} 1",
        "belljar_runs_under_way 0",
        "belljar_run_seconds_count 1",
        "# EOF",
    ] {
        assert!(text.contains(line), "{line} is not in\n{text}");
    }
    let mut nobody = client.clone();
    nobody.key = None;
    assert_eq!(nobody.get("/readyz").await.text(), "ready\n");
    assert_eq!(nobody.get("/healthz").await.text(), "ok\n");
    assert_eq!(nobody.get("/metrics").await.problem(), "no_key");
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_of_others_are_kept_out() {
    let client = open();
    let ask = async |headers: &[(&str, &str)]| client.ask("GET", "/v1/sessions", headers).await;
    for headers in [
        &[("host", "127.0.0.1:3000")][..],
        &[("host", "localhost:3000"), ("origin", "http://localhost:3000")],
    ] {
        assert_eq!(ask(headers).await.status, 200, "{headers:?}");
    }
    let answer = ask(&[("host", "evil.example:3000")]).await;
    assert_eq!((answer.status.as_u16(), answer.problem().as_str()), (403, "foreign_host"));
    for origin in ["http://evil.example", "null", "http://localhost:3001", ""] {
        let answer = ask(&[("host", "localhost:3000"), ("origin", origin)]).await;
        assert_eq!(answer.problem(), "foreign_origin", "{origin}");
    }
    // With keys, a page that reaches the server by DNS rebinding cannot authenticate.
    let [client] = with_keys([("one", KeyLimits::default())]);
    let answer = client.ask("GET", "/v1/sessions", &[("host", "belljar.example")]).await;
    assert_eq!(answer.status, 200, "{answer}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_creation_that_is_sent_again_makes_nothing_again() {
    let [one, two] = with_keys([("one", KeyLimits::default()), ("two", KeyLimits::default())]);
    let create = async |client: &Client, key: &str, body: &str| {
        let request = Request::post("/v1/sessions")
            .header("content-type", "application/json")
            .header("idempotency-key", key);
        client.send(request.body(Body::from(body.to_owned())).unwrap()).await
    };
    let refused = create(&one, "k", r#"{"image": 1}"#).await;
    assert_eq!(refused.status, 422);
    let first = create(&one, "k", r#"{"image": "core"}"#).await;
    let again = create(&one, "k", r#"{"image": "core"}"#).await;
    assert_eq!((first.status.as_u16(), again.status.as_u16()), (201, 201));
    assert_eq!(first.json()["id"], again.json()["id"]);
    assert_eq!(again.headers["idempotent-replayed"], "true");
    let other = create(&one, "l", r#"{"image": "core"}"#).await;
    let theirs = create(&two, "k", r#"{"image": "core"}"#).await;
    assert_ne!(other.json()["id"], first.json()["id"]);
    assert_ne!(theirs.json()["id"], first.json()["id"]);
}

/// One path per interface. The first four interfaces are enabled by default.
const PATHS: [(&str, &str); 11] = [
    ("v1", "/v1/images"),
    ("console", "/console/app.js"),
    ("e2b", "/sandboxes"),
    ("mcp", "/mcp"),
    ("jupyter", "/api/kernelspecs"),
    ("dify", "/v1/sandbox/dependencies"),
    ("piston", "/api/v2/runtimes"),
    ("judge0", "/judge0/about"),
    ("sandbox-fusion", "/v1/ping"),
    ("librechat", "/librechat/files/s"),
    ("openai", "/v1/containers"),
];

#[tokio::test(flavor = "multi_thread")]
async fn an_interface_answers_where_it_was_chosen_and_no_other_does() {
    let standard = ["v1", "console", "e2b", "mcp", "jupyter"];
    let mut choices = vec![(Settings::default(), standard.to_vec())];
    for (name, _) in PATHS {
        let mut settings = Settings::default();
        settings.faces = name.parse().unwrap();
        choices.push((settings, vec![name]));
    }
    for (settings, on) in choices {
        let client = Client {
            router: router(App::new(Service::new(engine()), Keys::none(), settings)),
            key: None,
        };
        for (name, path) in PATHS {
            let is_there = client.get(path).await.status != 404;
            assert_eq!(is_there, on.contains(&name), "{path} of {on:?}");
        }
        assert_eq!(client.get("/healthz").await.status, 200);
        // If E2B is enabled, requests that name a sandbox go to no other interface.
        let answer = client.ask("GET", "/healthz", &[("e2b-sandbox-id", "x")]).await;
        assert_eq!(answer.status == 200, !on.contains(&"e2b"), "{on:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_has_an_id() {
    let client = open();
    let answer = client.ask("GET", "/healthz", &[("x-request-id", "mine")]).await;
    assert_eq!(answer.headers["x-request-id"], "mine");
    assert!(client.get("/healthz").await.headers["x-request-id"].len() > 20);
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_lies_below_the_base_path() {
    let mut settings = Settings::default();
    settings.base_path = "/belljar".into();
    let client = Client {
        router: router(App::new(Service::new(engine()), Keys::none(), settings)),
        key: None,
    };
    let answer = client.post("/belljar/v1/sessions", &json!({"image": "core"})).await;
    let path = answer.headers["location"].to_str().unwrap().to_owned();
    assert!(path.starts_with("/belljar/v1/sessions/"), "{path}");
    assert_eq!(client.get(&path).await.status, 200);
    assert_eq!(client.get("/v1/sessions").await.status, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_stay_over_a_restart_and_belong_to_whom_they_did() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state");
    let (key, text) = Key::generate("one", KeyLimits::default()).unwrap();
    let start = async || {
        let service = Service::new(belljar::Runtime::builder().environment().build().unwrap());
        let app = App::new(service, Keys::of(vec![key.clone()]), Settings::default());
        let client = Client {
            router: router(app.clone()),
            key: Some(text.clone()),
        };
        let address = std::net::SocketAddr::from(([127, 0, 0, 1], 0));
        let server = Server::bind(app, address).await.unwrap().state(&state);
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        let running = tokio::spawn(server.run(async { drop(stopped.await) }));
        (client, stop, running)
    };
    let (client, stop, running) = start().await;
    let asked = json!({"image": "core", "name": "mine", "labels": {"a": "b"}, "code": "x = 40",
                       "lease": {"seconds": 600, "then": "suspend"}});
    let id = client.session(&asked).await;
    client.run(&id, "x += 2").await;
    drop(stop);
    running.await.unwrap().unwrap();
    assert!(state.join(format!("{id}.belljar")).exists());
    let (client, stop, running) = start().await;
    let found = loop {
        let found = client.get("/v1/sessions/mine").await;
        if found.status == 200 {
            break found.json();
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    };
    assert_eq!((&found["id"], &found["labels"]["a"]), (&json!(id), &json!("b")));
    assert!(found["lease_seconds"].as_f64().unwrap() > 500.0, "{found}");
    assert_eq!(client.run(&id, "x").await["stdout"], "42\n");
    assert!(!state.join(format!("{id}.belljar")).exists());
    drop(stop);
    running.await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_that_change_are_read_again() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("keys.toml");
    let (one, text) = Key::generate("one", KeyLimits::default()).unwrap();
    keyfile::add(&file, &one).unwrap();
    let app = App::new(
        Service::new(engine()),
        Keys::of(keyfile::read(&file).unwrap()),
        Settings::default(),
    );
    let mut client = Client {
        router: router(app.clone()),
        key: Some(text),
    };
    let address = std::net::SocketAddr::from(([127, 0, 0, 1], 0));
    let server = Server::bind(app, address).await.unwrap().keys(&file);
    let running = tokio::spawn(server.run(std::future::pending()));
    assert_eq!(client.get("/v1/sessions").await.status, 200);
    let (two, text) = Key::generate("two", KeyLimits::default()).unwrap();
    keyfile::add(&file, &two).unwrap();
    client.key = Some(text);
    for _ in 0..100 {
        if client.get("/v1/sessions").await.status == 200 {
            running.abort();
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("the new key is not known");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_unix_socket_is_its_users_alone() {
    use std::os::unix::fs::PermissionsExt;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let mut settings = Settings::default();
    settings.is_unix = true;
    let bind = async || {
        let app = App::new(Service::new(engine()), Keys::none(), settings.clone());
        Server::bind(app, path.clone()).await
    };
    let server = bind().await.unwrap();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let running = tokio::spawn(server.run(async { drop(stopped.await) }));
    assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let mut stream = tokio::net::UnixStream::connect(&path).await.unwrap();
    let request = b"GET /v1/sessions HTTP/1.1\r\nHost: whatever\r\nConnection: close\r\n\r\n";
    stream.write_all(request).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert!(bind().await.is_err(), "a socket in use was taken");
    drop(stop);
    running.await.unwrap().unwrap();
    assert!(!path.exists());
    std::fs::write(&path, "something else").unwrap();
    assert!(bind().await.is_err(), "a file was replaced");
}

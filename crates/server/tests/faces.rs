//! The server without Python: requests to its interfaces, run by the guest of `tests/toy`.

#[path = "faces/containers.rs"]
mod containers;
#[path = "../../../tests/toy/guest.rs"]
mod guest;
#[path = "faces/process.rs"]
mod process;
#[path = "faces/streams.rs"]
mod streams;

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use belljar::Runtime;
use belljar::cluster::{NodeOptions, StoredSessions};
use belljar::store::MemoryStore;
use belljar_server::{App, Faces, Keys, Server, Service, Settings};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Starts a server on a free port.
async fn server() -> SocketAddr {
    serve(Service::new(runtime())).await
}

fn runtime() -> Runtime {
    Runtime::builder().bundle(guest::bundle()).build().unwrap()
}

async fn serve(service: Service) -> SocketAddr {
    let mut settings = Settings::default();
    settings.faces = Faces::all();
    let app = App::new(service, Keys::none(), settings);
    let server = Server::bind(app, SocketAddr::from(([127, 0, 0, 1], 0))).await.unwrap();
    let address = server.url().trim_start_matches("http://").parse().unwrap();
    tokio::spawn(server.run(std::future::pending()));
    address
}

/// Sends a request; status and body of the response.
async fn ask(server: SocketAddr, method: &str, path: &str, body: &Value) -> (u16, String) {
    let body = body.to_string();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: {server}\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    let mut stream = TcpStream::connect(server).await.unwrap();
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.write_all(body.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, body.to_owned())
}

/// The same with a body that must be JSON.
async fn post(server: SocketAddr, path: &str, body: Value) -> (u16, Value) {
    let (status, body) = ask(server, "POST", path, &body).await;
    (status, serde_json::from_str(&body).unwrap_or_else(|e| panic!("{path}: {status} {body}: {e}")))
}

#[tokio::test]
async fn the_server_is_ready_when_it_runs_code() {
    let server = server().await;
    for (path, answer) in [("/healthz", "ok\n"), ("/readyz", "ready\n")] {
        assert_eq!(ask(server, "GET", path, &Value::Null).await, (200, answer.to_owned()));
    }
}

#[tokio::test]
async fn runs_answer_with_their_outcome() {
    let server = server().await;
    let request =
        json!({"code": "read in\nprint\nwrite out x\nvalue [1]", "files": {"in": "text"}});
    let (status, outcome) = post(server, "/v1/runs", request).await;
    assert_eq!(
        (status, &outcome["stdout"], &outcome["result"]),
        (200, &json!("text\n"), &json!([1]))
    );
    assert_eq!(outcome["files"], json!([{"path": "out", "size": 1}]), "{outcome:#}");
    let (status, outcome) = post(server, "/v1/runs", json!({"code": "spin", "timeout": 0.1})).await;
    assert_eq!((status, &outcome["error_detail"]["kind"]), (200, &json!("timeout")));
    let (status, problem) = post(server, "/v1/runs", json!({"code": "spin", "timeout": 1e9})).await;
    assert_eq!((status, &problem["code"]), (422, &json!("refused")));
}

#[tokio::test]
async fn sessions_keep_their_state_between_requests() {
    let server = server().await;
    let (status, made) = post(server, "/v1/sessions", json!({})).await;
    assert_eq!(status, 201, "{made:#}");
    let session = format!("/v1/sessions/{}", made["id"].as_str().unwrap());
    let runs = format!("{session}/runs");
    for n in 1..4 {
        let (_, outcome) = post(server, &runs, json!({"code": "add a 1\nget a"})).await;
        assert_eq!(outcome["stdout"], format!("{n}\n"), "{outcome:#}");
    }
    let (_, outcome) = post(server, &runs, json!({"code": "add a 1\ntrap"})).await;
    assert_eq!(outcome["error_detail"]["kind"], "crash");
    assert_eq!(ask(server, "POST", &format!("{session}/suspend"), &json!({})).await.0 / 100, 2);
    let (_, outcome) = post(server, &runs, json!({"code": "get a"})).await;
    assert_eq!(outcome["stdout"], "3\n", "{outcome:#}");
    assert_eq!(ask(server, "DELETE", &session, &Value::Null).await.0 / 100, 2);
    assert_eq!(ask(server, "POST", &runs, &json!({"code": "get a"})).await.0, 404);
}

/// The fork waits for the run before it, and another run waits behind it.
#[tokio::test]
async fn a_fork_names_the_run_after_which_it_was_made() {
    let server = server().await;
    let (_, made) = post(server, "/v1/sessions", json!({})).await;
    let session = format!("/v1/sessions/{}", made["id"].as_str().unwrap());
    let run = |code: &str| {
        let (runs, request) = (format!("{session}/runs"), json!({"code": code}));
        tokio::spawn(async move { post(server, &runs, request).await })
    };
    let moment = || tokio::time::sleep(Duration::from_millis(100));
    let first = run("add a 1\nsleep 500");
    moment().await;
    let path = format!("{session}/fork");
    let fork = tokio::spawn(async move { post(server, &path, json!({})).await });
    moment().await;
    let second = run("add a 1");
    for run in [first, second] {
        assert_eq!(run.await.unwrap().1["success"], true);
    }
    let (status, fork) = fork.await.unwrap();
    assert_eq!(status, 201, "{fork:#}");
    let path = format!("/v1/sessions/{}/runs", fork["id"].as_str().unwrap());
    let (_, outcome) = post(server, &path, json!({"code": "get a"})).await;
    let runs = format!("{}\n", fork["parent"]["execution"]);
    assert_eq!(outcome["stdout"], runs, "{fork:#}");
}

#[tokio::test]
async fn a_path_that_is_not_utf_8_is_refused_in_the_format_of_its_face() {
    type IsOwn = fn(&Value) -> bool;
    let server = server().await;
    let message = |body: &Value| body["message"].is_string();
    let cases: [(&str, IsOwn); 8] = [
        ("/v1/containers/%FF", |body| {
            body["error"]["code"] == "bad_path"
                && body["error"]["type"] == "invalid_request_error"
                && body["error"]["param"].is_null()
        }),
        ("/v1/runs/%FF/files/a", |body| body["code"] == "bad_path" && body["status"] == 400),
        ("/sandboxes/%FF", |body| body["code"] == 400 && body["message"].is_string()),
        ("/filesystem.Filesystem/%FF", |body| body["code"] == "invalid_argument"),
        ("/api/kernels/%C3%28", message),
        ("/judge0/submissions/%FF", |body| body["error"].is_string()),
        ("/librechat/files/%FF", |body| body["error"].is_string()),
        ("/api/v2/%FF", message),
    ];
    for (path, is_own) in cases {
        let (status, body) = ask(server, "GET", path, &Value::Null).await;
        let json = serde_json::from_str(&body).unwrap_or_else(|_| panic!("{path}: {body}"));
        assert!(status == 400 && is_own(&json), "{path}: {status} {body}");
    }
    assert_eq!(ask(server, "GET", "/v1/runs/%C3%A4/files/a", &Value::Null).await.0, 404);
}

#[tokio::test]
async fn other_services_are_answered_in_their_own_form() {
    let server = server().await;
    let body = json!({"language": "python", "version": "*", "files": [{"content": "stdin"}], "stdin": "in"});
    let (status, answer) = post(server, "/api/v2/execute", body).await;
    assert_eq!((status, &answer["run"]["stdout"]), (200, &json!("in\n")), "{answer:#}");

    let body = json!({"language": "python3", "code": "print 1"});
    let (status, answer) = post(server, "/v1/sandbox/run", body).await;
    assert_eq!((status, &answer["data"]), (200, &json!({"stdout": "1\n", "error": ""})));

    let body = json!({"language": "python", "code": "print 1\nexit 3"});
    let (status, answer) = post(server, "/run_code", body).await;
    assert_eq!((status, &answer["run_result"]["return_code"]), (200, &json!(3)), "{answer:#}");

    let body = json!({"source_code": "print 1", "language_id": 71, "expected_output": "1"});
    let (status, answer) = post(server, "/judge0/submissions?wait=true", body).await;
    assert_eq!((status, &answer["status"]["id"]), (201, &json!(3)), "{answer:#}");
}

#[tokio::test]
async fn dashboard_and_alerts_ask_for_metrics_that_exist() {
    let runtime = runtime();
    let service = Service::builder(runtime.clone());
    let store = service.timed(Arc::new(MemoryStore::new()));
    let sessions = StoredSessions::new(runtime, store, NodeOptions::default()).unwrap();
    let server = serve(service.stored(sessions).build()).await;
    let (_, made) = post(server, "/v1/sessions", json!({})).await;
    let session = format!("/v1/sessions/{}", made["id"].as_str().unwrap());
    post(server, &format!("{session}/runs"), json!({"code": "print 1"})).await;
    post(server, "/v1/runs", json!({"code": "spin", "timeout": 1e9})).await;
    let (status, page) = ask(server, "GET", "/metrics", &Value::Null).await;
    assert_eq!(status, 200);
    for series in [
        "belljar_http_requests_total{method=\"POST\",route=\"/v1/sessions/{id}/runs\",status=\"200\"} 1",
        "belljar_http_requests_total{method=\"POST\",route=\"/v1/runs\",status=\"422\"} 1",
        "belljar_account_requests_total{account=\"local\",status=\"422\"} 1",
        "belljar_account_runs_total{account=\"local\",kind=\"success\"} 1",
        "belljar_queue_seconds_count 1",
        "belljar_start_seconds_count 1",
        "belljar_run_seconds_count 1",
    ] {
        assert!(page.lines().any(|line| line == series), "{series}\n{page}");
    }
    let (dashboard, alerts) = ("deploy/grafana.json", "deploy/alerts.yaml");
    for (file, least) in [(dashboard, 10), (alerts, 5)] {
        let path = format!("{}/../../{file}", env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read_to_string(path).unwrap();
        let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let words = text.split(|c| !is_part(c)).filter(|word| word.starts_with("belljar_"));
        let names: BTreeSet<&str> = words.map(family).collect();
        assert!(names.len() >= least, "{file}: {names:?}");
        for name in names {
            assert!(page.contains(&format!("# TYPE {name} ")), "{file}: no metric {name}");
        }
    }
    let dashboard = format!("{}/../../{dashboard}", env!("CARGO_MANIFEST_DIR"));
    serde_json::from_str::<Value>(&std::fs::read_to_string(dashboard).unwrap()).unwrap();
}

/// The family of a series.
fn family(series: &str) -> &str {
    let ends = ["_total", "_bucket", "_count", "_sum"];
    ends.into_iter().find_map(|end| series.strip_suffix(end)).unwrap_or(series)
}

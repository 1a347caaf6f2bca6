//! Cached objects: ownership, limits and transfer.

use std::time::Duration;

use axum::body::Body;
use axum::http::{Request, StatusCode};
use belljar_server::KeyLimits;
use http_body_util::BodyExt;
use serde_json::{Value, json};

use crate::place::{Place, answer};
use crate::support::with_keys;

fn limits(json: Value) -> KeyLimits {
    serde_json::from_value(json).unwrap()
}

/// Size of all caches in bytes.
fn kept(place: &Place) -> u64 {
    let figures = place.service.metrics();
    let line = figures.lines().find_map(|line| line.strip_prefix("belljar_kept_bytes "));
    line.unwrap_or_else(|| panic!("{figures}")).parse().unwrap()
}

fn zeros(bytes: usize) -> String {
    format!("[{}0]", "0,".repeat(bytes / 2))
}

/// Numbers in Judge0 submissions were not counted, and neither were they or LibreChat's files part
/// of `stored_bytes`.
#[tokio::test(flavor = "multi_thread")]
async fn what_every_interface_keeps_is_within_the_keys_limit() {
    const LIMIT: u64 = 3 << 20;
    let place = Place::limited(limits(json!({"stored_bytes": LIMIT})));
    let megabyte = "open('a.bin', 'wb').write(bytes(1 << 20))";
    let submission =
        format!(r#"{{"source_code": "1", "language_id": 71, "x": {}}}"#, zeros(1 << 20));
    let run = json!({"code": megabyte}).to_string();
    let exec = json!({"lang": "py", "code": megabyte, "runtime_session_hint": "h".repeat(1 << 20)});
    for (path, body) in [
        ("/judge0/submissions", submission),
        ("/v1/runs", run),
        ("/librechat/exec", exec.to_string()),
    ] {
        let mut seen = Vec::new();
        for _ in 0..5 {
            let (status, answer) = place.post(&place.one, path, body.clone()).await;
            assert!(status.is_success(), "{path}: {answer}");
            assert!(kept(&place) <= LIMIT, "{path}: {}", kept(&place));
            seen.push(answer);
        }
        assert!(kept(&place) > LIMIT / 2, "{path}: nothing is kept");
        let address = |answer: &Value| match path {
            "/judge0/submissions" => format!("{path}/{}", answer["token"].as_str().unwrap()),
            "/v1/runs" => format!("{path}/{}/files/a.bin", answer["run"].as_str().unwrap()),
            _ => {
                let files = answer["files"].as_array().unwrap();
                let file = files.iter().find(|file| file["name"] == "a.bin").unwrap();
                let text = |name: &str| file[name].as_str().unwrap();
                format!("/librechat/download/{}/{}", text("storage_session_id"), text("id"))
            }
        };
        let (status, _) = place.get(&place.one, &address(&seen[4])).await;
        assert_eq!(status, StatusCode::OK, "{path}: the latest");
        let (status, _) = place.get(&place.one, &address(&seen[0])).await;
        assert_eq!(status, StatusCode::NOT_FOUND, "{path}: the first");
    }
    // Other owners' objects do not count here.
    let before = kept(&place);
    place.json(&place.two, "/v1/runs", json!({"code": megabyte})).await;
    assert!(kept(&place) > before);
}

/// Half a gigabyte of values from 32 MiB of text.
#[tokio::test(flavor = "multi_thread")]
async fn bodies_of_nothing_but_values_are_refused() {
    let place = Place::new();
    let values = zeros(31 << 20);
    for (path, body) in [
        (
            "/judge0/submissions",
            format!(r#"{{"source_code": "1", "language_id": 71, "x": {values}}}"#),
        ),
        ("/api/v2/execute", format!(r#"{{"language": "py", "version": "*", "files": {values}}}"#)),
        ("/librechat/exec/programmatic", format!(r#"{{"code": "1", "tools": {values}}}"#)),
    ] {
        let (status, answer) = place.post(&place.one, path, body).await;
        assert_eq!(status, StatusCode::PAYLOAD_TOO_LARGE, "{path}: {answer}");
    }
    // E2B's limit is lower.
    let values = zeros(7 << 20);
    let line = format!(r#"{{"code": "1", "id": {values}}}"#);
    for (path, body) in [
        ("/v1/runs", line.clone()),
        ("/v1/sessions", format!(r#"{{"variables": {{"x": {values}}}}}"#)),
        ("/sandboxes", format!(r#"{{"templateID": "base", "x": {values}}}"#)),
        ("/mcp", format!(r#"{{"jsonrpc": "2.0", "id": 1, "method": "x", "params": {values}}}"#)),
    ] {
        let (status, answer) = place.post(&place.one, path, body).await;
        assert_eq!(status, StatusCode::PAYLOAD_TOO_LARGE, "{path}: {answer}");
    }
    let (_, answer) = place.post(&place.one, "/v1/batch", line).await;
    assert_eq!(answer["code"], "bad_body", "{answer}");
}

/// Sizes of the unnamed files that this process has open.
fn nameless() -> Vec<u64> {
    let open = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
    let nameless = open.filter(|entry| {
        let target = std::fs::read_link(entry.path());
        target.is_ok_and(|target| target.to_string_lossy().ends_with(" (deleted)"))
    });
    nameless.filter_map(|entry| Some(std::fs::metadata(entry.path()).ok()?.len())).collect()
}

/// Each part of a form used to take 64 KiB of memory or a file of its own, a thousand times per
/// upload.
#[tokio::test(flavor = "multi_thread")]
async fn the_parts_of_a_form_share_one_file() {
    const PARTS: u8 = 37;
    const LENGTH: usize = 50_001;
    let place = Place::new();
    let (status, made) = place.json(&place.one, "/sandboxes", json!({"templateID": "base"})).await;
    assert_eq!(status, StatusCode::CREATED, "{made}");
    let request = |method: &str, path: &str| {
        Request::builder()
            .method(method)
            .uri(path)
            .header("e2b-sandbox-id", made["sandboxID"].as_str().unwrap())
            .header("e2b-sandbox-port", "49983")
            .header("x-access-token", made["envdAccessToken"].as_str().unwrap())
    };
    let (to, from) = tokio::sync::mpsc::unbounded_channel::<Vec<u8>>();
    let body = futures_util::stream::unfold(from, async |mut from| {
        let piece = from.recv().await?;
        Some((Ok::<_, std::convert::Infallible>(piece), from))
    });
    let head = |n: u8| {
        format!("--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"{n}\"\r\n\r\n")
    };
    for n in 0..PARTS {
        to.send([head(n).as_bytes(), &vec![n; LENGTH], b"\r\n"].concat()).unwrap();
    }
    to.send(head(PARTS).into_bytes()).unwrap();
    let upload =
        request("POST", "/files").header("content-type", "multipart/form-data; boundary=b");
    let mut sending = Box::pin(place.send(upload.body(Body::from_stream(body)).unwrap()));
    // The first part is in memory.
    let spooled = u64::from(PARTS - 1) * LENGTH as u64;
    for tried in 0.. {
        tokio::select! {
            answer = &mut sending => panic!("{}", answer.status()),
            () = tokio::time::sleep(Duration::from_millis(20)) => {}
        }
        if nameless().contains(&spooled) {
            break;
        }
        assert!(tried < 1_000, "{:?} instead of {spooled}", nameless());
    }
    to.send(b"the end\r\n--b--\r\n".to_vec()).unwrap();
    drop(to);
    let answered = sending.await.status();
    assert_eq!(answered, StatusCode::OK);
    for n in [0, 1, PARTS - 1] {
        let read =
            place.send(request("GET", &format!("/files?path={n}")).body(Body::empty()).unwrap());
        let bytes = read.await.into_body().collect().await.unwrap().to_bytes();
        assert!(bytes == vec![n; LENGTH], "part {n}: {} bytes", bytes.len());
    }
    let last = request("GET", &format!("/files?path={PARTS}")).body(Body::empty()).unwrap();
    assert_eq!(answer(place.send(last).await).await.1, json!("the end"));
}

/// A request for a single byte must not read the whole file into memory.
#[tokio::test(flavor = "multi_thread")]
async fn files_are_read_as_they_are_sent() {
    const SIZE: usize = 8 << 20;
    let place = Place::new();
    let code = format!("open('a.bin', 'wb').write(bytes({SIZE}))");
    let (_, ran) = place.json(&place.one, "/v1/runs", json!({"code": code})).await;
    let (_, executed) =
        place.json(&place.one, "/librechat/exec", json!({"lang": "py", "code": code})).await;
    let file = &executed["files"][0];
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let paths = [
        format!("/v1/runs/{}/files/a.bin", text(&ran["run"])),
        format!("/librechat/download/{}/{}", text(&file["storage_session_id"]), text(&file["id"])),
    ];
    for path in paths {
        let ask = |range: Option<&str>| {
            let request = Request::get(&path).header("x-api-key", &place.one);
            let request = range.into_iter().fold(request, |asked, to| asked.header("range", to));
            place.send(request.body(Body::empty()).unwrap())
        };
        let response = ask(None).await;
        assert_eq!(response.headers()["content-length"], SIZE.to_string(), "{path}");
        let mut body = response.into_body();
        let mut sizes = Vec::new();
        while let Some(frame) = body.frame().await {
            sizes.push(frame.unwrap().into_data().unwrap().len());
        }
        assert_eq!(sizes.iter().sum::<usize>(), SIZE);
        assert!(*sizes.iter().max().unwrap() <= 1 << 20, "{path}: {sizes:?}");
        let part = ask(Some("bytes=3-5")).await;
        assert_eq!(part.status(), StatusCode::PARTIAL_CONTENT, "{path}");
        assert_eq!(part.headers()["content-range"], format!("bytes 3-5/{SIZE}"));
        assert_eq!(part.into_body().collect().await.unwrap().to_bytes().len(), 3);
    }
}

/// An invalid submission used to fail its whole batch after the others had run.
#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_submission_of_a_batch_keeps_none_of_the_others() {
    let place = Place::new();
    let good = json!({"source_code": "print(1)", "language_id": 71});
    let wrong = json!({"source_code": "print(1)", "language_id": 1});
    let batch = json!({"submissions": [good, wrong, 3, good]});
    let path = "/judge0/submissions/batch";
    let (status, answer) = place.json(&place.one, path, batch).await;
    assert_eq!(status, StatusCode::CREATED, "{answer}");
    assert_eq!(answer[1], json!({"language_id": ["language with id 1 doesn't exist"]}));
    assert_eq!(answer[2], json!({"source_code": ["can't be blank"]}));
    for place_in in [0, 3] {
        let token = answer[place_in]["token"].as_str().unwrap();
        let (_, found) = place.get(&place.one, &format!("/judge0/submissions/{token}")).await;
        assert_eq!(found["stdout"], "1\n", "{found}");
    }
    let one = Place::limited(limits(json!({"runs_per_minute": 1})));
    let (status, answer) = one.json(&one.one, path, json!({"submissions": [good, good]})).await;
    assert_eq!(status, StatusCode::CREATED);
    let judged = answer.as_array().unwrap().iter().filter(|one| !one["token"].is_null()).count();
    assert_eq!(judged, 1, "{answer}");
    let (status, _) = one.json(&one.one, path, json!({"submissions": [good]})).await;
    assert_eq!(status, StatusCode::TOO_MANY_REQUESTS);
}

/// The number of names was unlimited, and each file was read before its size was checked.
#[tokio::test(flavor = "multi_thread")]
async fn files_that_are_fetched_are_few_and_fit_in_the_answer() {
    let place = Place::new();
    let write = "for name, size in (('a', 40 << 20), ('b', 20 << 20), ('c', 1)):\n    \
                 open(name, 'wb').write(bytes(size))";
    let many: Vec<String> = (0..1_001).map(|n| format!("f{n}")).collect();
    for (path, body) in [
        ("/run_code", json!({"language": "python", "code": write})),
        ("/run_jupyter", json!({"cells": [write]})),
    ] {
        let fetch = async |names: &[String]| {
            let mut body = body.clone();
            body["fetch_files"] = json!(names);
            place.json(&place.one, path, body).await.1
        };
        assert_eq!(fetch(&many).await["status"], "SandboxError", "{path}");
        let answer = fetch(&["c", "a", "./a", "./a"].map(str::to_owned)).await;
        let files = answer["files"].as_object().unwrap();
        // In order of names, until the response is full.
        assert_eq!(files.keys().collect::<Vec<_>>(), ["./a"], "{path}");
        let answer = fetch(&["b", "c"].map(str::to_owned)).await;
        assert_eq!(answer["files"].as_object().unwrap().len(), 2, "{path}");
    }
}

/// The limit holds for concurrent requests, and for those with the header `mcp-method`.
#[tokio::test(flavor = "multi_thread")]
async fn sessions_of_mcp_are_bounded_whatever_a_request_says() {
    let place = Place::new();
    let initialize = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {},
        "clientInfo": {"name": "t", "version": "1"}}});
    let begin = |key: &str| {
        let request = Request::post("/mcp")
            .header("x-api-key", key)
            .header("host", "localhost")
            .header("content-type", "application/json")
            .header("accept", "application/json, text/event-stream")
            .header("mcp-method", "initialize")
            .body(Body::from(initialize.to_string()));
        place.send(request.unwrap())
    };
    assert_eq!(begin(&place.one).await.status(), StatusCode::OK);
    let responses = futures_util::future::join_all((0..280).map(|_| begin(&place.one))).await;
    let made = responses.iter().filter(|response| response.status() == StatusCode::OK).count();
    let refused = responses.iter().filter(|response| response.status() == 503).count();
    assert_eq!((made, refused), (249, 31));
    assert_eq!(begin(&place.two).await.status(), StatusCode::OK);
}

/// Each notebook path is an entry of its own, and a kernel can have any number of them.
#[tokio::test(flavor = "multi_thread")]
async fn notebooks_of_one_key_are_bounded() {
    let place = Place::new();
    let make = async |key: &str, n: usize, kernel: Value| {
        let body = json!({"path": format!("{n}.ipynb"), "type": "notebook", "kernel": kernel});
        place.json(key, "/api/sessions", body).await
    };
    let (status, first) = make(&place.one, 0, json!({})).await;
    assert_eq!(status, StatusCode::CREATED, "{first}");
    let kernel = json!({"id": first["kernel"]["id"]});
    for n in 1..256 {
        assert_eq!(make(&place.one, n, kernel.clone()).await.0, StatusCode::CREATED);
    }
    for kernel in [kernel.clone(), json!({})] {
        assert_eq!(make(&place.one, 256, kernel).await.0, StatusCode::TOO_MANY_REQUESTS);
    }
    assert_eq!(make(&place.one, 255, kernel).await.0, StatusCode::CREATED);
    assert_eq!(make(&place.two, 0, json!({})).await.0, StatusCode::CREATED);
}

/// A sandbox's id, which appears in host names and proxy logs, was enough to use its contexts.
#[tokio::test(flavor = "multi_thread")]
async fn contexts_of_a_sandbox_need_one_of_its_tokens() {
    let place = Place::new();
    let mut made = Vec::new();
    for _ in 0..2 {
        let body = json!({"templateID": "base"});
        let (status, made_now) = place.json(&place.one, "/sandboxes", body).await;
        assert_eq!(status, StatusCode::CREATED, "{made_now}");
        made.push(made_now);
    }
    let text = |sandbox: usize, name: &str| made[sandbox][name].as_str().unwrap().to_owned();
    let ask = |method: &str, path: &str, token: Option<(&str, String)>| {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("e2b-sandbox-id", text(0, "sandboxID"))
            .header("e2b-sandbox-port", "49999");
        let request = token.into_iter().fold(request, |all, (name, value)| all.header(name, value));
        place.send(request.body(Body::from("{}")).unwrap())
    };
    let traffic = |sandbox| Some(("e2b-traffic-access-token", text(sandbox, "trafficAccessToken")));
    let access = |sandbox| Some(("x-access-token", text(sandbox, "envdAccessToken")));
    let wrong = || [None, traffic(1), access(1), Some(("x-access-token", traffic(0).unwrap().1))];
    for (method, path) in [("POST", "/contexts"), ("GET", "/contexts")] {
        for token in [traffic(0), access(0)] {
            assert_eq!(ask(method, path, token).await.status(), 200, "{method} {path}");
        }
        for token in wrong() {
            assert_eq!(ask(method, path, token).await.status(), 401, "{method} {path}");
        }
    }
    let (_, contexts) = answer(ask("GET", "/contexts", traffic(0)).await).await;
    let id = contexts[1]["id"].as_str().unwrap();
    for (method, path) in
        [("POST", format!("/contexts/{id}/restart")), ("DELETE", format!("/contexts/{id}"))]
    {
        for token in wrong() {
            assert_eq!(ask(method, &path, token).await.status(), 401, "{method} {path}");
        }
        assert_eq!(ask(method, &path, traffic(0)).await.status(), 200, "{method} {path}");
    }
    // The traffic token gives access to neither the files nor the interpreter.
    for (method, path) in [("GET", "/files?path=a"), ("POST", "/execute")] {
        assert_eq!(ask(method, path, traffic(0)).await.status(), 401, "{method} {path}");
    }
}

/// An idempotency key was not bound to its request, and a response was repeated for a session that
/// had ended.
#[tokio::test(flavor = "multi_thread")]
async fn an_idempotency_key_is_of_one_request_and_of_what_is_there() {
    let [client] = with_keys([("one", KeyLimits::default())]);
    let create = async |path: &str, body: &str| {
        let request = Request::post(path)
            .header("content-type", "application/json")
            .header("idempotency-key", "k");
        client.send(request.body(Body::from(body.to_owned())).unwrap()).await
    };
    let core = r#"{"image": "core"}"#;
    let first = create("/v1/sessions", core).await;
    let id = first.json()["id"].as_str().unwrap().to_owned();
    let other = create("/v1/sessions", r#"{"image": "core", "name": "n"}"#).await;
    assert_eq!((other.status.as_u16(), other.problem().as_str()), (422, "idempotency_key"));
    let again = create("/v1/sessions", core).await;
    assert_eq!(again.json()["id"], id.as_str());
    assert_eq!(again.headers["idempotent-replayed"], "true");
    // A request without a body is different, too.
    let fork = format!("/v1/sessions/{id}/fork");
    let forked = create(&fork, "{}").await.json()["id"].take();
    assert_eq!(create(&fork, "{}").await.json()["id"], forked);
    client.ask("DELETE", &format!("/v1/sessions/{id}"), &[]).await;
    let anew = create("/v1/sessions", core).await;
    assert_eq!(anew.status, 201, "{anew}");
    assert!(!anew.headers.contains_key("idempotent-replayed"));
    assert_ne!(anew.json()["id"], id.as_str());
    assert_eq!(create("/v1/sessions", core).await.json()["id"], anew.json()["id"]);
}

/// After a disconnect during the creation of a session, a retry with the same key created another
/// session.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_leaves_finds_what_it_made() {
    let [client] = with_keys([("one", KeyLimits::default())]);
    let create = || {
        let body = json!({"image": "core", "code": "import time; time.sleep(1)"});
        let request = Request::post("/v1/sessions")
            .header("content-type", "application/json")
            .header("idempotency-key", "k");
        client.send(request.body(Body::from(body.to_string())).unwrap())
    };
    tokio::time::timeout(Duration::from_millis(200), create()).await.unwrap_err();
    let answer = loop {
        let answer = create().await;
        if answer.status != 409 {
            break answer;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    assert_eq!(answer.status, 201, "{answer}");
    assert_eq!(answer.headers["idempotent-replayed"], "true");
    let listed = client.get("/v1/sessions").await.json();
    assert_eq!(listed["sessions"].as_array().unwrap().len(), 1, "{listed}");
}

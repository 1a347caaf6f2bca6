//! Keys, their limits, and isolation between owners.

use axum::http::Request;
use belljar_server::KeyLimits;
use serde_json::json;

use crate::support::{Answer, open, with_keys};

#[tokio::test(flavor = "multi_thread")]
async fn without_a_key_nothing_is_said() {
    let [mut client] = with_keys([("one", KeyLimits::default())]);
    for key in [None, Some(String::new()), Some("belljar_00".into())] {
        client.key = key;
        for (method, path) in [
            ("POST", "/v1/runs"),
            ("GET", "/v1/sessions"),
            ("GET", "/v1/sessions/0"),
            ("GET", "/v1/images"),
            ("POST", "/v1/batch"),
            ("POST", "/v1/checkpoints"),
            ("PUT", "/v1/sessions/0/files/a"),
        ] {
            let answer = client.json(method, path, &json!({})).await;
            assert_eq!(answer.problem(), "no_key", "{method} {path}");
            assert_eq!(answer.headers["www-authenticate"], "Bearer");
        }
    }
    assert_eq!(client.get("/healthz").await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_somebody_elses_is_not_there() {
    let [one, two] = with_keys([("one", KeyLimits::default()), ("two", KeyLimits::default())]);
    let id = one.session(&json!({"image": "core", "name": "mine"})).await;
    let outcome = one.post("/v1/runs", &json!({"code": "open('a', 'w').write('x')"})).await.json();
    let run = outcome["run"].as_str().unwrap();
    for session in [id.as_str(), "mine"] {
        let session = format!("/v1/sessions/{session}");
        for (method, path) in [
            ("GET", session.clone()),
            ("DELETE", session.clone()),
            ("GET", format!("{session}/history")),
            ("GET", format!("{session}/files")),
            ("GET", format!("{session}/checkpoint")),
            ("POST", format!("{session}/fork")),
            ("POST", format!("{session}/interrupt")),
            ("DELETE", format!("{session}/files/a")),
        ] {
            let answer = two.ask(method, &path, &[]).await;
            assert_eq!(answer.problem(), "session.not_found", "{method} {path}");
        }
        let answer = two.post(&format!("{session}/runs"), &json!({"code": "1"})).await;
        assert_eq!(answer.problem(), "session.not_found");
        assert_eq!(
            two.put(&format!("{session}/files/a"), "x").await.problem(),
            "session.not_found"
        );
    }
    assert_eq!(two.get(&format!("/v1/runs/{run}/files/a")).await.problem(), "run.not_found");
    assert_eq!(two.ask("DELETE", &format!("/v1/runs/{run}"), &[]).await.problem(), "run.not_found");
    assert_eq!(two.get("/v1/sessions").await.json(), json!({"sessions": []}));
    // The same name refers to two sessions of two owners.
    two.session(&json!({"image": "core", "name": "mine"})).await;
    assert_eq!(one.get(&format!("/v1/runs/{run}/files/a")).await.text(), "x");
    assert_eq!(one.get("/v1/sessions/mine").await.json()["id"], id.as_str());
}

fn limits(json: serde_json::Value) -> KeyLimits {
    serde_json::from_value(json).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_has_as_many_runs_a_minute_as_it_may() {
    let [client] = with_keys([("one", limits(json!({"runs_per_minute": 2})))]);
    for _ in 0..2 {
        assert_eq!(client.post("/v1/runs", &json!({"code": "1"})).await.status, 200);
    }
    let answer = client.post("/v1/runs", &json!({"code": "1"})).await;
    assert_eq!((answer.status.as_u16(), answer.problem().as_str()), (429, "limit"));
    let wait: u64 = answer.headers["retry-after"].to_str().unwrap().parse().unwrap();
    assert!((1..=30).contains(&wait), "{wait}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_has_as_many_runs_at_once_as_it_may() {
    let [client] = with_keys([("one", limits(json!({"concurrent_runs": 1})))]);
    let id = client.session(&json!({"image": "core"})).await;
    let running = tokio::spawn({
        let (client, id) = (client.clone(), id.clone());
        async move { client.run(&id, "while True: pass").await }
    });
    let path = format!("/v1/sessions/{id}");
    while client.get(&path).await.json()["status"] != "running" {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    let answer = client.post("/v1/runs", &json!({"code": "1"})).await;
    assert_eq!(answer.status, 429, "{answer}");
    assert_eq!(answer.headers["retry-after"], "1");
    client.ask("POST", &format!("/v1/sessions/{id}/interrupt"), &[]).await;
    running.await.unwrap();
    assert_eq!(client.post("/v1/runs", &json!({"code": "1"})).await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_has_the_fuel_of_a_day() {
    let [client] = with_keys([("one", limits(json!({"fuel_per_day": 50_000_000})))]);
    let endless = json!({"code": "while True: pass"});
    let outcome = client.post("/v1/runs", &endless).await.json();
    assert_eq!(outcome["error_detail"]["kind"], "fuel", "{outcome}");
    let answer = client.post("/v1/runs", &endless).await;
    assert_eq!(answer.problem(), "limit");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_has_as_many_sessions_as_it_may() {
    let [client] = with_keys([("one", limits(json!({"sessions": 1})))]);
    let id = client.session(&json!({"image": "core"})).await;
    for (path, body) in
        [("/v1/sessions".to_owned(), json!({})), (format!("/v1/sessions/{id}/fork"), json!({}))]
    {
        assert_eq!(client.post(&path, &body).await.problem(), "limit", "{path}");
    }
    client.ask("DELETE", &format!("/v1/sessions/{id}"), &[]).await;
    client.session(&json!({"image": "core"})).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn files_of_runs_are_kept_as_far_as_a_key_may() {
    let [client] = with_keys([("one", limits(json!({"stored_bytes": 10})))]);
    let run = async |size: usize| {
        let code = format!("open('a', 'w').write('x' * {size})");
        client.post("/v1/runs", &json!({ "code": code })).await.json()["run"].take()
    };
    let first = run(6).await;
    assert!(run(11).await.is_null());
    let second = run(6).await;
    let path = |run: &serde_json::Value| format!("/v1/runs/{}/files/a", run.as_str().unwrap());
    assert_eq!(client.get(&path(&first)).await.problem(), "run.not_found");
    assert_eq!(client.get(&path(&second)).await.text(), "xxxxxx");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_answer_says_what_is_left_of_a_keys_limits() {
    let some = json!({"runs_per_minute": 3, "concurrent_runs": 2, "fuel_per_day": 2_000_000_000});
    let [client, free] = with_keys([("one", limits(some)), ("two", KeyLimits::default())]);
    let header = |answer: &Answer, name: &str| answer.headers[name].to_str().unwrap().to_owned();
    let policy = "\"runs\";q=3;w=60, \"concurrent\";q=2;qu=\"concurrent-requests\", \
                  \"fuel\";q=2000000000;qu=\"fuel\";w=86400";
    let answer = client.get("/v1/sessions").await;
    assert_eq!(header(&answer, "ratelimit-policy"), policy);
    let left = header(&answer, "ratelimit");
    assert!(
        left.starts_with("\"runs\";r=3;t=0, \"concurrent\";r=2, \"fuel\";r=2000000000;t="),
        "{left}"
    );
    // Each face has its own format of requests and keys.
    let python = json!({"code": "1", "language": "python"});
    let dify = json!({"code": "print(1)", "language": "python3"});
    for (path, body, runs) in [
        ("/v1/runs", &json!({"code": "1"}), 2),
        ("/run_code", &python, 1),
        ("/v1/sandbox/run", &dify, 0),
        ("/v1/runs", &json!({"code": "1"}), 0),
    ] {
        let request = Request::post(path).header("content-type", "application/json");
        let answer = client.send(request.body(body.to_string().into()).unwrap()).await;
        let left = header(&answer, "ratelimit");
        let start = format!("\"runs\";r={runs};t=");
        assert!(left.starts_with(&start), "{path}: {left}, {answer}");
        assert_eq!(header(&answer, "ratelimit-policy"), policy);
        if path == "/v1/runs" && runs == 0 {
            let wait: u64 = header(&answer, "retry-after").parse().unwrap();
            assert!((1..=20).contains(&wait), "{wait}");
            assert_eq!(answer.problem(), "limit");
        }
    }
    assert!(!free.get("/v1/sessions").await.headers.contains_key("ratelimit"));
}

#[tokio::test(flavor = "multi_thread")]
async fn files_in_sessions_count_as_well() {
    let [client] = with_keys([("one", limits(json!({"stored_bytes": 1000})))]);
    let id = client.session(&json!({"image": "core"})).await;
    let runs = format!("/v1/sessions/{id}/runs");
    let file = format!("/v1/sessions/{id}/files/a");
    let write = json!({"code": "open('a', 'w').write('x' * 2000)"});
    // Sizes are measured in the background.
    let until = async |is_full: bool| {
        for _ in 0..200 {
            let status = client.post(&runs, &json!({"code": "1"})).await.status;
            if (status == 429) == is_full {
                return;
            }
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
        panic!("it is not as full as it should be");
    };
    assert_eq!(client.post(&runs, &write).await.status, 200);
    until(true).await;
    for (path, body) in [("/v1/sessions", json!({})), (runs.as_str(), write.clone())] {
        assert_eq!(client.post(path, &body).await.problem(), "limit", "{path}");
    }
    assert_eq!(client.put(&file, "x").await.problem(), "limit");
    let outcome = client.post("/v1/runs", &write).await.json();
    assert!(outcome["success"] == true && outcome["run"].is_null(), "{outcome}");
    assert_eq!(client.ask("DELETE", &file, &[]).await.status, 204);
    until(false).await;
    assert_eq!(client.put(&file, vec![0_u8; 1500]).await.status, 201);
    until(true).await;
    client.ask("DELETE", &format!("/v1/sessions/{id}"), &[]).await;
    client.session(&json!({"image": "core"})).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn where_nobody_needs_a_key_everybody_is_the_same() {
    let client = open();
    let id = client.session(&json!({"image": "core"})).await;
    let mut other = client.clone();
    other.key = Some("whatever".into());
    assert_eq!(other.get(&format!("/v1/sessions/{id}")).await.status, 200);
}

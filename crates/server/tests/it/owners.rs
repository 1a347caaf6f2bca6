//! Who may what: keys, their limits, and what is somebody else's.

use belljar_server::KeyLimits;
use serde_json::json;

use crate::support::{open, with_keys};

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
    // The same name is two sessions of two people.
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
async fn where_nobody_needs_a_key_everybody_is_the_same() {
    let client = open();
    let id = client.session(&json!({"image": "core"})).await;
    let mut other = client.clone();
    other.key = Some("whatever".into());
    assert_eq!(other.get(&format!("/v1/sessions/{id}")).await.status, 200);
}

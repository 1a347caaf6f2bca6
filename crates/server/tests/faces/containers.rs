//! OpenAI's containers.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use belljar::cluster::{NodeOptions, StoredSessions};
use belljar::store::MemoryStore;
use belljar_server::Service;
use serde_json::{Value, json};

use super::{ask, post, runtime, serve};

/// A server without a store, and a server with one.
async fn servers() -> [(Service, SocketAddr); 2] {
    let local = Service::new(runtime());
    let engine = runtime();
    let sessions =
        StoredSessions::new(engine.clone(), Arc::new(MemoryStore::new()), NodeOptions::default());
    let stored = Service::builder(engine).stored(sessions.unwrap()).build();
    let addresses = (serve(local.clone()).await, serve(stored.clone()).await);
    [(local, addresses.0), (stored, addresses.1)]
}

async fn create(server: SocketAddr, asked: Value) -> String {
    let (status, made) = post(server, "/v1/containers", asked).await;
    assert_eq!(status, 200, "{made:#}");
    made["id"].as_str().unwrap().to_owned()
}

async fn get(server: SocketAddr, path: &str) -> (u16, Value) {
    let (status, body) = ask(server, "GET", path, &Value::Null).await;
    (status, serde_json::from_str(&body).unwrap_or(Value::String(body)))
}

#[tokio::test]
async fn a_container_is_a_session_with_files() {
    for (_, server) in servers().await {
        let id = create(server, json!({"name": "mine"})).await;
        let (_, shown) = get(server, &format!("/v1/containers/{id}")).await;
        assert_eq!(shown["object"], "container");
        assert_eq!(shown["expires_after"], json!({"anchor": "last_active_at", "minutes": 20}));
        assert!(shown["last_active_at"].as_u64() >= shown["created_at"].as_u64(), "{shown:#}");

        let path = format!("/v1/containers/{id}/code_interpreter_calls");
        let (status, call) = post(server, &path, json!({"id": "ci_1", "code": "write a hi"})).await;
        assert_eq!((status, &call["status"]), (200, &json!("completed")), "{call:#}");
        assert_eq!((&call["id"], &call["container_id"]), (&json!("ci_1"), &json!(id)));
        let (_, call) = post(server, &path, json!({"code": "print x\nspin"})).await;
        assert_eq!(call["status"], "incomplete", "{call:#}");
        assert_eq!(call["outputs"][0]["type"], "logs");

        let (_, files) = get(server, &format!("/v1/containers/{id}/files")).await;
        let file = &files["data"][0];
        assert_eq!(file["path"], "/mnt/data/a", "{files:#}");
        assert_eq!((&file["bytes"], &file["source"]), (&json!(2), &json!("assistant")));
        let file_id = file["id"].as_str().unwrap();

        // The file of one container in another.
        let other = create(server, json!({"name": "other", "file_ids": [file_id]})).await;
        let (_, copied) = get(server, &format!("/v1/containers/{other}/files")).await;
        assert_eq!(copied["data"][0]["source"], "user", "{copied:#}");
        assert_ne!(copied["data"][0]["id"], file_id);
        let theirs = format!("/v1/containers/{other}/files/{file_id}");
        assert_eq!(get(server, &theirs).await.0, 404);
        let code = json!({"code": "read a"});
        let (_, ran) = post(server, &format!("/v1/sessions/{other}/runs"), code).await;
        assert_eq!(ran["stdout"], "hi");

        let path = format!("/v1/containers/{id}/files/{file_id}");
        assert_eq!(ask(server, "GET", &format!("{path}/content"), &Value::Null).await.1, "hi");
        assert_eq!(ask(server, "DELETE", &path, &Value::Null).await.0, 200);
        assert_eq!(get(server, &path).await.0, 404);
        let (_, gone) = ask(server, "DELETE", &format!("/v1/containers/{id}"), &Value::Null).await;
        assert!(gone.contains(r#""deleted":true"#), "{gone}");
        assert_eq!(get(server, &format!("/v1/sessions/{id}")).await.0, 404);
    }
}

#[tokio::test]
async fn each_use_postpones_the_end_of_a_container() {
    for (service, server) in servers().await {
        let after = json!({"anchor": "last_active_at", "minutes": 2});
        let id = create(server, json!({"name": "mine", "expires_after": after})).await;
        let session = format!("/v1/sessions/{id}");
        for (method, path, body) in [
            ("POST", format!("{session}/runs"), json!({"code": "print 1"})),
            ("PUT", format!("{session}/files/a"), json!("x")),
            ("POST", format!("/v1/containers/{id}/code_interpreter_calls"), json!({"code": ""})),
        ] {
            let (status, _) = ask(server, "PATCH", &session, &json!({"lease_seconds": 60})).await;
            assert_eq!(status, 200);
            let (status, answer) = ask(server, method, &path, &body).await;
            assert_eq!(status / 100, 2, "{path}: {answer}");
            service.settled().await;
            let (_, shown) = get(server, &session).await;
            assert!(shown["lease_seconds"].as_f64().unwrap() > 61.0, "{path}: {shown:#}");
        }
        let (_, shown) = ask(server, "PATCH", &session, &json!({"lease_seconds": 0})).await;
        assert!(shown.contains("lease_seconds"), "{shown}");
        let mut tries = 0;
        while get(server, &format!("/v1/containers/{id}")).await.0 != 404 {
            tries += 1;
            assert!(tries < 100, "the container has not expired");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}

/// A run between two pages changes times of files.
#[tokio::test]
async fn pages_of_files_never_repeat() {
    for (_, server) in servers().await {
        let id = create(server, json!({"name": "mine"})).await;
        let put = async |path: &str| {
            let path = format!("/v1/sessions/{id}/files/{path}");
            assert_eq!(ask(server, "PUT", &path, &json!("x")).await.0 / 100, 2);
        };
        for path in ["b", "a", "c"] {
            put(path).await;
        }
        let files = format!("/v1/containers/{id}/files");
        let page = async |query: &str| {
            let (_, page) = get(server, &format!("{files}?limit=1&{query}")).await;
            let last = page["last_id"].as_str().unwrap().to_owned();
            (page["data"][0]["path"].as_str().unwrap().to_owned(), last)
        };
        let (path, first) = page("order=asc").await;
        assert_eq!(path, "/mnt/data/a");
        put("a").await;
        let (path, second) = page(&format!("order=asc&after={first}")).await;
        assert_eq!(path, "/mnt/data/b");
        ask(server, "DELETE", &format!("{files}/{second}"), &Value::Null).await;
        assert_eq!(page(&format!("order=asc&after={second}")).await.0, "/mnt/data/c");
        assert_eq!(page(&format!("after={second}")).await.0, "/mnt/data/a");
    }
}

/// The lease in the store's record starts again only when the run ends.
#[tokio::test]
async fn a_container_does_not_expire_during_a_run() {
    for (service, server) in servers().await {
        let id = create(server, json!({"name": "mine"})).await;
        let session = format!("/v1/sessions/{id}");
        ask(server, "PATCH", &session, &json!({"lease_seconds": 1})).await;
        let path = format!("/v1/containers/{id}/code_interpreter_calls");
        let body = json!({"code": "sleep 3000\nprint x"});
        let run = tokio::spawn(async move { post(server, &path, body).await });
        tokio::time::sleep(Duration::from_secs(2)).await;
        let (_, list) = get(server, "/v1/containers").await;
        assert_eq!(list["data"][0]["id"], json!(id), "{list:#}");
        assert_eq!(run.await.unwrap().1["status"], "completed");
        service.settled().await;
        assert_eq!(get(server, &format!("/v1/containers/{id}")).await.0, 200);
    }
}

#[tokio::test]
async fn what_a_container_cannot_have_is_refused() {
    let [(_, server), _] = servers().await;
    for (wrong, part) in [
        (json!({}), "name"),
        (json!({"name": ""}), "name"),
        (json!({"name": "x".repeat(2_000)}), "name"),
        (json!({"name": "a", "skills": [{"type": "skill_reference"}]}), "skills"),
        (json!({"name": "a", "network_policy": {"type": "allowlist"}}), "network"),
        (json!({"name": "a", "memory_limit": "64g"}), "maximum"),
        (json!({"name": "a", "memory_limit": "2g"}), "memory_limit"),
        (json!({"name": "a", "file_ids": vec!["cfile_x"; 101]}), "file_ids"),
        (json!({"name": "a", "gpu": true}), "gpu"),
    ] {
        let (status, error) = post(server, "/v1/containers", wrong).await;
        assert_eq!((status, &error["error"]["type"]), (400, &json!("invalid_request_error")));
        let message = error["error"]["message"].as_str().unwrap();
        assert!(message.contains(part), "{message}");
    }
    for minutes in [json!(0), json!(-1), json!(1e9), json!(4_294_967_296_u64)] {
        let after = json!({"anchor": "last_active_at", "minutes": minutes});
        let asked = json!({"name": "a", "expires_after": after});
        assert_eq!(post(server, "/v1/containers", asked).await.0, 400);
    }
    let asked = json!({"name": "a", "file_ids": ["file-123"]});
    assert_eq!(post(server, "/v1/containers", asked).await.0, 404);
    let (_, list) = get(server, "/v1/containers").await;
    assert_eq!(list["data"], json!([]), "a container without its files is not left behind");
    let (_, made) = post(server, "/v1/sessions", json!({})).await;
    let id = made["id"].as_str().unwrap();
    for (method, path) in [("GET", ""), ("DELETE", ""), ("GET", "/files"), ("GET", "/files/x")] {
        let path = format!("/v1/containers/{id}{path}");
        let (status, body) = ask(server, method, &path, &Value::Null).await;
        assert_eq!(status, 404, "a session that is no container: {body}");
    }
    assert_eq!(get(server, &format!("/v1/sessions/{id}")).await.0, 200);
    for query in ["limit=0", "limit=101", "order=up"] {
        let (status, error) = get(server, &format!("/v1/containers?{query}")).await;
        assert_eq!((status, &error["error"]["type"]), (400, &json!("invalid_request_error")));
    }
}

//! `/v1/sessions`, except for files.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::http::Request;
use belljar::Runtime;
use belljar::cluster::{NodeOptions, StoredSessions};
use belljar::session::{RegistryLimits, SessionLimits};
use belljar::store::{MemoryStore, Store};
use belljar_server::{App, Keys, Service, Settings, router};
use serde_json::json;

use crate::support::{Client, engine, events, open};

#[tokio::test(flavor = "multi_thread")]
async fn a_session_keeps_what_its_runs_made() {
    let client = open();
    let asked = json!({"image": "core", "code": "x = 1", "name": "mine", "labels": {"a": "b"}});
    let answer = client.post("/v1/sessions", &asked).await;
    assert_eq!(answer.status, 201, "{answer}");
    let session = answer.json();
    let id = session["id"].as_str().unwrap();
    assert_eq!(answer.headers["location"], format!("/v1/sessions/{id}"));
    assert_eq!((&session["image"], &session["labels"]["a"]), (&json!("core"), &json!("b")));
    assert_eq!(client.run(id, "x += 1\nx").await["stdout"], "2\n");
    let outcome = client.run("mine", "x").await;
    assert_eq!((&outcome["stdout"], &outcome["execution"]), (&json!("2\n"), &json!(2)));
    let listed = client.get("/v1/sessions").await.json();
    assert_eq!(listed["sessions"][0]["id"], id);
    let runs = client.get("/v1/sessions/mine/history").await.json();
    assert_eq!(runs["runs"][0]["code"], "x += 1\nx");
    let again = client.post("/v1/sessions", &json!({"name": "mine"})).await;
    assert_eq!((again.status.as_u16(), again.problem().as_str()), (409, "session.name_taken"));
    assert_eq!(client.ask("DELETE", "/v1/sessions/mine", &[]).await.status, 204);
    assert_eq!(client.get(&format!("/v1/sessions/{id}")).await.problem(), "session.not_found");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_body_is_a_session_with_every_default() {
    let client = open();
    let answer = client.ask("POST", "/v1/sessions", &[]).await;
    assert_eq!(answer.status, 201, "{answer}");
    assert_eq!(answer.json()["image"], "data");
}

#[tokio::test(flavor = "multi_thread")]
async fn two_ways_on_and_back() {
    let client = open();
    let id = client.session(&json!({"image": "core"})).await;
    client.run(&id, "x = 1").await;
    let fork = client.post(&format!("/v1/sessions/{id}/fork"), &json!({"name": "other"})).await;
    assert_eq!(fork.json()["name"], "other");
    client.run(&id, "x = 2").await;
    assert_eq!(client.run("other", "x").await["stdout"], "1\n");
    let path = format!("/v1/sessions/{id}/rewind");
    let answer = client.post(&path, &json!({"execution": 1, "keep": true})).await.json();
    let kept = answer["kept"]["id"].as_str().unwrap();
    assert_eq!(client.run(&id, "x").await["stdout"], "1\n");
    assert_eq!(client.run(kept, "x").await["stdout"], "2\n");
    let none = client.post(&path, &json!({"execution": 99})).await;
    assert_eq!((none.status.as_u16(), none.problem().as_str()), (409, "session.no_state"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_checkpoint_goes_down_and_up_again() {
    let client = open();
    let id = client.session(&json!({"image": "core"})).await;
    client.run(&id, "x = 41").await;
    let down = client.get(&format!("/v1/sessions/{id}/checkpoint")).await;
    assert!(down.body.starts_with(b"belljar\x1c"));
    let up = Request::post("/v1/checkpoints?name=restored").body(down.body.into()).unwrap();
    let answer = client.send(up).await;
    assert_eq!(answer.status, 201, "{answer}");
    assert_eq!(client.run("restored", "x + 1").await["stdout"], "42\n");
    let damaged = Request::post("/v1/checkpoints").body(Body::from("belljar?")).unwrap();
    assert_eq!(client.send(damaged).await.problem(), "session.not_a_checkpoint");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_is_interrupted_and_the_session_goes_on() {
    let client = open();
    let id = client.session(&json!({"image": "core"})).await;
    let path = format!("/v1/sessions/{id}/runs");
    let running = tokio::spawn({
        let client = client.clone();
        async move { client.post(&path, &json!({"code": "x = 5\nwhile True: pass"})).await.json() }
    });
    let path = format!("/v1/sessions/{id}/interrupt");
    while client.ask("POST", &path, &[]).await.json()["interrupted"] == false {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let outcome = running.await.unwrap();
    assert_eq!(outcome["error_detail"]["kind"], "interrupted");
    assert_eq!(client.run(&id, "1").await["stdout"], "1\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_of_a_session_as_events() {
    let client = open();
    let id = client.session(&json!({"image": "core"})).await;
    let asked = |body: serde_json::Value| {
        Request::post(format!("/v1/sessions/{id}/runs"))
            .header("content-type", "application/json")
            .header("accept", "text/event-stream")
            .body(Body::from(body.to_string()))
            .unwrap()
    };
    let answer = client.send(asked(json!({"code": "6 * 7", "echo": "display"}))).await;
    let events = events(answer.text());
    let result = events.iter().find(|(name, _)| name == "result").unwrap();
    assert_eq!(result.1["data"]["text/plain"], "42");
    assert_eq!(events.last().unwrap().0, "outcome");
    let refused = client.send(asked(json!({"code": "1", "memory_mb": 1}))).await;
    assert_eq!(refused.problem(), "refused");
}

#[tokio::test(flavor = "multi_thread")]
async fn questions_leave_no_trace() {
    let client = open();
    let id = client.session(&json!({"image": "core", "code": "number = 3"})).await;
    let ask = async |what: &str, body: serde_json::Value| {
        client.post(&format!("/v1/sessions/{id}/{what}"), &body).await.json()
    };
    let found = ask("complete", json!({"code": "numb", "cursor": 4})).await;
    assert_eq!(found, json!({"start": 0, "matches": ["number"]}));
    let found = ask("inspect", json!({"code": "number", "cursor": 3})).await;
    assert_eq!((&found["class"], &found["text"]), (&json!("int"), &json!("3")));
    assert_eq!(ask("is_complete", json!({"code": "if 1:"})).await["status"], "incomplete");
    let values = ask("evaluate", json!({"expressions": {"a": "(number, 1)", "b": "1/0"}})).await;
    assert_eq!(values["errors"]["b"], "ZeroDivisionError: division by zero");
    assert_eq!(values["values"]["a"]["$"], "tuple", "{values}");
    let path = format!("/v1/sessions/{id}/variables/number");
    assert_eq!(client.json("PUT", &path, &json!(8)).await.status, 204);
    assert_eq!(client.get(&path).await.json(), 8);
    let none = client.get(&format!("/v1/sessions/{id}/variables/nonesuch")).await;
    assert_eq!(none.problem(), "session.no_variable");
    assert_eq!(client.run(&id, "number").await["execution"], 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn labels_and_leases_are_changed() {
    let client = open();
    let lease = json!({"image": "core", "lease": {"seconds": 60}});
    let id = client.session(&lease).await;
    let path = format!("/v1/sessions/{id}");
    let change = json!({"labels": {"k": "v"}, "lease_seconds": 600});
    let answer = client.json("PATCH", &path, &change).await.json();
    assert_eq!(answer["labels"], json!({"k": "v"}));
    assert!(answer["lease_seconds"].as_f64().unwrap() > 500.0, "{answer}");
    let without = client.session(&json!({"image": "core"})).await;
    let path = format!("/v1/sessions/{without}");
    let answer = client.json("PATCH", &path, &json!({"lease_seconds": 5})).await;
    assert_eq!(answer.problem(), "session.no_lease");
    let over = client.session(&json!({"image": "core", "lease": {"seconds": 0.1}})).await;
    let path = format!("/v1/sessions/{over}");
    for _ in 0..100 {
        if client.get(&path).await.status == 404 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("a session outlived its lease");
}

/// The operator's limits apply to sessions that request more, or nothing, and to restored sessions.
#[tokio::test(flavor = "multi_thread")]
async fn sessions_go_no_further_than_the_operator_allows() {
    let free = open();
    let id = free.session(&json!({"image": "core"})).await;
    free.run(&id, "x = 1").await;
    let checkpoint = free.ask("GET", &format!("/v1/sessions/{id}/checkpoint"), &[]).await;
    assert_eq!(checkpoint.status, 200, "{checkpoint}");
    let short = Duration::from_millis(1);
    for (most, name) in [
        (SessionLimits::default().lifetime(short), "lifetime"),
        (SessionLimits::default().idle(short), "idle"),
        (SessionLimits::default().fuel(1), "fuel"),
    ] {
        let bounds = RegistryLimits::default().limits(most);
        let bounded = Runtime::builder().environment().sessions(bounds).build().unwrap();
        let asking = |service| Client {
            router: router(App::new(service, Keys::none(), Settings::default())),
            key: None,
        };
        let service = Service::new(bounded.clone());
        let client = asking(service.clone());
        let asked =
            json!({"image": "core", "lifetime": 600, "idle": 600, "total_fuel": 1_u64 << 50});
        let mut ids = vec![client.session(&asked).await];
        ids.push(client.session(&json!({"image": "core"})).await);
        let path = "/v1/checkpoints?lifetime=600&idle=600&total_fuel=1000000000000";
        let body = Body::from(checkpoint.body.clone());
        let restored = client.send(Request::post(path).body(body).unwrap()).await;
        assert_eq!(restored.status, 201, "{restored}");
        ids.push(restored.json()["id"].as_str().unwrap().to_owned());
        // A session that another server saved to its directory, and a session in a shared store.
        let (was, folder) = (Service::new(engine()), tempfile::tempdir().unwrap());
        ids.push(asking(was.clone()).session(&json!({"image": "core"})).await);
        asking(was.clone()).run(ids.last().unwrap(), "x = 1").await;
        let soon = Instant::now() + Duration::from_secs(30);
        assert_eq!(was.save(folder.path(), soon).await.unwrap(), 1);
        assert_eq!(service.load(folder.path()).await.unwrap(), 1);
        was.close_all();
        let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
        let on = |runtime: Runtime| {
            let store = Arc::clone(&store);
            let sessions = StoredSessions::new(runtime.clone(), store, NodeOptions::default());
            asking(Service::builder(runtime).stored(sessions.unwrap()).build())
        };
        let (there, here) = (on(engine()), on(bounded));
        let stored = there.session(&json!({"image": "core"})).await;
        there.run(&stored, "x = 1").await;
        let ids = ids.into_iter().map(|id| (&client, id)).chain([(&here, stored)]);
        tokio::time::sleep(20 * short).await;
        for (client, id) in ids {
            let ran = client.run(&id, "x = 2").await;
            assert_eq!(ran["success"], false, "{name}: {ran}");
            let kind = if name == "fuel" { "fuel" } else { "timeout" };
            assert_eq!(ran["error_detail"]["kind"], kind, "{name}: {ran}");
        }
    }
}

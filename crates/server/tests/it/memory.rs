//! The memory budget of the process, and its errors in each interface.

use std::time::Duration;

use belljar_server::{App, BudgetError, Keys, Service, router};
use serde_json::{Value, json};

use crate::support::{Client, alone, engine, everything, reactor};

/// Requests to each interface that create, run or upload something.
fn begun(session: &str) -> Vec<(&'static str, String, Value)> {
    let at = |path: &str| path.replace("ID", session);
    let tool = json!({"name": "f", "parameters": {"type": "object", "properties": {}}});
    let file = json!({"content": "1"});
    vec![
        ("POST", at("/v1/runs"), json!({"code": "1"})),
        ("POST", at("/v1/sessions"), json!({"image": "core"})),
        ("POST", at("/v1/sessions/ID/runs"), json!({"code": "1"})),
        ("POST", at("/v1/sessions/ID/evaluate"), json!({"expressions": {"a": "1"}})),
        ("PUT", at("/v1/sessions/ID/files/a"), Value::Null),
        ("POST", at("/v1/checkpoints"), Value::Null),
        ("POST", at("/v1/sandbox/run"), json!({"language": "python3", "code": "1"})),
        ("POST", at("/run_code"), json!({"language": "python", "code": "1"})),
        ("POST", at("/run_jupyter"), json!({"cells": ["1"]})),
        ("POST", at("/librechat/exec"), json!({"lang": "py", "code": "1"})),
        ("POST", at("/librechat/exec/programmatic"), json!({"code": "1", "tools": [tool]})),
        ("POST", at("/librechat/upload"), Value::Null),
        (
            "POST",
            at("/api/v2/execute"),
            json!({"language": "python", "version": "*", "files": [file]}),
        ),
        (
            "POST",
            at("/judge0/submissions?wait=true"),
            json!({"source_code": "1", "language_id": 71}),
        ),
        ("POST", at("/api/kernels"), json!({})),
        ("POST", at("/sandboxes"), json!({"templateID": "base"})),
    ]
}

#[test]
fn every_interface_refuses_what_is_new_while_too_much_memory_is_held() {
    alone("memory::every_interface_refuses_what_is_new_while_too_much_memory_is_held", || {
        reactor().block_on(over());
    });
}

async fn over() {
    const ROOM: u64 = 64 << 20;
    let figure = |figures: &str, name: &str| -> u64 {
        let line = figures.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.trim().parse().unwrap()
    };
    let asking = |service| Client {
        router: router(App::new(service, Keys::none(), everything())),
        key: None,
    };
    let free = asking(Service::new(engine()));
    free.post("/v1/runs", &json!({"code": "1", "image": "core"})).await;
    let held = figure(free.get("/metrics").await.text(), "belljar_held_bytes");
    let service = Service::builder(engine()).memory_budget(held + ROOM).unwrap().build();
    let client = asking(service.clone());
    let session = client.session(&json!({"image": "core"})).await;
    client.run(&session, "x = 3").await;

    // Zeros might use no memory.
    let taken = vec![1_u8; 4 * ROOM as usize];
    tokio::time::sleep(Duration::from_millis(200)).await;
    for (method, path, body) in begun(&session) {
        let answer = client.json(method, &path, &body).await;
        let expected = if path.starts_with("/run_") { 504 } else { 503 };
        assert_eq!(answer.status, expected, "{path}: {answer}");
        assert_eq!(answer.headers["retry-after"], "1", "{path}");
        assert!(answer.text().contains("reached its memory budget"), "{path}: {answer}");
    }
    // If a full server were not ready, all servers of a busy fleet would be unavailable at once.
    assert_eq!(client.get("/readyz").await.status, 200);
    assert_eq!(client.get("/healthz").await.status, 200);
    let figures = client.get("/metrics").await.text().to_owned();
    assert!(figures.contains("belljar_refusals_total{code=\"memory_budget\"}"), "{figures}");
    assert_eq!(figure(&figures, "belljar_memory_budget_bytes"), held + ROOM);
    assert!(figure(&figures, "belljar_held_bytes") > held + ROOM, "{}", taken.len());
    // Operations that free memory are allowed.
    let suspended = client.post(&format!("/v1/sessions/{session}/suspend"), &json!({})).await;
    assert_eq!(suspended.json()["suspended"], true, "{suspended}");

    drop(taken);
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(client.run(&session, "print(x)").await["stdout"], "3\n");
    service.close_all();
}

#[test]
fn a_budget_below_what_the_process_holds_is_refused() {
    let refused = Service::builder(engine()).memory_budget(1 << 20).err().unwrap();
    assert!(
        matches!(
            refused,
            BudgetError::TooSmall {
                budget: 0x10_0000,
                ..
            }
        ),
        "{refused}"
    );
}

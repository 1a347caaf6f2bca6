//! The OpenAPI document matches the server's behaviour.

use axum::http::StatusCode;
use serde_json::Value;

use crate::support::open;

#[tokio::test(flavor = "multi_thread")]
async fn every_operation_that_is_documented_is_answered() {
    let client = open();
    let document = client.get("/v1/openapi.json").await.json();
    assert_eq!(document["openapi"], "3.1.0");
    let mut count = 0;
    for (path, methods) in document["paths"].as_object().unwrap() {
        let concrete = path.replace("{id}", "0").replace("{path}", "p").replace("{name}", "n");
        assert!(!concrete.contains('{'), "{path}");
        for method in methods.as_object().unwrap().keys() {
            let answer = client.ask(&method.to_uppercase(), &concrete, &[]).await;
            let is_answered = match answer.status {
                StatusCode::METHOD_NOT_ALLOWED => false,
                // An error of the face, not of the router.
                StatusCode::NOT_FOUND => answer.problem() != "no_route",
                _ => true,
            };
            assert!(is_answered, "{method} {path}: {answer}");
            count += 1;
        }
        let other = client.ask("TRACE", &concrete, &[]).await;
        assert_eq!(other.status, 405, "{path}");
    }
    assert!(count >= 30, "{count}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_there_is_a_problem_too() {
    let client = open();
    for path in ["/v1/nonesuch", "/v1/", "/nonesuch"] {
        assert_eq!(client.get(path).await.problem(), "no_route", "{path}");
    }
    assert_eq!(client.ask("PUT", "/v1/runs", &[]).await.problem(), "no_method");
}

#[tokio::test(flavor = "multi_thread")]
async fn mistakes_outside_of_a_body_are_problems_too() {
    let client = open();
    let session = client.session(&serde_json::json!({})).await;
    for (path, code) in [
        ("files?depth=deep".to_owned(), "bad_query"),
        ("files?depth=".to_owned(), "bad_query"),
        ("terminal".to_owned(), "no_websocket"),
    ] {
        let answer = client.get(&format!("/v1/sessions/{session}/{path}")).await;
        assert_eq!((answer.status.as_u16(), answer.problem().as_str()), (400, code), "{path}");
    }
    let answer = client.post("/v1/batch?unordered=perhaps", &Value::Null).await;
    assert_eq!(answer.problem(), "bad_query");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_document_says_what_a_body_and_a_query_have_to_be() {
    let document = open().get("/v1/openapi.json").await.json();
    let operation = |path: &str| document["paths"][path]["post"].clone();
    assert_eq!(operation("/v1/runs")["requestBody"]["required"], true);
    assert_eq!(operation("/v1/sessions")["requestBody"]["required"], false);
    assert_eq!(operation("/v1/batch")["parameters"][0]["schema"]["type"], "boolean");
    let name = &document["components"]["schemas"]["Fork"]["properties"]["name"];
    assert!(name["pattern"].is_string(), "{name}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_loads_nothing_from_elsewhere() {
    let page = open().get("/v1/docs").await;
    let policy = page.headers["content-security-policy"].to_str().unwrap();
    assert!(policy.starts_with("default-src 'none'; style-src 'sha256-"), "{policy}");
    let text = page.text();
    assert!(!text.contains("://") && !text.contains("<script"), "something is loaded");
    for path in open().get("/v1/openapi.json").await.json()["paths"].as_object().unwrap().keys() {
        let path = path.replace("{path}", "{*path}");
        assert!(text.contains(&path), "{path} is not on the page");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_outcome_is_what_the_document_says() {
    let client = open();
    let document = client.get("/v1/openapi.json").await.json();
    let answer = client.post("/v1/runs", &serde_json::json!({"code": "print(1)"})).await.json();
    let schema = &document["paths"]["/v1/runs"]["post"]["responses"]["200"]["content"]["application/json"]
        ["schema"];
    let mut root: Value = schema.clone();
    root["components"] = document["components"].clone();
    let validator = jsonschema::validator_for(&root).unwrap();
    assert!(validator.is_valid(&answer), "{:?}", validator.iter_errors(&answer).next());
    assert!(!validator.is_valid(&serde_json::json!({"stdout": 1})));
}

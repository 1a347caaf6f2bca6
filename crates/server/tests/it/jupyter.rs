//! Jupyter's REST API, and isolation of kernels between owners.

use axum::body::Body;
use axum::http::{Method, Request, StatusCode};
use belljar_server::KeyLimits;
use serde_json::json;

use crate::place::{Place, answer};

/// The status of a request without a body.
async fn ask(place: &Place, method: Method, path: &str, key: &str) -> StatusCode {
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("authorization", format!("token {key}"))
        .body(Body::empty())
        .unwrap();
    answer(place.send(request).await).await.0
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_reaches_the_kernels_of_others() {
    let place = Place::new();
    let notebook = json!({"path": "a.ipynb", "type": "notebook", "name": "a"});
    let (status, session) = place.json(&place.one, "/api/sessions", notebook).await;
    assert_eq!(status, StatusCode::CREATED);
    let kernel = session["kernel"]["id"].as_str().unwrap();
    let session = session["id"].as_str().unwrap();
    for (method, path) in [
        (Method::GET, format!("/api/kernels/{kernel}")),
        (Method::POST, format!("/api/kernels/{kernel}/interrupt")),
        (Method::POST, format!("/api/kernels/{kernel}/restart")),
        (Method::DELETE, format!("/api/kernels/{kernel}")),
        (Method::GET, format!("/api/sessions/{session}")),
        (Method::PATCH, format!("/api/sessions/{session}")),
        (Method::DELETE, format!("/api/sessions/{session}")),
    ] {
        assert_eq!(ask(&place, method.clone(), &path, "nobody").await, StatusCode::FORBIDDEN);
        let status = ask(&place, method.clone(), &path, &place.two).await;
        assert_eq!(status, StatusCode::NOT_FOUND, "{method} {path}");
    }
    let theirs = json!({"path": "b", "type": "notebook", "kernel": {"id": kernel}});
    let (status, _) = place.json(&place.two, "/api/sessions", theirs).await;
    assert_eq!(status, StatusCode::NOT_FOUND);
    for path in ["/api/kernels", "/api/sessions"] {
        assert_eq!(place.get(&place.two, path).await.1, json!([]), "{path}");
        assert_eq!(place.get(&place.one, path).await.1.as_array().unwrap().len(), 1, "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kernel_that_is_ended_at_once_leaves_no_session() {
    let place = Place::new();
    for _ in 0..20 {
        let (_, model) = place.post(&place.one, "/api/kernels", "").await;
        let path = format!("/api/kernels/{}", model["id"].as_str().unwrap());
        assert_eq!(ask(&place, Method::DELETE, &path, &place.one).await, StatusCode::NO_CONTENT);
    }
    let owner = place.owner(&place.one);
    for _ in 0..100 {
        if place.service.list(&owner).await.unwrap().is_empty() {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    panic!("sessions are left: {}", place.service.list(&owner).await.unwrap().len());
}

#[tokio::test(flavor = "multi_thread")]
async fn kernels_count_as_sessions_and_end_with_theirs() {
    let mut limits = KeyLimits::default();
    limits.sessions = Some(1);
    let place = Place::limited(limits);
    let (_, model) = place.post(&place.one, "/api/kernels", "").await;
    let (status, refused) = place.post(&place.one, "/api/kernels", "").await;
    assert_eq!(status, StatusCode::TOO_MANY_REQUESTS, "{refused}");
    let held = place.service.list(&place.owner(&place.one)).await.unwrap().remove(0);
    place.service.remove(&place.owner(&place.one), &held.id).unwrap();
    let path = format!("/api/kernels/{}", model["id"].as_str().unwrap());
    assert_eq!(place.get(&place.one, &path).await.0, StatusCode::NOT_FOUND);
    assert_eq!(place.post(&place.one, "/api/kernels", "").await.0, StatusCode::CREATED);
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_that_are_none_are_refused() {
    let place = Place::new();
    let long = json!({"path": "a".repeat(5_000), "type": "notebook"}).to_string();
    for body in ["{", "[]", "5", "null", r#"{"path": 5}"#, r#"{"type": "notebook"}"#, &long] {
        let (status, answer) = place.post(&place.one, "/api/sessions", body.to_owned()).await;
        assert_eq!(status, StatusCode::BAD_REQUEST, "{body:.40}: {answer}");
    }
    for body in ["{", "[1]", r#"{"name": 5}"#, r#"{"env": {"A": 5}}"#] {
        let (status, answer) = place.post(&place.one, "/api/kernels", body.to_owned()).await;
        assert_eq!(status, StatusCode::BAD_REQUEST, "{body}: {answer}");
    }
    assert_eq!(place.get(&place.one, "/api/kernels").await.1, json!([]));
}

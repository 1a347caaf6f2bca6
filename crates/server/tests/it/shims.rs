//! Faces of code runners, and unusual requests to them.

use std::time::Duration;

use axum::body::Body;
use axum::http::{Request, StatusCode};
use belljar_server::KeyLimits;
use serde_json::{Value, json};

use crate::place::{Place, answer};

/// All paths that accept a JSON body, with a body that would run code.
fn faces() -> Vec<(&'static str, Value)> {
    let tool = json!({"name": "price", "parameters": {"type": "object", "properties": {}}});
    vec![
        ("/v1/sandbox/run", json!({"language": "python3", "code": "print(1)"})),
        ("/run_code", json!({"language": "python", "code": "print(1)"})),
        ("/run_jupyter", json!({"cells": ["print(1)"]})),
        ("/librechat/exec", json!({"lang": "py", "code": "print(1)"})),
        ("/librechat/exec/programmatic", json!({"code": "print(1)", "tools": [tool]})),
        (
            "/api/v2/execute",
            json!({"language": "python", "version": "*", "files": [{"content": "print(1)"}]}),
        ),
        ("/judge0/submissions?wait=true", json!({"source_code": "print(1)", "language_id": 71})),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn every_face_runs_and_leaves_nothing_behind() {
    let place = Place::new();
    for (path, body) in faces() {
        let (status, answer) = place.json(&place.one, path, body).await;
        assert!(status.is_success(), "{path}: {status} {answer}");
        assert!(answer.to_string().contains(r"1\n"), "{path}: {answer}");
    }
    assert_eq!(place.service.under_way(), 0);
    assert!(place.service.list(&place.owner(&place.one)).await.unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_that_are_none_are_refused_by_every_face() {
    let place = Place::new();
    let deep = "[".repeat(1_000_000);
    let nested = format!(r#"{{"code": {}1{}}}"#, "[".repeat(100_000), "]".repeat(100_000));
    let huge_number =
        r#"{"language": "python", "code": "1", "run_timeout": 1e999, "cells": 1e999}"#;
    let bodies =
        ["", "null", "[]", "{", "\u{0}", "{\"code\": 3}", deep.as_str(), &nested, huge_number];
    for (path, _) in faces() {
        for body in bodies {
            let (status, answer) = place.post(&place.one, path, body.to_owned()).await;
            // In Dify's API, all errors except two have status 200.
            let is_refused = status.is_client_error() || answer["code"].as_i64() < Some(0);
            assert!(is_refused, "{path}: {status} {answer} for {:?}", &body[..body.len().min(40)]);
        }
        let (status, answer) = place.post(&place.one, path, vec![b' '; 40 << 20]).await;
        let is_refused =
            status == StatusCode::PAYLOAD_TOO_LARGE || answer["code"].as_i64() == Some(-400);
        assert!(is_refused, "{path}: {status} {answer}");
    }
    assert_eq!(place.service.under_way(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_nobody_has_opens_no_face() {
    let place = Place::new();
    for (path, body) in faces() {
        for key in ["", "belljar_", "local", &place.one[1..]] {
            let (status, answer) = place.json(key, path, body.clone()).await;
            assert_eq!(status, StatusCode::UNAUTHORIZED, "{path}: {answer}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn names_of_files_do_not_leave_the_workspace() {
    let place = Place::new();
    let code = "import os\nprint(sorted(os.listdir('.')))";
    for name in ["../a", "/etc/passwd", "a/../../b", "a\u{0}b", "", ".", "a\\b", "/workspace/../x"]
    {
        let fusion = json!({"language": "python", "code": code, "files": {name: "eA=="}});
        let (status, answer) = place.json(&place.one, "/run_code", fusion).await;
        assert_eq!(
            (status, &answer["status"]),
            (StatusCode::OK, &json!("SandboxError")),
            "{name:?}"
        );
        let file = json!({"name": name, "content": "x"});
        let main = json!({"name": "main.py", "content": code});
        let piston = json!({"language": "python", "version": "*", "files": [main, file]});
        let (status, answer) = place.json(&place.one, "/api/v2/execute", piston).await;
        // An unnamed file gets a name.
        let expected = if name.is_empty() {
            StatusCode::OK
        } else {
            StatusCode::BAD_REQUEST
        };
        assert_eq!(status, expected, "{name:?}: {answer}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_fetched_is_the_workspaces_and_no_link_leads_out() {
    let place = Place::new();
    let code = "import os\nopen('a', 'w').write('x')\n\
                for name, to in (('link', '/etc/passwd'), ('out', '../../etc/passwd'), ('up', '..')):\n    \
                    try:\n        os.symlink(to, name)\n    except OSError:\n        pass";
    let wanted =
        ["link", "up/../../etc/passwd", "../a", "/etc/hostname", "a", "/tmp/a", "up/etc/passwd"];
    let body = json!({"language": "python", "code": code, "fetch_files": wanted});
    let (_, answer) = place.json(&place.one, "/run_code", body).await;
    assert_eq!(answer["files"], json!({"a": "eA=="}), "{answer}");
    let body = json!({"cells": [code], "fetch_files": wanted});
    let (_, answer) = place.json(&place.one, "/run_jupyter", body).await;
    assert_eq!(answer["files"], json!({"a": "eA=="}), "{answer}");
    let body = json!({"lang": "py", "code": code});
    let (_, answer) = place.json(&place.one, "/librechat/exec", body).await;
    let names: Vec<_> = answer["files"].as_array().unwrap().iter().map(|f| &f["name"]).collect();
    assert_eq!(names, [&json!("a")], "{answer}");
}

#[tokio::test(flavor = "multi_thread")]
async fn base64_that_is_none_is_told() {
    let place = Place::new();
    for text in ["*", "a", "eA==eA==", "\u{e9}"] {
        let body = json!({"language": "python", "code": "1", "files": {"a": text}});
        let (_, answer) = place.json(&place.one, "/run_code", body).await;
        assert_eq!(answer["status"], "SandboxError");
        assert!(answer["message"].as_str().unwrap().contains("base64"), "{answer}");
        let files = json!([{"content": "1"}, {"content": text, "encoding": "base64"}]);
        let body = json!({"language": "python", "version": "*", "files": files});
        let (status, _) = place.json(&place.one, "/api/v2/execute", body).await;
        assert_eq!(status, StatusCode::BAD_REQUEST);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_goes_away_takes_its_run_along() {
    let place = Place::new();
    let forever = "while True: pass";
    let tool = json!({"name": "price", "parameters": {"type": "object", "properties": {}}});
    for (path, body) in [
        ("/v1/sandbox/run", json!({"language": "python3", "code": forever})),
        ("/run_code", json!({"language": "python", "code": forever, "run_timeout": 1000})),
        ("/run_jupyter", json!({"cells": [forever], "total_timeout": 1000})),
        ("/librechat/exec", json!({"lang": "py", "code": forever, "timeout": 1_000_000})),
        (
            "/librechat/exec/programmatic",
            json!({"code": forever, "tools": [tool], "timeout": 1_000_000}),
        ),
    ] {
        let asking = place.json(&place.one, path, body);
        tokio::time::timeout(Duration::from_millis(400), asking).await.unwrap_err();
        // Interrupted, and given the grace.
        for _ in 0..200 {
            if place.service.under_way() == 0 {
                break;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        assert_eq!(place.service.under_way(), 0, "{path}");
        assert!(place.service.list(&place.owner(&place.one)).await.unwrap().is_empty(), "{path}");
    }
}

/// The token of a program that waits for a tool.
async fn waiting(place: &Place) -> String {
    let tool = json!({"name": "price", "parameters": {"type": "object", "properties": {}}});
    let body = json!({"code": "print(await price())", "tools": [tool]});
    let (_, answer) = place.json(&place.one, "/librechat/exec/programmatic", body).await;
    assert_eq!(answer["status"], "tool_call_required", "{answer}");
    answer["continuation_token"].as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_is_of_use_to_its_owner_only() {
    let place = Place::new();
    let token = waiting(&place).await;
    let path = "/librechat/exec/programmatic";
    let results = json!([{"call_id": "call_001", "result": 5}]);
    let body = |token: &str| json!({"continuation_token": token, "tool_results": results});
    let (status, _) = place.json(&place.two, path, body(&token)).await;
    assert_eq!(status, StatusCode::NOT_FOUND);
    // A session's own id is not a token, either.
    let id = place.service.list(&place.owner(&place.one)).await.unwrap().remove(0).id;
    let (status, _) = place.json(&place.one, path, body(&id)).await;
    assert_eq!(status, StatusCode::NOT_FOUND);
    let (status, answer) = place.json(&place.one, path, body(&token)).await;
    assert_eq!((status, &answer["stdout"]), (StatusCode::OK, &json!("5\n")));
    assert!(place.service.list(&place.owner(&place.one)).await.unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn two_that_answer_at_once_are_not_both_heard() {
    let place = Place::new();
    let token = waiting(&place).await;
    let answering = |value: u64| {
        let results = json!([{"call_id": "call_001", "result": value}]);
        let body = json!({"continuation_token": token, "tool_results": results});
        place.json(&place.one, "/librechat/exec/programmatic", body)
    };
    let (one, other) = tokio::join!(answering(1), answering(2));
    let heard = [&one, &other].into_iter().filter(|(status, _)| status.is_success()).count();
    assert_eq!(heard, 1, "{one:?} {other:?}");
    assert!(place.service.list(&place.owner(&place.one)).await.unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn files_are_their_owners_own() {
    let place = Place::new();
    let body = json!({"lang": "py", "code": "open('a.txt', 'w').write('secret')"});
    let (_, answer) = place.json(&place.one, "/librechat/exec", body).await;
    let file = &answer["files"][0];
    let (session, id) =
        (file["storage_session_id"].as_str().unwrap(), file["id"].as_str().unwrap());
    let path = format!("/librechat/download/{session}/{id}");
    assert_eq!(place.get(&place.one, &path).await, (StatusCode::OK, json!("secret")));
    assert_eq!(place.get(&place.two, &path).await.0, StatusCode::NOT_FOUND);
    assert_eq!(place.get(&place.two, &format!("/librechat/files/{session}")).await.1, json!([]));
    let body = json!({"lang": "py", "code": "print(open('a.txt').read())", "files": [file]});
    let (_, answer) = place.json(&place.two, "/librechat/exec", body).await;
    assert!(!answer["stdout"].as_str().unwrap().contains("secret"), "{answer}");
    for path in [
        format!("/librechat/download/{session}/..%2f{id}"),
        "/librechat/download/..%2f..%2fetc/passwd".to_owned(),
        format!("/librechat/download/{session}/%00"),
    ] {
        assert_eq!(place.get(&place.one, &path).await.0, StatusCode::NOT_FOUND, "{path}");
    }
    // Another owner's directory of the same name is a different directory.
    let make = json!({"lang": "py", "code": "open('b', 'w').close()", "runtime_session_hint": "h"});
    place.json(&place.one, "/librechat/exec", make).await;
    let look = json!({"lang": "py", "code": "import os\nprint(os.listdir())", "runtime_session_hint": "h"});
    let (_, answer) = place.json(&place.two, "/librechat/exec", look).await;
    assert_eq!((&answer["stdout"], &answer["runtime_status"]), (&json!("[]\n"), &json!("new")));
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_cancels_somebody_elses_request() {
    let place = Place::new();
    let tool = json!({"name": "price", "parameters": {"type": "object", "properties": {}}});
    let body = json!({"code": "import time\ntime.sleep(1)\nprint('ran')", "tools": [tool]});
    let request = Request::post("/librechat/exec/programmatic")
        .header("x-api-key", &place.one)
        .header("x-librechat-code-request-id", "r")
        .body(Body::from(body.to_string()))
        .unwrap();
    let cancelling = async {
        tokio::time::sleep(Duration::from_millis(200)).await;
        let cancel = json!({"request_id": "r"});
        place.json(&place.two, "/librechat/exec/programmatic/cancel", cancel).await
    };
    let (response, (status, _)) = tokio::join!(place.send(request), cancelling);
    assert_eq!(status, StatusCode::ACCEPTED);
    let (_, answer) = answer(response).await;
    assert_eq!((&answer["status"], &answer["stdout"]), (&json!("completed"), &json!("ran\n")));
}

#[tokio::test(flavor = "multi_thread")]
async fn forms_that_are_none_are_refused() {
    let place = Place::new();
    let upload = async |kind: &str, body: &'static str| {
        let request = Request::post("/librechat/upload")
            .header("x-api-key", &place.one)
            .header("content-type", kind)
            .body(Body::from(body))
            .unwrap();
        answer(place.send(request).await).await.0
    };
    let form = "multipart/form-data; boundary=b";
    for (kind, body) in [
        ("application/json", "{}"),
        ("multipart/form-data", "--b\r\n"),
        (form, ""),
        (form, "--b"),
        (
            form,
            "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a\"\r\n\r\nno end",
        ),
        (form, "--b--\r\n"),
        (
            form,
            "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"../a\"\r\n\r\nx\r\n--b--\r\n",
        ),
    ] {
        assert!(upload(kind, body).await.is_client_error(), "{kind}: {body}");
    }
    let good = "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a\"\r\n\r\nx\r\n--b--\r\n";
    assert_eq!(upload(form, good).await, StatusCode::OK);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_limit_of_a_key_is_told_in_the_words_of_each_face() {
    let limits: KeyLimits = serde_json::from_value(json!({"runs_per_minute": 1})).unwrap();
    for (path, body) in faces() {
        let place = Place::limited(limits.clone());
        place.json(&place.one, path, body.clone()).await;
        let (status, answer) = place.json(&place.one, path, body).await;
        let told = (status.as_u16(), answer["code"].as_i64(), answer["error"].as_str());
        match path {
            "/v1/sandbox/run" => assert_eq!(told, (200, Some(-429), None), "{answer}"),
            "/run_code" | "/run_jupyter" => assert_eq!(status, StatusCode::GATEWAY_TIMEOUT),
            "/api/v2/execute" | "/judge0/submissions?wait=true" => {
                assert_eq!(status, StatusCode::TOO_MANY_REQUESTS);
            }
            _ => {
                assert_eq!(told, (429, None, Some("rate_limited")), "{path}: {answer}");
                assert!(answer["retry_after_seconds"].as_u64() > Some(0));
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tools_that_could_not_be_called_are_refused_and_large_answers_are_told() {
    let place = Place::new();
    let path = "/librechat/exec/programmatic";
    let many: Vec<Value> = (0..300).map(|n| json!({"name": format!("tool_{n}")})).collect();
    for tools in
        [json!(many), json!([{"name": "x".repeat(100)}]), json!([{"name": "é"}]), json!([{}])]
    {
        let body = json!({"code": "1", "tools": tools});
        let (status, answer) = place.json(&place.one, path, body).await;
        assert!(status.is_client_error(), "{answer}");
    }
    let schema = json!({"type": "array", "properties": {"x": {"$ref": "file:///etc/passwd"}}});
    let tool = json!({"name": "price", "parameters": schema, "description": "x".repeat(1000)});
    let body = json!({"code": "try:\n    await price(x=1)\nexcept Exception as e:\n    print(type(e).__name__)", "tools": [tool]});
    let (_, answer) = place.json(&place.one, path, body).await;
    let token = &answer["continuation_token"];
    let large = json!([{"call_id": "call_001", "result": "x".repeat(5 << 20)}]);
    let body = json!({"continuation_token": token, "tool_results": large});
    let (_, answer) = place.json(&place.one, path, body).await;
    assert_eq!(answer["stdout"], "ToolError\n", "{answer}");
    assert!(place.service.list(&place.owner(&place.one)).await.unwrap().is_empty());
}

//! `/v1/runs`, `/v1/check`, `/v1/batch`, `/v1/images`.

use axum::body::Body;
use axum::http::Request;
use serde_json::{Value, json};

use crate::support::{events, open};

#[tokio::test(flavor = "multi_thread")]
async fn a_run_answers_with_its_outcome() {
    let answer = open().post("/v1/runs", &json!({"id": 7, "code": "print(1)\nresult = 2"})).await;
    assert_eq!(answer.status, 200, "{answer}");
    let outcome = answer.json();
    assert_eq!(outcome["id"], 7);
    assert_eq!(outcome["stdout"], "1\n");
    assert_eq!(outcome["result"], 2);
    assert!(outcome.get("run").is_none(), "{outcome}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_code_does_wrong_is_no_problem() {
    let answer = open().post("/v1/runs", &json!({"code": "1/0"})).await;
    assert_eq!(answer.status, 200, "{answer}");
    assert_eq!(answer.json()["error_detail"]["type"], "ZeroDivisionError");
}

#[tokio::test(flavor = "multi_thread")]
async fn mistakes_are_told_by_code_and_field() {
    let client = open();
    for (body, status, code, word) in [
        (json!({"cod": "1"}), 422, "bad_field", "`cod`"),
        (json!({"code": 1}), 422, "bad_field", "string"),
        (json!(["1"]), 422, "bad_field", "expected an object"),
        (json!({"code": "1", "timeout": -1}), 422, "refused", "limits.timeout"),
        (json!({"code": "1", "files": {"a": {"path": "/etc/passwd"}}}), 422, "refused", "host"),
        (json!({"code": "1", "files": {"../a": "x"}}), 422, "refused", "files"),
        (json!({"code": "1", "image": "nonesuch"}), 404, "image.unknown", "nonesuch"),
    ] {
        let answer = client.post("/v1/runs", &body).await;
        assert_eq!((answer.status.as_u16(), answer.problem().as_str()), (status, code), "{answer}");
        assert!(answer.text().contains(word), "{answer}");
    }
    let request = Request::post("/v1/runs").header("content-type", "application/json");
    let answer = client.send(request.body(Body::from("{")).unwrap()).await;
    assert_eq!(answer.problem(), "not_json");
    let answer = client.send(Request::post("/v1/runs").body(Body::from("{}")).unwrap()).await;
    assert_eq!((answer.status.as_u16(), answer.problem().as_str()), (415, "not_json_type"));
}

#[tokio::test(flavor = "multi_thread")]
async fn files_go_in_by_a_form_and_come_out_in_ranges() {
    let client = open();
    let code =
        "text = open('in/a.txt').read() + open('b.txt').read()\nopen('out.txt', 'w').write(text)";
    let part = |head: &str, body: &str| {
        format!("--x\r\nContent-Disposition: form-data; {head}\r\n\r\n{body}\r\n")
    };
    let form = [
        part("name=\"request\"", &json!({ "code": code }).to_string()),
        part("name=\"in/a.txt\"; filename=\"whatever\"", "hello "),
        part("name=\"file\"; filename=\"b.txt\"", "world"),
        "--x--\r\n".into(),
    ]
    .concat();
    let request = Request::post("/v1/runs")
        .header("content-type", "multipart/form-data; boundary=x")
        .body(form.into());
    let answer = client.send(request.unwrap()).await;
    assert_eq!(answer.status, 200, "{answer}");
    let outcome = answer.json();
    assert_eq!(outcome["success"], true, "{outcome}");
    let path = format!("/v1/runs/{}/files/out.txt", outcome["run"].as_str().unwrap());
    let whole = client.get(&path).await;
    assert_eq!(whole.text(), "hello world");
    assert_eq!(whole.headers["content-length"], "11");
    assert!(whole.headers["content-disposition"].to_str().unwrap().starts_with("attachment"));
    let part = client.ask("GET", &path, &[("range", "bytes=6-")]).await;
    assert_eq!((part.status.as_u16(), part.text()), (206, "world"));
    assert_eq!(part.headers["content-range"], "bytes 6-10/11");
    let run = path.strip_suffix("/files/out.txt").unwrap();
    assert_eq!(client.get(&format!("{run}/files/in/a.txt")).await.problem(), "no_such_file");
    assert_eq!(client.ask("DELETE", run, &[]).await.status, 204);
    assert_eq!(client.get(&path).await.problem(), "run.not_found");
}

#[tokio::test(flavor = "multi_thread")]
async fn events_come_one_by_one_and_the_outcome_last() {
    let code = "import sys\nn = sys.stdout.write('a\\n')\nn = sys.stderr.write('b\\n')";
    let request = Request::post("/v1/runs")
        .header("content-type", "application/json")
        .header("accept", "text/event-stream")
        .body(json!({"id": "n", "code": code}).to_string().into());
    let answer = open().send(request.unwrap()).await;
    assert_eq!(answer.headers["content-type"], "text/event-stream");
    let events = events(answer.text());
    let names: Vec<&str> = events.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["started", "stdout", "stderr", "ended", "outcome"]);
    assert_eq!(events[1].1["text"], "a\n");
    assert_eq!((&events[4].1["id"], &events[4].1["stdout"]), (&json!("n"), &json!("a\n")));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_cannot_begin_is_a_problem() {
    let request = Request::post("/v1/runs")
        .header("content-type", "application/json")
        .header("accept", "text/event-stream")
        .body(json!({"code": "1", "timeout": 1e9}).to_string().into());
    let answer = open().send(request.unwrap()).await;
    assert_eq!(answer.problem(), "refused");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_answers_every_line_in_order() {
    let lines = [
        r#"{"id": 1, "code": "import time; time.sleep(0.2); print(1)"}"#,
        "",
        r#"{"id": 2, "cod": ""}"#,
        "nonsense",
        r#"{"id": 3, "code": "print(3)"}"#,
        "[1]",
    ];
    let request = Request::post("/v1/batch").body(lines.join("\n").into()).unwrap();
    let answer = open().send(request).await;
    assert_eq!(answer.headers["content-type"], "application/x-ndjson");
    let lines: Vec<Value> =
        answer.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 5, "{lines:#?}");
    assert_eq!((&lines[0]["id"], &lines[0]["stdout"]), (&json!(1), &json!("1\n")));
    assert_eq!((&lines[1]["id"], &lines[1]["line"]), (&json!(2), &json!(3)));
    assert_eq!(lines[1]["code"], "bad_field");
    assert_eq!(lines[2]["line"], 4);
    assert_eq!((&lines[3]["id"], &lines[3]["stdout"]), (&json!(3), &json!("3\n")));
    assert_eq!(lines[4]["line"], 6);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_out_of_order_answers_whoever_is_first() {
    let lines =
        "{\"id\": 1, \"code\": \"import time; time.sleep(0.5)\"}\n{\"id\": 2, \"code\": \"1\"}";
    let request = Request::post("/v1/batch?unordered=true").body(lines.into()).unwrap();
    let answer = open().send(request).await;
    let ids: Vec<Value> = answer
        .text()
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["id"].take())
        .collect();
    assert_eq!(ids, [2, 1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn code_is_checked_and_images_are_listed() {
    let client = open();
    let found = client.post("/v1/check", &json!({"code": "import os, torch"})).await.json();
    assert_eq!(found["clean"], false);
    assert_eq!(found["missing_imports"], json!(["torch"]));
    assert_eq!(found["violations"][0]["message"], "Forbidden import: os");
    let images = client.get("/v1/images").await.json();
    let names: Vec<&str> =
        images["images"].as_array().unwrap().iter().map(|i| i["name"].as_str().unwrap()).collect();
    assert!(names.starts_with(&["core", "data", "science"]), "{names:?}");
}

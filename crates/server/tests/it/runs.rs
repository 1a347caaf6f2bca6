//! `/v1/runs`, `/v1/check`, `/v1/batch`, `/v1/images`.

use axum::body::{Body, BodyDataStream};
use axum::http::Request;
use belljar_server::KeyLimits;
use futures_util::StreamExt;
use serde_json::{Value, json};
use tower::ServiceExt;

use crate::support::{events, open, with_keys};

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

/// The data of a stream's next event of that type.
async fn next(body: &mut BodyDataStream, seen: &mut String, name: &str) -> Value {
    loop {
        let mark = format!("event: {name}\ndata: ");
        if let Some((_, rest)) = seen.split_once(&mark)
            && let Some((data, rest)) = rest.split_once("\n\n")
        {
            let data = serde_json::from_str(data).unwrap();
            let rest = rest.to_owned();
            *seen = rest;
            return data;
        }
        let piece = body.next().await.unwrap_or_else(|| panic!("no {name} in {seen}")).unwrap();
        seen.push_str(std::str::from_utf8(&piece).unwrap());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_answers_calls_of_its_tools() {
    let [client, stranger] =
        with_keys([("ada", KeyLimits::default()), ("bob", KeyLimits::default())]);
    let code = "import tools\nprint(tools.price(symbol='ACME'))\nprint(input('who? '))\ntry:\n    \
                tools.price('X')\nexcept tools.ToolError as error:\n    print(error.kind, error.message)";
    let tool = json!({"name": "price", "schema": {"properties": {"symbol": {"type": "string"}}}});
    let asked = json!({
        "code": code, "image": "core", "timeout": 60,
        "client_tools": [tool], "client_input": true, "events": false,
    });
    let answer = client.post("/v1/runs", &asked).await;
    assert_eq!(answer.problem(), "bad_field", "{answer}");
    let request = Request::post("/v1/runs")
        .header("content-type", "application/json")
        .header("accept", "text/event-stream")
        .header("authorization", format!("Bearer {}", client.key.as_ref().unwrap()))
        .body(Body::from(asked.to_string()));
    let response = client.router.clone().oneshot(request.unwrap()).await.unwrap();
    let (mut body, mut seen) = (response.into_body().into_data_stream(), String::new());
    let call = next(&mut body, &mut seen, "call").await;
    assert_eq!((&call["name"], &call["arguments"]), (&json!("price"), &json!({"symbol": "ACME"})));
    let path = format!("/v1/calls/{}", call["id"].as_str().unwrap());
    assert_eq!(stranger.post(&path, &json!({"answer": 0})).await.problem(), "call.not_found");
    assert_eq!(client.post(&path, &json!({"answr": 0})).await.problem(), "bad_field");
    assert_eq!(client.post(&path, &json!({"answer": 42.5})).await.status, 204);
    assert_eq!(client.post(&path, &json!({"answer": 1})).await.problem(), "call.not_found");
    let input = next(&mut body, &mut seen, "input").await;
    assert_eq!(input["prompt"], "who? ");
    let path = format!("/v1/calls/{}", input["id"].as_str().unwrap());
    assert_eq!(client.post(&path, &json!({"answer": "Ada"})).await.status, 204);
    let call = next(&mut body, &mut seen, "call").await;
    let path = format!("/v1/calls/{}", call["id"].as_str().unwrap());
    let denial = json!({"error": "not that one", "denied": true});
    assert_eq!(client.post(&path, &denial).await.status, 204);
    let outcome = next(&mut body, &mut seen, "outcome").await;
    assert_eq!(outcome["stdout"], "42.5\nwho? Ada\ndenied not that one\n");
    assert!(body.next().await.is_none() && !seen.contains("event: stdout"), "{seen}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_ends_early_is_told() {
    let client = open();
    let asked = json!({
        "code": "import tools\ntools.slow()", "image": "core", "timeout": 60, "events": false,
        "client_tools": [{"name": "slow", "timeout": 0.2}], "tool_limits": {"calls": 1},
    });
    let request = Request::post("/v1/runs")
        .header("content-type", "application/json")
        .header("accept", "text/event-stream")
        .body(asked.to_string().into());
    let events = events(client.send(request.unwrap()).await.text());
    let names: Vec<&str> = events.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["call", "call_cancelled", "outcome"]);
    assert_eq!(events[0].1["id"], events[1].1["id"]);
    assert_eq!(events[2].1["tool_calls"][0]["error"]["kind"], "timeout");
    let path = format!("/v1/calls/{}", events[0].1["id"].as_str().unwrap());
    assert_eq!(client.post(&path, &json!({"answer": 0})).await.problem(), "call.not_found");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_is_interrupted_by_its_id() {
    let client = open();
    let code = "print(1)\nwhile True: pass";
    let asked = json!({"code": code, "image": "core", "timeout": 60, "client_interrupt": true});
    let request = Request::post("/v1/runs")
        .header("content-type", "application/json")
        .header("accept", "text/event-stream")
        .body(Body::from(asked.to_string()));
    let response = client.router.clone().oneshot(request.unwrap()).await.unwrap();
    let (mut body, mut seen) = (response.into_body().into_data_stream(), String::new());
    let run = next(&mut body, &mut seen, "run").await;
    next(&mut body, &mut seen, "stdout").await;
    let path = format!("/v1/runs/{}/interrupt", run["id"].as_str().unwrap());
    assert_eq!(client.ask("POST", &path, &[]).await.status, 204);
    let outcome = next(&mut body, &mut seen, "outcome").await;
    assert_eq!(outcome["error_detail"]["kind"], "interrupted");
    drop(body);
    assert_eq!(client.ask("POST", &path, &[]).await.problem(), "run.not_found");
}

#[tokio::test(flavor = "multi_thread")]
async fn deferred_calls_of_a_session_are_answered() {
    let client = open();
    let tool = json!({"name": "approve", "schema": {"properties": {"amount": {}}}});
    let session = client.session(&json!({"image": "core", "tools": [tool]})).await;
    let outcome = client.run(&session, "import tools\nok = tools.approve(amount=9)\nok").await;
    assert_eq!(outcome["error_detail"]["kind"], "waiting");
    let path = format!("/v1/sessions/{session}");
    let waiting = client.get(&format!("{path}/waiting")).await.json();
    assert_eq!(
        waiting,
        json!({"calls": [{"id": 1, "name": "approve", "arguments": {"amount": 9}}]})
    );
    let answers = json!({"answers": [{"id": 1, "answer": "yes"}]});
    let outcome = client.post(&format!("{path}/answer"), &answers).await.json();
    assert_eq!(outcome["stdout"], "yes\n", "{outcome}");
    assert_eq!(client.get(&format!("{path}/history")).await.json()["execution"], 1);
    let answer = client.post(&format!("{path}/answer"), &answers).await;
    assert_eq!((answer.status.as_u16(), answer.problem().as_str()), (409, "session.not_waiting"));
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

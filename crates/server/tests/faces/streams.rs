//! Streams of events whose connections break.

use super::*;

const ID: &str = "0123456789abcdef-stream";

/// Sends a request for events, and reads until a text has arrived, or the end.
async fn events(
    server: SocketAddr,
    method: &str,
    path: &str,
    after: Option<u64>,
    body: &Value,
    until: &str,
) -> String {
    let body = body.to_string();
    let after = after.map(|id| format!("Last-Event-ID: {id}\r\n")).unwrap_or_default();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: {server}\r\nAccept: text/event-stream\r\n{after}\
         Content-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    let mut stream = TcpStream::connect(server).await.unwrap();
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.write_all(body.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    loop {
        if !until.is_empty() {
            let text = String::from_utf8_lossy(&answer);
            if text.contains(until) {
                return text.into_owned();
            }
        }
        if stream.read_buf(&mut answer).await.unwrap() == 0 {
            return String::from_utf8(answer).unwrap();
        }
    }
}

/// The numbers and types of the events in a response.
fn told(answer: &str) -> Vec<(u64, &str)> {
    let line = |event: &'_ str, name: &str| -> Option<std::ops::Range<usize>> {
        let start = event.find(name)? + name.len();
        Some(start..start + event[start..].find('\n').unwrap_or(event.len() - start))
    };
    let read = |event: &'_ str| Some((line(event, "\nid: ")?, line(event, "\nevent: ")?));
    let events = answer.split("\n\n").filter_map(|event| {
        let (id, name) = read(event)?;
        Some((event[id].parse().ok()?, &event[name]))
    });
    events.collect()
}

#[tokio::test]
async fn a_stream_goes_on_after_its_connection_broke() {
    let server = server().await;
    let code = "print one\nsleep 400\nprint two\nwrite out x";
    let asked = json!({"code": code, "stream": ID, "timeout": 30});
    let first = events(server, "POST", "/v1/runs", None, &asked, "id: 2\n").await;
    let seen = told(&first);
    assert_eq!(seen[..2], [(1, "started"), (2, "stdout")], "{first}");
    let path = format!("/v1/streams/{ID}");
    let rest = events(server, "GET", &path, Some(2), &Value::Null, "").await;
    let numbers: Vec<u64> = told(&rest).iter().map(|(number, _)| *number).collect();
    let count = 2 + numbers.len() as u64;
    assert_eq!(numbers, (3..=count).collect::<Vec<_>>(), "{rest}");
    // Text may come in pieces.
    let mut types: Vec<_> = told(&rest).into_iter().map(|(_, name)| name).collect();
    types.dedup();
    assert_eq!(types, ["stdout", "file_written", "ended", "outcome"], "{rest}");
    // The outcome may not have arrived, and a lost request is sent again: neither runs it again.
    let last = events(server, "GET", &path, Some(count - 1), &Value::Null, "").await;
    assert_eq!(told(&last), [(count, "outcome")]);
    let again = events(server, "POST", "/v1/runs", None, &asked, "").await;
    assert_eq!(told(&again).len() as u64, count, "{again}");
    assert_eq!(ask(server, "DELETE", &path, &Value::Null).await.0, 204);
    // What was removed is not run again.
    for method in ["GET", "DELETE"] {
        let (status, problem) = ask(server, method, &path, &Value::Null).await;
        assert_eq!(status, 410, "{problem}");
        assert!(problem.contains("stream.gone"), "{problem}");
    }
    let again = events(server, "POST", "/v1/runs", None, &asked, "").await;
    assert!(again.starts_with("HTTP/1.1 410"), "{again}");
    let (status, problem) = ask(server, "GET", &format!("{path}-2"), &Value::Null).await;
    assert!(status == 404 && problem.contains("stream.not_found"), "{problem}");
}

#[tokio::test]
async fn an_ended_stream_interrupts_its_run() {
    let server = server().await;
    let (_, made) = post(server, "/v1/sessions", json!({})).await;
    let runs = format!("/v1/sessions/{}/runs", made["id"].as_str().unwrap());
    let asked = json!({"code": "add a 1\nsleep 60000", "stream": ID, "timeout": 100});
    events(server, "POST", &runs, None, &asked, "started").await;
    // Without the end of the first this would wait for a minute.
    assert_eq!(ask(server, "DELETE", &format!("/v1/streams/{ID}"), &Value::Null).await.0, 204);
    let ran = tokio::time::timeout(
        Duration::from_secs(30),
        post(server, &runs, json!({"code": "print"})),
    );
    assert_eq!(ran.await.unwrap().0, 200);
}

#[tokio::test]
async fn a_request_that_is_refused_has_no_stream() {
    let server = server().await;
    for (asked, code) in [
        (json!({"code": "print", "stream": "short"}), "bad_field"),
        (json!({"code": "print", "stream": ID, "timeout": 1e9}), "refused"),
        (json!({"code": "print", "stream": ID, "image": "none"}), "image"),
    ] {
        let answer = events(server, "POST", "/v1/runs", None, &asked, "").await;
        assert!(answer.starts_with("HTTP/1.1 4") && answer.contains(code), "{answer}");
    }
    let path = format!("/v1/streams/{ID}");
    assert_eq!(ask(server, "GET", &path, &Value::Null).await.0, 404);
    let asked = json!({"code": "print", "stream": ID});
    let ran = events(server, "POST", "/v1/runs", None, &asked, "").await;
    assert!(ran.starts_with("HTTP/1.1 200"), "{ran}");
    // Numbers that no event has yet.
    for after in [9, u64::MAX] {
        let answer = events(server, "GET", &path, Some(after), &Value::Null, "").await;
        assert!(answer.contains("stream.gone"), "{answer}");
    }
}

#[tokio::test]
async fn output_alone_has_tracebacks() {
    let server = server().await;
    let asked = json!({"code": "print a\nerror b\nprint c", "events": "output", "stream": ID});
    let answer = events(server, "POST", "/v1/runs", None, &asked, "").await;
    let expected = [(1, "stdout"), (2, "stderr"), (3, "stdout"), (4, "outcome")];
    assert_eq!(told(&answer), expected, "{answer}");
}

/// A stream keeps its latest events, and never resumes with a gap.
#[tokio::test]
async fn events_that_made_room_are_gone() {
    let server = server().await;
    // More than is kept of a stream.
    let code = "flood 9000000\nflood 9000000\nprint end";
    let asked = json!({
        "code": code, "stream": ID, "events": "output", "output_bytes": 64 << 20, "timeout": 100
    });
    let all = events(server, "POST", "/v1/runs", None, &asked, "").await;
    let count = told(&all).last().unwrap().0;
    let path = format!("/v1/streams/{ID}");
    for (method, path, asked) in [("GET", &*path, &Value::Null), ("POST", "/v1/runs", &asked)] {
        let gone = events(server, method, path, None, asked, "").await;
        assert!(gone.starts_with("HTTP/1.1 410") && gone.contains("stream.gone"), "{method}");
    }
    let last = events(server, "GET", &path, Some(count - 1), &Value::Null, "").await;
    assert_eq!(told(&last), [(count, "outcome")]);
}

/// An id leads to the run of the first request, and never to that of another.
#[tokio::test]
async fn the_id_of_a_stream_belongs_to_one_request() {
    let server = server().await;
    let asked = json!({"code": "print one", "stream": ID});
    let first = events(server, "POST", "/v1/runs", None, &asked, "").await;
    assert!(first.contains("one"), "{first}");
    let (_, made) = post(server, "/v1/sessions", json!({})).await;
    let runs = format!("/v1/sessions/{}/runs", made["id"].as_str().unwrap());
    let other = json!({"code": "print two", "stream": ID});
    for (path, asked) in [("/v1/runs", &other), (&*runs, &asked)] {
        let refused = events(server, "POST", path, None, asked, "").await;
        assert!(refused.starts_with("HTTP/1.1 409"), "{refused}");
        assert!(refused.contains("stream.taken"), "{refused}");
    }
    let again = events(server, "POST", "/v1/runs", None, &asked, "").await;
    assert_eq!(told(&again), told(&first));
    // The same in a session, and a form.
    let in_session = json!({"code": "add a 1\nget a", "stream": format!("{ID}-2")});
    let first = events(server, "POST", &runs, None, &in_session, "").await;
    let again = events(server, "POST", &runs, None, &in_session, "").await;
    assert_eq!(told(&again), told(&first));
    let changed = json!({"code": "add a 1\nget a", "stream": format!("{ID}-2"), "timeout": 9});
    let refused = events(server, "POST", &runs, None, &changed, "").await;
    assert!(refused.contains("stream.taken"), "{refused}");
    for (text, status) in [("read in\nprint", "200"), ("read in\nprint", "200"), ("print", "409")] {
        let asked = json!({"code": text, "stream": format!("{ID}-3")});
        let answer = form(server, &asked, "file").await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{answer}");
    }
    let asked = json!({"code": "read in\nprint", "stream": format!("{ID}-3")});
    let refused = form(server, &asked, "other file").await;
    assert!(refused.contains("stream.taken"), "{refused}");
}

/// Sends a form with a file, and reads all events.
async fn form(server: SocketAddr, asked: &Value, file: &str) -> String {
    let body = format!(
        "--mark\r\nContent-Disposition: form-data; name=\"request\"\r\n\r\n{asked}\r\n\
         --mark\r\nContent-Disposition: form-data; name=\"in\"\r\n\r\n{file}\r\n--mark--\r\n"
    );
    let head = format!(
        "POST /v1/runs HTTP/1.1\r\nHost: {server}\r\nAccept: text/event-stream\r\n\
         Content-Type: multipart/form-data; boundary=mark\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n",
        body.len()
    );
    let mut stream = TcpStream::connect(server).await.unwrap();
    stream.write_all((head + &body).as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

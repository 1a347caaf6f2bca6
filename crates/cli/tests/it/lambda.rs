//! `belljar lambda`, with a mock of Lambda's runtime API on the loopback device, made from its
//! documentation: <https://docs.aws.amazon.com/lambda/latest/dg/runtimes-api.html>.

use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{SystemTime, UNIX_EPOCH};

use super::*;

/// A request from the runtime.
#[derive(Debug)]
struct Sent {
    line: String,
    headers: String,
    body: Vec<u8>,
}

impl Sent {
    fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }
}

/// An invocation: id, time limit in milliseconds, event.
type Given = (&'static str, u64, String);

/// Serves invocations one after the other, and passes on the posted answers. A post to `refuse`
/// gets status 413.
fn serve(given: Vec<Given>, refuse: &'static str) -> (String, Receiver<Sent>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        let mut given = given.into_iter();
        for stream in listener.incoming() {
            talk(stream.unwrap(), &mut given, refuse, &sender);
        }
    });
    (address, receiver)
}

fn talk(
    stream: TcpStream,
    given: &mut impl Iterator<Item = Given>,
    refuse: &str,
    sender: &Sender<Sent>,
) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut stream = stream;
    while let Some(sent) = receive(&mut reader) {
        if sent.line.starts_with("GET /2018-06-01/runtime/invocation/next ") {
            let Some((id, ms, event)) = given.next() else {
                // No more invocations: like Lambda, let the runtime wait.
                std::thread::sleep(Duration::from_mins(1));
                return;
            };
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis();
            let deadline = now + u128::from(ms);
            write!(
                stream,
                "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\
                 Lambda-Runtime-Aws-Request-Id: {id}\r\nLambda-Runtime-Deadline-Ms: {deadline}\r\n\
                 Lambda-Runtime-Invoked-Function-Arn: arn:aws:lambda:us-east-2:123456789012:function:f\r\n\
                 Lambda-Runtime-Trace-Id: Root=1-5bef4de7\r\nContent-Length: {}\r\n\r\n{event}",
                event.len()
            )
            .unwrap();
        } else {
            assert!(sent.line.starts_with("POST /2018-06-01/runtime/"), "{}", sent.line);
            let status = if !refuse.is_empty() && sent.line.contains(refuse) {
                "413 Request Entity Too Large"
            } else {
                "202 Accepted"
            };
            write!(stream, "HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n").unwrap();
            sender.send(sent).unwrap();
        }
    }
}

fn receive(reader: &mut BufReader<TcpStream>) -> Option<Sent> {
    let (mut line, mut headers, mut length) = (String::new(), String::new(), 0);
    reader.read_line(&mut line).ok().filter(|read| *read > 0)?;
    loop {
        let mut header = String::new();
        reader.read_line(&mut header).ok()?;
        if header.trim_end().is_empty() {
            break;
        }
        let lower = header.to_ascii_lowercase();
        if let Some(value) = lower.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        headers.push_str(&lower);
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some(Sent {
        line,
        headers,
        body,
    })
}

struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start(address: &str) -> Running {
    let mut command = belljar();
    Running(command.arg("lambda").env("AWS_LAMBDA_RUNTIME_API", address).spawn().unwrap())
}

fn next(sent: &Receiver<Sent>) -> Sent {
    sent.recv_timeout(Duration::from_mins(1)).expect("an answer in a minute")
}

#[test]
fn invocations_are_answered_in_order_with_their_outcomes() {
    let event = |code: &str| json!({"code": code, "image": "core"}).to_string();
    let (address, sent) = serve(
        vec![
            ("id-1", 30_000, event("print(6 * 7)")),
            ("id-2", 30_000, event("1 / 0")),
            ("id-3", 1_300, event("while True: pass")),
            ("id-4", 30_000, "{\"cod\": 1}".into()),
            ("id-5", 30_000, json!({"code": "1", "timeout": 1e9}).to_string()),
            (
                "id-6",
                30_000,
                json!({"code": "1", "files": {"a": {"path": "/etc/passwd"}}}).to_string(),
            ),
            ("id-7", 30_000, event("print('still here')")),
        ],
        "",
    );
    let _running = start(&address);

    let first = next(&sent);
    assert!(first.line.contains("/invocation/id-1/response "), "{}", first.line);
    assert_eq!(first.json()["stdout"], json!("42\n"), "{:#}", first.json());

    let failed = next(&sent);
    assert!(failed.line.contains("/invocation/id-2/response "), "{}", failed.line);
    assert_eq!(failed.json()["error_detail"]["type"], json!("ZeroDivisionError"));

    let begun = Instant::now();
    let late = next(&sent);
    assert!(late.line.contains("/invocation/id-3/response "), "{}", late.line);
    assert_eq!(late.json()["error_detail"]["kind"], json!("timeout"), "{:#}", late.json());
    assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());

    for (id, kind, part) in [
        ("id-4", "belljar.request", "unknown field `cod`"),
        ("id-5", "", "42"),
        ("id-6", "belljar.refused", "a"),
    ] {
        let answer = next(&sent);
        if id == "id-5" {
            // Capped to the remaining time, like any other timeout.
            assert!(answer.line.contains("/invocation/id-5/response "), "{}", answer.line);
            continue;
        }
        assert!(answer.line.contains(&format!("/invocation/{id}/error ")), "{}", answer.line);
        assert_eq!(answer.json()["errorType"], json!(kind), "{:#}", answer.json());
        assert!(answer.json()["errorMessage"].as_str().unwrap().contains(part));
        let header = format!("lambda-runtime-function-error-type: {kind}");
        assert!(answer.headers.contains(&header), "{}", answer.headers);
    }
    assert_eq!(next(&sent).json()["stdout"], json!("still here\n"));
}

#[test]
fn an_outcome_that_is_too_large_is_an_error_of_its_invocation() {
    let event = json!({"code": "print('x' * 100)", "image": "core"}).to_string();
    let (address, sent) = serve(vec![("big", 30_000, event)], "/response");
    let _running = start(&address);
    assert!(next(&sent).line.contains("/invocation/big/response "));
    let error = next(&sent);
    assert!(error.line.contains("/invocation/big/error "), "{}", error.line);
    assert_eq!(error.json()["errorType"], json!("belljar.too_large"));
}

#[test]
fn a_bundle_that_cannot_be_used_fails_the_start() {
    let (address, sent) = serve(Vec::new(), "");
    let mut command = belljar();
    command.args(["lambda", "--api", &address]).env("BELLJAR_BUNDLE", "/nonexistent");
    command.env_remove("BELLJAR_CACHE");
    let ran: Ran = command.output().unwrap().into();
    let ran = ran.exits(3);
    assert!(ran.stderr.contains("cannot open the bundle /nonexistent"), "{}", ran.stderr);
    let told = next(&sent);
    assert!(told.line.contains("/runtime/init/error "), "{}", told.line);
    assert_eq!(told.json()["errorType"], json!("belljar.bundle.io"));
    assert_eq!(self::ran(&["lambda"]).exits(2).stdout, "");
}

//! `belljar serve --isolate accounts`: failures in one account's process do not affect others.

use std::collections::BTreeSet;
use std::net::TcpStream;
use std::path::PathBuf;
use std::thread;

use super::server::{Answer, Server, send, signal};
use super::*;

/// A server with two accounts.
struct Isolated {
    server: Server,
    keys: [String; 2],
    folder: TempDir,
}

impl Isolated {
    fn start(args: &[&str]) -> Self {
        Self::with(args, |_| {})
    }

    fn with(args: &[&str], set: impl FnOnce(&mut Command)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let keys = ["one", "t wö"].map(|name| {
            let file = folder.path().join("keys/keys.toml");
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            let made = ran(&["key", name, "--keys", file.to_str().unwrap(), "--operator"]).exits(0);
            made.stdout.trim().to_owned()
        });
        let mut command = belljar();
        command
            .args(["serve", "--faces=all", "--keys"])
            .arg(folder.path().join("keys/keys.toml"))
            .args(args);
        set(&mut command);
        Self {
            server: Server::of(&mut command),
            keys,
            folder,
        }
    }

    fn send(&self, method: &str, path: &str, headers: &str, body: &[u8]) -> Answer {
        send(&self.server.address, method, path, headers, body)
    }

    fn ask(&self, account: usize, method: &str, path: &str, body: &Value) -> Answer {
        self.server.ask_as(Some(&self.keys[account]), method, path, body)
    }

    #[track_caller]
    fn prints(&self, account: usize, path: &str, code: &str) -> String {
        let ran = self.ask(account, "POST", path, &json!({"code": code, "image": "core"})).is(200);
        ran.json()["stdout"].as_str().unwrap().to_owned()
    }

    fn session(&self, account: usize) -> String {
        let made = self.ask(account, "POST", "/v1/sessions", &json!({"image": "core"})).is(201);
        format!("/v1/sessions/{}/runs", made.json()["id"].as_str().unwrap())
    }

    /// Runs code in a session, whose answers have no image.
    #[track_caller]
    fn runs(&self, account: usize, session: &str, code: &str) -> String {
        let ran = self.ask(account, "POST", session, &json!({"code": code})).is(200);
        ran.json()["stdout"].as_str().unwrap().to_owned()
    }

    /// The processes of workers: children of this process's child.
    fn workers(&self) -> BTreeSet<u32> {
        workers_of(self.server.child.id())
    }

    /// The process that an account's first request starts.
    fn first(&self, account: usize) -> u32 {
        let ask = || assert_eq!(self.prints(account, "/v1/runs", "print(1)"), "1\n");
        self.started_by(ask).1
    }

    /// The process that `ask` starts.
    fn started_by<T>(&self, ask: impl FnOnce() -> T) -> (T, u32) {
        let before = self.workers();
        let answer = ask();
        let new: Vec<u32> = self.workers().difference(&before).copied().collect();
        assert_eq!(new.len(), 1, "{new:?}");
        (answer, new[0])
    }
}

fn workers_of(server: u32) -> BTreeSet<u32> {
    let processes = fs::read_dir("/proc").unwrap();
    let parents: Vec<(u32, u32)> = processes
        .filter_map(|entry| {
            let id = entry.ok()?.file_name().to_str()?.parse().ok()?;
            let status = fs::read_to_string(format!("/proc/{id}/status")).ok()?;
            // Zombies have exited.
            let is_over = status.contains("State:\tZ");
            let parent = status.lines().find_map(|line| line.strip_prefix("PPid:"))?;
            (!is_over).then_some((id, parent.trim().parse().ok()?))
        })
        .collect();
    let children = |of: u32| parents.iter().filter(move |one| one.1 == of).map(|one| one.0);
    children(server).flat_map(children).collect()
}

#[track_caller]
fn until(what: impl Fn() -> bool) {
    let begun = Instant::now();
    while !what() {
        assert!(begun.elapsed() < Duration::from_secs(30), "it does not come");
        thread::sleep(Duration::from_millis(50));
    }
}

fn is_there(process: u32) -> bool {
    let status = status(process);
    !status.is_empty() && !status.contains("State:\tZ")
}

fn status(process: u32) -> String {
    fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default()
}

#[test]
fn a_process_that_is_killed_costs_its_account_only() {
    let server = Isolated::start(&[]);
    let (one, other) = (server.first(0), server.first(1));
    assert_ne!(one, other);
    let (mine, theirs) = (server.session(0), server.session(1));
    assert_eq!(server.runs(0, &mine, "x = 1"), "");
    assert_eq!(server.runs(1, &theirs, "x = 2"), "");
    server.ask(1, "POST", &mine, &json!({"code": "print(x)"})).is(404);
    // With nothing under way, the next request is told, once.
    signal("-KILL", one);
    until(|| !is_there(one));
    let told = server.ask(0, "POST", "/v1/runs", &json!({"code": "print(1)"}));
    // 502 if the request was faster than the front.
    assert!([502, 503].contains(&told.status), "{}{}", told.head, told.body);
    assert_eq!(told.json()["code"], "worker_ended");
    assert!(told.body.contains("signal 9"), "{}", told.body);
    let again = server.first(0);
    server.ask(0, "POST", &mine, &json!({"code": "print(x)"})).is(404);
    assert_eq!(server.runs(1, &theirs, "print(x)"), "2\n");
    // With a run under way, that one is told.
    thread::scope(|scope| {
        let running = scope.spawn(|| {
            let code = json!({"code": "import time; time.sleep(30)", "image": "core"});
            server.ask(0, "POST", "/v1/runs", &code)
        });
        thread::sleep(Duration::from_millis(500));
        signal("-KILL", again);
        let told = running.join().unwrap().is(502);
        assert_eq!(told.json()["code"], "worker_ended");
    });
    server.first(0);
    assert!(is_there(other));
    let ready = server.send("GET", "/readyz", "", b"").is(200);
    assert!(ready.body.starts_with("ready\n"), "{}", ready.body);
}

#[test]
fn every_request_is_answered_while_processes_are_killed() {
    let server = Isolated::start(&[]);
    let codes = ["print(1)".to_owned(), "print(2) #".to_owned() + &"x".repeat(1 << 20)];
    let end = Instant::now() + Duration::from_secs(4);
    let ask = |code: &String| {
        let body = json!({"code": code, "image": "core"});
        let ask = || server.ask(0, "POST", "/v1/runs", &body);
        std::iter::repeat_with(ask).take_while(|_| Instant::now() < end).collect::<Vec<_>>()
    };
    let answers: Vec<Answer> = thread::scope(|scope| {
        let clients: Vec<_> =
            codes.iter().cycle().take(8).map(|code| scope.spawn(|| ask(code))).collect();
        while Instant::now() < end {
            thread::sleep(Duration::from_millis(200));
            // They may have just ended.
            for worker in server.workers() {
                let _ = Command::new("kill").args(["-KILL", &worker.to_string()]).status();
            }
        }
        clients.into_iter().flat_map(|client| client.join().unwrap()).collect()
    });
    for answer in &answers {
        match answer.status {
            200 => {}
            502 => assert_eq!(answer.json()["code"], "worker_ended", "{}", answer.body),
            503 => {
                assert_eq!(answer.json()["code"], "worker_ended", "{}", answer.body);
                assert!(answer.head.contains("retry-after: 1"), "{}", answer.head);
            }
            _ => panic!("{}{}", answer.head, answer.body),
        }
    }
    assert!(answers.iter().any(|answer| answer.status != 200));
}

/// Sessions that a server wrote without isolation stay reachable when an account is added.
#[test]
fn accounts_share_a_process_where_sessions_are_kept_unless_isolation_is_requested() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state");
    let store = format!("file://{}", folder.path().join("store").display());
    for args in [["--state", state.to_str().unwrap()], ["--store", &store]] {
        let server = Isolated::start(&args);
        assert_eq!(server.prints(0, "/v1/runs", "print(1)"), "1\n");
        assert_eq!(server.workers(), BTreeSet::new(), "{args:?}");
    }
}

#[test]
fn sessions_survive_that_a_process_is_put_away() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state");
    let store = format!("file://{}", folder.path().join("store").display());
    for args in [["--state", state.to_str().unwrap()], ["--store", &store]] {
        let args = [&args[..], &["--account-idle", "1", "--isolate", "accounts"]].concat();
        let server = Isolated::start(&args);
        let process = server.first(0);
        let session = server.session(0);
        assert_eq!(server.runs(0, &session, "x = 41"), "");
        until(|| !is_there(process));
        assert_eq!(server.runs(0, &session, "print(x + 1)"), "42\n");
        server.ask(1, "POST", &session, &json!({"code": "print(x)"})).is(404);
        // And that the server is stopped, as a service manager does it.
        assert_eq!(server.runs(0, &session, "x = 43"), "");
        for process in server.workers() {
            signal("-TERM", process);
        }
        assert_eq!(server.server.end(), 0);
        let states = fs::read_dir(state.join("accounts")).into_iter().flatten();
        let saved = states.filter(|state| {
            let files = fs::read_dir(state.as_ref().unwrap().path()).unwrap();
            files.count() == 2
        });
        assert!(args[0] == "--store" || saved.count() == 1, "the session was not saved");
    }
    let accounts = |root: PathBuf| fs::read_dir(root.join("accounts")).unwrap().count();
    assert_eq!(accounts(state), 2, "two accounts have run code");
    assert_eq!(accounts(folder.path().join("store")), 1, "only one account has sessions");
}

/// A session without a state directory would be lost, so its process stays.
#[test]
fn a_process_with_sessions_that_are_nowhere_else_stays() {
    let server = Isolated::start(&["--account-idle", "1"]);
    let (session, stays) = server.started_by(|| server.session(0));
    server.runs(0, &session, "x = 1");
    let goes = server.first(1);
    until(|| !is_there(goes));
    thread::sleep(Duration::from_secs(2));
    assert!(is_there(stays));
    assert_eq!(server.runs(0, &session, "print(x)"), "1\n");
    server.first(1);
}

#[test]
fn an_account_that_takes_too_much_memory_loses_its_process() {
    let server = Isolated::start(&["--account-memory", "300"]);
    let (_, other) = (server.first(0), server.first(1));
    let theirs = server.session(1);
    server.runs(1, &theirs, "x = 2");
    let code = "x = bytearray(b'1') * (900 << 20)\nimport time; time.sleep(50)";
    let body = json!({"code": code, "image": "core", "memory_mb": 1024, "timeout": 60});
    let told = server.ask(0, "POST", "/v1/runs", &body).is(502);
    assert!(told.body.contains("too much memory"), "{}", told.body);
    assert_eq!(server.prints(0, "/v1/runs", "print(1)"), "1\n");
    assert_eq!(server.runs(1, &theirs, "print(x)"), "2\n");
    assert!(is_there(other));
}

#[test]
fn no_process_survives_its_server() {
    let server = Isolated::start(&[]);
    server.first(0);
    server.first(1);
    let workers = server.workers();
    assert_eq!(workers.len(), 3, "two accounts, and the one that shows that code runs");
    drop(server);
    until(|| !workers.iter().any(|worker| is_there(*worker)));
}

#[test]
fn a_process_has_no_credentials() {
    let server = Isolated::with(&[], |command| {
        command.env("AWS_SECRET_ACCESS_KEY", "hidden").env("OTEL_EXPORTER_OTLP_HEADERS", "hidden");
    });
    let process = server.first(0);
    let environment = fs::read(format!("/proc/{process}/environ")).unwrap_or_default();
    assert!(!String::from_utf8_lossy(&environment).contains("hidden"));
    let line = fs::read_to_string(format!("/proc/{process}/cmdline")).unwrap();
    assert!(!line.contains("keys"), "{line}");
}

/// The front itself answers requests without a valid key, in the format of each interface.
#[test]
fn nobody_starts_a_process() {
    let server = Isolated::start(&[]);
    let before = server.workers();
    server.send("GET", "/healthz", "", b"").is(200);
    server.send("GET", "/v1/openapi.json", "", b"").is(200);
    for (path, headers) in [
        ("/v1/runs", ""),
        ("/v1/runs", "Authorization: Bearer belljar_x\r\n"),
        ("/api/kernels?token=x", ""),
        ("/sandboxes", "X-API-Key: x\r\n"),
        ("/execute", "X-Access-Token: aaaaaaaaaaaaaaaaaaaa\r\n"),
        ("/execute", "E2b-Sandbox-Id: aaaaaaaaaaaaaaaaaaaa\r\nX-Access-Token: x\r\n"),
        ("/mcp", ""),
    ] {
        let answer = server.send("POST", path, headers, b"{}");
        assert!([401, 403, 405].contains(&answer.status), "{path}: {}{}", answer.head, answer.body);
    }
    let health = "E2b-Sandbox-Id: aaaaaaaaaaaaaaaaaaaa\r\n";
    server.send("GET", "/health", health, b"").is(502);
    server.send("GET", "/nowhere", "", b"").is(404);
    assert_eq!(server.workers(), before);
    // The figures of all accounts, each under its name.
    server.first(0);
    server.first(1);
    let key = format!("Authorization: Bearer {}\r\n", server.keys[0]);
    let page = server.send("GET", "/metrics", &key, b"").is(200).body;
    for name in ["one", "t wö"] {
        for metric in ["runs", "account_runs"] {
            let series = format!("belljar_{metric}_total{{account=\"{name}\",kind=\"success\"}} 1");
            assert!(page.contains(&series), "{page}");
        }
    }
    assert!(page.contains("belljar_workers 2\n") && page.ends_with("# EOF\n"), "{page}");
    // Processes that do not answer delay them once, not each.
    for process in server.workers().difference(&before) {
        signal("-STOP", *process);
        // Until one of its threads runs again, the others continue.
        until(|| status(*process).contains("State:\tT"));
    }
    let begun = Instant::now();
    let page = server.send("GET", "/metrics", &key, b"").is(200).body;
    assert!(page.contains("belljar_workers_silent 2\n"), "{page}");
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
}

/// Clients of E2B may ask without a token whether a sandbox is running.
#[test]
fn a_question_for_health_starts_no_process_and_keeps_none() {
    let folder = tempfile::tempdir().unwrap();
    let store = format!("file://{}", folder.path().display());
    let args = ["--store", &store, "--account-idle", "3", "--isolate", "accounts"];
    let server = Isolated::start(&args);
    let process = server.first(0);
    let key = format!("X-API-Key: {}\r\nContent-Type: application/json\r\n", server.keys[0]);
    let made = server.send("POST", "/sandboxes", &key, br#"{"templateID": "base"}"#).is(201).json();
    let sandbox = format!("E2b-Sandbox-Id: {}\r\n", made["sandboxID"].as_str().unwrap());
    let health = |headers: &str, body: &[u8]| server.send("GET", "/health", headers, body).status;
    assert_eq!(health(&sandbox, b"a body"), 204);
    let upgrade = format!("{sandbox}Upgrade: websocket\r\n");
    assert_eq!(health(&upgrade, b""), 204);
    assert_eq!(server.send("POST", "/health", &sandbox, b"").status, 405);
    until(|| {
        assert!([204, 502].contains(&health(&sandbox, b"")));
        !is_there(process)
    });
    let before = server.workers();
    assert_eq!(health(&sandbox, b""), 502);
    assert_eq!(server.workers(), before);
    let token = made["envdAccessToken"].as_str().unwrap();
    assert_eq!(health(&format!("{sandbox}X-Access-Token: {token}\r\n"), b""), 204);
}

#[test]
fn a_key_that_is_revoked_ends_its_process() {
    let server = Isolated::start(&[]);
    let (gone, stays) = (server.first(0), server.first(1));
    let file = server.folder.path().join("keys/keys.toml");
    let keys = fs::read_to_string(&file).unwrap();
    let at = keys.rfind("[[key]]").unwrap();
    fs::write(&file, &keys[at..]).unwrap();
    until(|| !is_there(gone));
    server.ask(0, "GET", "/v1/sessions", &json!({})).is(401);
    assert!(is_there(stays));
    assert_eq!(server.prints(1, "/v1/runs", "print(1)"), "1\n");
}

#[test]
fn files_and_events_pass() {
    let server = Isolated::start(&[]);
    let session = server.session(0);
    let path = session.replace("/runs", "/files/large");
    let content = "0123456789abcdef".repeat(64 << 10);
    let key = format!("Authorization: Bearer {}\r\n", server.keys[0]);
    server.send("PUT", &path, &key, content.as_bytes()).is(201);
    let found = server.send("GET", &path, &key, b"").is(200);
    assert!(found.body == content, "{}", found.body.len());
    let headers = format!("{key}Accept: text/event-stream\r\nContent-Type: application/json\r\n");
    let code = "import time\nfor i in range(3): print(i, flush=True); time.sleep(.1)";
    let body = json!({"code": code, "image": "core"}).to_string();
    let answer = server.send("POST", "/v1/runs", &headers, body.as_bytes()).is(200);
    assert!(answer.head.contains("text/event-stream"), "{}", answer.head);
    assert!(answer.body.matches("event:").count() >= 3, "{}", answer.body);
}

/// A WebSocket, as far as this test speaks it.
struct Socket(TcpStream);

impl Socket {
    fn open(server: &Isolated, path: &str) -> Result<Self, u16> {
        let mut stream = TcpStream::connect(&server.server.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        let request = format!(
            "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
             Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        );
        stream.write_all(request.as_bytes()).unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).unwrap();
            head.push(byte[0]);
        }
        let head = String::from_utf8(head).unwrap();
        match head.split(' ').nth(1).unwrap().parse().unwrap() {
            101 => {
                assert!(head.contains("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="), "{head}");
                Ok(Self(stream))
            }
            status => Err(status),
        }
    }

    fn send(&mut self, text: &str) {
        let mut frame = vec![0x81, 0xfe];
        frame.extend((text.len() as u16).to_be_bytes());
        frame.extend([0; 4]);
        frame.extend(text.bytes());
        self.0.write_all(&frame).unwrap();
    }

    fn next(&mut self) -> String {
        let mut head = [0; 2];
        self.0.read_exact(&mut head).unwrap();
        let mut length = usize::from(head[1]);
        if length == 126 {
            self.0.read_exact(&mut head).unwrap();
            length = u16::from_be_bytes(head).into();
        }
        let mut text = vec![0; length];
        self.0.read_exact(&mut text).unwrap();
        String::from_utf8_lossy(&text).into_owned()
    }
}

#[test]
fn a_notebook_runs_through_the_front() {
    let server = Isolated::start(&[]);
    let kernel = server.ask(0, "POST", "/api/kernels", &json!({"name": "python3"})).is(201).json();
    let id = kernel["id"].as_str().unwrap();
    let path = |key: &str| format!("/api/kernels/{id}/channels?session_id=s&token={key}");
    assert!(Socket::open(&server, &path("x")).is_err());
    assert!(Socket::open(&server, &path(&server.keys[1])).is_err());
    let mut socket = Socket::open(&server, &path(&server.keys[0])).unwrap();
    let header = json!({
        "msg_id": "m", "msg_type": "execute_request", "session": "s", "username": "u",
        "version": "5.3", "date": "2026-01-01T00:00:00Z"
    });
    let content = json!({"code": "print(6 * 7)", "silent": false, "store_history": true,
        "user_expressions": {}, "allow_stdin": false, "stop_on_error": true});
    let message = json!({"header": header, "parent_header": {}, "metadata": {},
        "content": content, "channel": "shell", "buffers": []});
    socket.send(&message.to_string());
    while !socket.next().contains("42\\n") {}
}

#[test]
fn a_sandbox_is_reached_by_its_token_only() {
    let server = Isolated::start(&[]);
    let key = |account: usize| {
        format!("X-API-Key: {}\r\nContent-Type: application/json\r\n", server.keys[account])
    };
    let made = server.send("POST", "/sandboxes", &key(0), br#"{"templateID": "base"}"#).is(201);
    let made = made.json();
    let (id, token) =
        (made["sandboxID"].as_str().unwrap(), made["envdAccessToken"].as_str().unwrap());
    let named = |id: &str, token: &str| {
        format!(
            "E2b-Sandbox-Id: {id}\r\nE2b-Sandbox-Port: 49999\r\nX-Access-Token: {token}\r\n\
             Content-Type: application/json\r\n"
        )
    };
    let code = br#"{"code": "print(6 * 7)"}"#;
    for headers in
        [named(id, token), format!("X-Access-Token: {token}\r\nContent-Type: application/json\r\n")]
    {
        let ran = server.send("POST", "/execute", &headers, code).is(200);
        assert!(ran.body.contains("42"), "{}", ran.body);
    }
    let health = format!("E2b-Sandbox-Id: {id}\r\n");
    server.send("GET", "/health", &health, b"").is(204);
    // A token of a sandbox is no key of its account.
    let shown = format!("X-Access-Token: {token}\r\n");
    for (method, path) in [("POST", "/v1/runs"), ("GET", "/sandboxes"), ("GET", "/v1/sessions")] {
        server.send(method, path, &shown, code).is(401);
    }
    server.send("POST", "/v1/runs", &named(id, token), code).is(404);
    let forged = token.replace(&token[token.len() - 2..], "zz");
    server.send("POST", "/execute", &named(id, &forged), code).is(401);
    server.send("POST", "/execute", &named(id, ""), code).is(401);
    // No credential of one account opens another's sandbox.
    let other = server.send("POST", "/sandboxes", &key(1), br#"{"templateID": "base"}"#).is(201);
    let other = other.json();
    let theirs = other["sandboxID"].as_str().unwrap();
    server.send("POST", "/execute", &named(theirs, token), code).is(401);
    server.send("GET", &format!("/sandboxes/{theirs}"), &key(0), b"").is(404);
    let mixed = format!("{}X-API-Key: {}\r\n", named(theirs, token), server.keys[0]);
    server.send("POST", "/execute", &mixed, code).is(401);
}

//! Commands on a server: the tests of `run`, `repl` and `batch` again, and failures of the server.

use std::net::{TcpListener, TcpStream};
use std::sync::OnceLock;

use super::*;

#[path = "batch.rs"]
mod batch;
#[path = "calls.rs"]
mod calls;
#[path = "repl.rs"]
mod repl;
#[path = "run.rs"]
mod run;

use calls::{ran, ran_in, ran_with};

const ELSEWHERE: bool = true;

/// The server of all tests of this process. It ends with its standard input.
struct Shared {
    url: String,
    _child: Child,
}

fn server() -> &'static str {
    static SERVER: OnceLock<Shared> = OnceLock::new();
    let start = || {
        // Prepares the cache.
        super::belljar();
        let script = "\"$0\" serve --no-auth --listen 127.0.0.1:0 --json --max-memory 3072 \
                      --max-timeout 3600 </dev/null & read _; kill $!";
        let mut command = Command::new("sh");
        command.args(["-c", script, env!("CARGO_BIN_EXE_belljar")]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let ready: Value = serde_json::from_str(&line).unwrap();
        Shared {
            url: ready["url"].as_str().unwrap().to_owned(),
            _child: child,
        }
    };
    &SERVER.get_or_init(start).url
}

fn belljar() -> Command {
    at(server())
}

fn at(url: &str) -> Command {
    let mut command = super::belljar();
    command.env("BELLJAR_URL", url);
    command
}

#[test]
fn options_of_this_machine_are_refused() {
    let url = server();
    for args in [
        &["run", "-c", "1", "--mount", ".:/data"][..],
        &["repl", "--mount", ".:/data"],
        &["run", "-c", "1", "--deterministic", "--receipt", "r"],
        &["run", "-c", "1", "--lockdown", "require"],
        &["batch", "--no-lockdown"],
        &["--cache", "c", "run", "-c", "1"],
    ] {
        let ran = super::ran(&[args, &["--server", url]].concat()).exits(2);
        assert!(ran.stderr.contains("but --server runs the code on a server"), "{}", ran.stderr);
        assert!(ran.stderr.contains("hint: "), "{}", ran.stderr);
    }
    // An empty URL is this machine, where the option is fine.
    let args = ["run", "-c", "print(1)", "--server=", "--no-lockdown"];
    assert_eq!(ran(&args).exits(0).stdout, "1\n");
}

#[test]
fn a_server_that_cannot_be_used_is_named() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let url = format!("http://{free}");
    let ran = |url: &str| Ran::from(at(url).args(["run", "-c", "1"]).output().unwrap());
    let gone = ran(&url).exits(3);
    assert!(gone.stderr.contains(&format!("{url} cannot be reached")), "{}", gone.stderr);
    assert!(gone.stderr.contains("hint: start it with belljar serve"), "{}", gone.stderr);
    let wrong = ran("ftp://x").exits(2);
    assert!(wrong.stderr.contains("is not the address of a server"), "{}", wrong.stderr);
    let with_key = server::Server::start(&[]);
    let refused = ran(&format!("http://{}", with_key.address)).exits(2);
    assert!(refused.stderr.contains("a key is required"), "{}", refused.stderr);
    assert!(refused.stderr.contains("hint: set BELLJAR_KEY"), "{}", refused.stderr);
    let mut command = at(&format!("http://{}", with_key.address));
    command.env("BELLJAR_KEY", with_key.key.as_deref().unwrap());
    let fine = Ran::from(command.args(["run", "-c", "print(2)"]).output().unwrap());
    assert_eq!(fine.exits(0).stdout, "2\n");
}

#[test]
fn large_files_go_in_and_out() {
    let folder = folder(&[]);
    let large = "x".repeat(3 << 20);
    fs::write(folder.path().join("large"), &large).unwrap();
    let code = "text = open('in/large').read()\nopen('out', 'w').write(text + 'y')";
    let args = ["run", "-c", code, "--file", "large:in/", "--out", "o"];
    ran_in(folder.path(), &args).exits(0);
    let copied = fs::read_to_string(folder.path().join("o/out")).unwrap();
    assert!(copied == large + "y");
}

/// A server whose every answer is this.
fn answering(answer: impl Into<Vec<u8>>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let answer = answer.into();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut stream, answer) = (stream.unwrap(), answer.clone());
            std::thread::spawn(move || {
                let _ = stream.read(&mut vec![0; 65536]);
                let _ = stream.write_all(&answer);
            });
        }
    });
    url
}

#[test]
fn a_hostile_server_writes_nothing_outside_and_ends() {
    let folder = folder(&[]);
    let out = folder.path().join("out");
    let outcome = |path: &str| {
        let usage = ran(&["run", "--json", "-c", "1"]).exits(0).json();
        let mut outcome = usage;
        outcome["files"] = json!([{"path": path, "size": 4}]);
        outcome["run"] = json!("0123456789abcdef");
        outcome
    };
    let stream =
        |body: String| format!("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n{body}");
    let run = |url: &str| {
        let mut command = at(url);
        command.args(["run", "-c", "1", "--out"]).arg(&out);
        Ran::from(command.output().unwrap())
    };
    for path in ["../escaped", "/tmp/escaped", "a/../../escaped", ".."] {
        let event = format!("id: 1\nevent: outcome\ndata: {}\n\n", outcome(path));
        run(&answering(stream(event))).exits(2);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "{path}");
        assert_eq!(fs::read_dir(&out).unwrap().count(), 0, "{path}");
    }
    for (body, status) in [
        (stream("id: 1\nevent: outcome\ndata: {}\n\n".into()), 3),
        (stream("id: 7\nevent: stdout\ndata: {}\n\n".into()), 3),
        (stream("id: 1\nevent: input\ndata: {\"id\": \"../x\"}\n\n".into()), 3),
        (stream("id: -1\ndata: {}\n\n".into()), 3),
        ("HTTP/1.1 302 Found\r\nLocation: http://other/\r\nContent-Length: 0\r\n\r\n".into(), 3),
        ("HTTP/1.1 500 X\r\nContent-Length: 2\r\n\r\n{}".into(), 3),
        ("nonsense\r\n\r\n".into(), 3),
    ] {
        let ran = run(&answering(body.clone()));
        assert_eq!(ran.status, status, "{body}: {}", ran.stderr);
    }
}

/// Passes on so many bytes of each answer, more with each connection, and then cuts it.
fn cutting(server: &str, first: usize) -> String {
    let target = server.strip_prefix("http://").unwrap().to_owned();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for (number, stream) in listener.incoming().enumerate() {
            let (client, target) = (stream.unwrap(), target.clone());
            let most = first + number * 400;
            std::thread::spawn(move || {
                let server = TcpStream::connect(target).unwrap();
                let (mut from, mut to) = (client.try_clone().unwrap(), server.try_clone().unwrap());
                std::thread::spawn(move || std::io::copy(&mut from, &mut to));
                let _ = std::io::copy(&mut (&server).take(most as u64), &mut &client);
                let _ = client.shutdown(std::net::Shutdown::Both);
                let _ = server.shutdown(std::net::Shutdown::Both);
            });
        }
    });
    url
}

/// Wherever a connection is cut, the output is whole, and nothing is in it twice.
#[test]
fn a_broken_connection_is_resumed() {
    let code = "import time\nfor n in range(6):\n    print(n, flush=True)\n    time.sleep(0.02)";
    for first in [0, 40, 150, 300, 500, 700, 1000, 1500] {
        let mut command = at(&cutting(server(), first));
        command.args(["run", "--image", "core", "-c", code]);
        let ran = Ran::from(command.output().unwrap()).exits(0);
        assert_eq!(ran.stdout, "0\n1\n2\n3\n4\n5\n", "{first}: {}", ran.stderr);
    }
}

/// Runs in a session of a server.
fn in_session(url: &str, name: &str, args: &[&str]) -> Ran {
    let mut command = at(url);
    command.args(["run", "--session", name]).args(args);
    command.output().unwrap().into()
}

#[test]
fn a_session_of_a_server_goes_on_in_the_next_command() {
    let folder = folder(&[("in.txt", "given")]);
    let file = folder.path().join("in.txt");
    let args = ["--image", "core", "--file", file.to_str().unwrap(), "-c", "x = [1]"];
    let made = in_session(server(), "goes-on", &args).exits(0);
    assert_eq!(made.stderr, "new session goes-on\n");
    let code = "x.append(2)\nx, open('in.txt').read(), open('n', 'w').write('new')";
    let out = folder.path().join("out");
    let args = ["-c", code, "--out", out.to_str().unwrap()];
    let ran = in_session(server(), "goes-on", &args).exits(0);
    assert_eq!(ran.stdout, "([1, 2], 'given', 3)\n");
    assert!(ran.stderr.starts_with("made 1 file, copied to "), "{}", ran.stderr);
    assert_eq!(fs::read_to_string(out.join("n")).unwrap(), "new");
    assert_eq!(fs::read_dir(&out).unwrap().count(), 1);
    let json = in_session(server(), "goes-on", &["--json", "-c", "1/0"]).exits(1).json();
    assert_eq!(json["execution"], 3);
    let lost = in_session(server(), "goes-on", &["-c", "x = 3; import os; os._exit(3)"]).exits(1);
    let says = "the interpreter was lost: goes-on keeps the state before this run\n";
    assert!(lost.stderr.ends_with(says), "{}", lost.stderr);
    let input = "x\nx = 'prompt'\n";
    let mut command = at(server());
    command.args(["repl", "--session", "goes-on"]);
    let ran = sent_to(command, input, &[]).exits(0);
    assert_eq!(ran.stdout, "[1, 2]\n");
    assert!(ran.stderr.starts_with("goes-on: the state after run "), "{}", ran.stderr);
    assert_eq!(in_session(server(), "goes-on", &["-c", "x"]).exits(0).stdout, "prompt\n");
}

#[test]
fn mistakes_with_a_session_of_a_server_are_explained() {
    let ended = "0123456789abcdef";
    let gone = in_session(server(), ended, &["-c", "1"]).exits(2);
    assert!(gone.stderr.contains(&format!("there is no session {ended}")), "{}", gone.stderr);
    let invalid = in_session(server(), "../v1", &["-c", "1"]).exits(2);
    assert!(invalid.stderr.contains("name"), "{}", invalid.stderr);
    in_session(server(), "", &["-c", "1"]).exits(2);
    in_session(server(), "fixed", &["--image", "core", "-c", "1"]).exits(0);
    let other = in_session(server(), "fixed", &["--image", "data", "-c", "1"]).exits(2);
    assert!(other.stderr.contains("--image: "), "{}", other.stderr);
    let with_key = server::Server::start(&[]);
    let url = format!("http://{}", with_key.address);
    for command in ["run", "repl"] {
        let mut refused = at(&url);
        refused.arg(command).args(["--session", "s"]);
        if command == "run" {
            refused.args(["-c", "1"]);
        }
        let refused = Ran::from(refused.output().unwrap()).exits(2);
        assert!(refused.stderr.contains("hint: set BELLJAR_KEY"), "{}", refused.stderr);
    }
    // A server that sends something else.
    let answer = |body: &str| {
        answering(format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len()))
    };
    for body in ["{}", "[]", r#"{"id": "../x", "image": "core"}"#] {
        in_session(&answer(body), "s", &["-c", "1"]).exits(3);
    }
}

/// Wherever a connection is cut, the code runs once.
#[test]
fn a_run_in_a_session_is_resumed() {
    in_session(server(), "cut", &["--image", "core", "-c", "x = 0"]).exits(0);
    for (number, first) in [40, 400, 700, 1000].into_iter().enumerate() {
        let code = "x += 1; import time; time.sleep(0.1); print(x)";
        let ran = in_session(&cutting(server(), first), "cut", &["-c", code]).exits(0);
        assert_eq!(ran.stdout, format!("{}\n", number + 1), "{first}: {}", ran.stderr);
    }
}

#[test]
fn a_prompt_leaves_no_session_without_a_name() {
    let own = server::Server::start(&["--no-auth"]);
    let url = format!("http://{}", own.address);
    let mut command = at(&url);
    command.args(["repl", "--image", "core"]);
    let ran = sent_to(command, "x = 1\n%fork\nx\n", &[]).exits(0);
    assert_eq!(ran.stdout, "1\n");
    let sessions = || own.ask("GET", "/v1/sessions", &Value::Null).json()["sessions"].clone();
    assert_eq!(sessions(), json!([]));
    let mut command = at(&url);
    command.args(["repl", "--image", "core", "--session", "kept"]);
    sent_to(command, "x = 1\n", &[]).exits(0);
    assert_eq!(sessions()[0]["name"], "kept");
}

#[test]
fn a_prompt_outlives_its_server() {
    let own = server::Server::start(&["--no-auth"]);
    let mut command = at(&format!("http://{}", own.address));
    command.args(["repl", "--image", "core", "--timeout", "60"]).stdin(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(b"print('ready')\n").unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    stdout.read_line(&mut String::new()).unwrap();
    drop(own);
    stdin.write_all(b"1\n").unwrap();
    drop(stdin);
    let ran = Ran::from(child.wait_with_output().unwrap()).exits(0);
    assert!(ran.stderr.contains(" cannot be reached"), "{}", ran.stderr);
}

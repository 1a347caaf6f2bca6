//! A worker process of a program that is no server.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use belljar::Runtime;
use belljar_server::front::WorkerProcess;
use belljar_server::serve_worker;
use rustix::io::FdFlags;
use serde_json::{Value, json};

use crate::guest;

/// Set for this program where it is the worker.
const ROLE: &str = "BELLJAR_TEST_ROLE";
const PATIENCE: Duration = Duration::from_secs(20);

/// The worker: this program, with this test alone.
#[test]
fn program() {
    if std::env::var_os(ROLE).is_some() {
        let build = |bundle: PathBuf| Runtime::builder().bundle(bundle).build();
        if let Err(error) = serve_worker(build) {
            eprintln!("{error}");
            std::process::exit(3);
        }
    }
}

fn start(settings: &Value) -> WorkerProcess {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "process::program", "--nocapture"]).env(ROLE, "worker");
    WorkerProcess::start(command, settings).unwrap()
}

fn worker() -> WorkerProcess {
    start(&json!(guest::bundle()))
}

/// Sends code to run; the response, or what there is of it.
fn run(worker: &WorkerProcess, authorization: &str, code: &str) -> String {
    let mut connection = worker.connect().unwrap();
    let body = json!({ "code": code }).to_string();
    write!(
        connection,
        "POST /v1/runs HTTP/1.1\r\nHost: worker\r\nAuthorization: {authorization}\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    let mut answer = String::new();
    connection.read_to_string(&mut answer).unwrap();
    answer
}

fn field(id: u32, name: &str) -> Option<String> {
    let status = std::fs::read_to_string(format!("/proc/{id}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    Some(line.trim_start_matches(':').trim().to_owned())
}

#[test]
fn a_worker_runs_code_for_its_key_alone() {
    let worker = worker();
    let answer = run(&worker, worker.authorization(), "print");
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    let answer = run(&worker, "Bearer belljar_0", "print");
    assert!(answer.starts_with("HTTP/1.1 401"), "{answer}");
    if belljar::lockdown::Support::probe().seccomp {
        assert_eq!(field(worker.id(), "NoNewPrivs").as_deref(), Some("1"));
        assert_eq!(field(worker.id(), "Seccomp").as_deref(), Some("2"));
    }
}

/// C libraries open files that programs inherit, and service managers pass sockets.
#[test]
fn a_worker_keeps_no_descriptor_of_its_parent() {
    let socket = TcpListener::bind("127.0.0.1:0").unwrap();
    rustix::io::fcntl_setfd(&socket, FdFlags::empty()).unwrap();
    let inherited = std::fs::read_link(format!("/proc/self/fd/{}", socket.as_raw_fd())).unwrap();
    let worker = worker();
    run(&worker, worker.authorization(), "print");
    let open = std::fs::read_dir(format!("/proc/{}/fd", worker.id())).unwrap();
    let open: Vec<_> = open.map(|entry| std::fs::read_link(entry.unwrap().path())).collect();
    assert!(open.len() > 3, "{open:?}");
    assert!(!open.iter().flatten().any(|path| *path == inherited), "{open:?}");
}

#[test]
fn a_worker_ends_with_its_handle() {
    let worker = worker();
    run(&worker, worker.authorization(), "print");
    let id = worker.id();
    assert!(field(id, "State").is_some());
    assert_eq!(worker.ended(Duration::ZERO), None);
    drop(worker);
    assert_eq!(field(id, "State"), None);
}

#[test]
fn a_worker_outlives_the_thread_that_started_it() {
    let worker = std::thread::spawn(worker).join().unwrap();
    let answer = run(&worker, worker.authorization(), "print");
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert_eq!(worker.ended(Duration::from_millis(500)), None);
}

#[test]
fn the_end_of_a_worker_is_told() {
    let worker = worker();
    run(&worker, worker.authorization(), "print");
    let begun = Instant::now();
    let running = std::thread::scope(|scope| {
        let running = scope.spawn(|| run(&worker, worker.authorization(), "spin"));
        std::thread::sleep(Duration::from_millis(300));
        let kill = Command::new("kill").args(["-9", &worker.id().to_string()]).status();
        assert!(kill.unwrap().success());
        running.join().unwrap()
    });
    assert_eq!(running, "");
    assert_eq!(worker.ended(PATIENCE).as_deref(), Some("it was ended by signal 9"));
    assert!(begun.elapsed() < PATIENCE);
    assert!(worker.connect().is_err());
}

#[test]
fn a_worker_that_cannot_start_says_why() {
    let worker = start(&json!("/nowhere"));
    let how = worker.ended(PATIENCE).unwrap();
    assert!(how.starts_with("it ended with status 3: "), "{how}");
}

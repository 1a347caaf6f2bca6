//! `belljar serve` as a process, and its memory budget.

use std::os::unix::fs::MetadataExt;
use std::thread;

use super::server::{Answer, JSON, Server, send};
use super::*;

/// Starts a server without keys.
fn start(args: &[&str]) -> Server {
    Server::start(&[&["--no-auth"], args].concat())
}

/// Memory of a server in MiB: its own pages, and its files in memory. Measured from outside.
fn held(server: &Server) -> u64 {
    let process = format!("/proc/{}", server.child.id());
    let status = fs::read_to_string(format!("{process}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
    let own: u64 = line.trim().strip_suffix("kB").unwrap().trim().parse().unwrap();
    let files = fs::read_dir(format!("{process}/fd")).unwrap();
    let in_memory = files.filter_map(|file| {
        let file = file.ok()?.path();
        let target = fs::read_link(&file).ok()?;
        let is_memory = target.to_str()?.starts_with("/memfd:");
        is_memory.then(|| fs::metadata(&file).ok()).flatten()
    });
    (own >> 10) + (in_memory.map(|found| found.blocks() * 512).sum::<u64>() >> 20)
}

/// Memory of each run and session of the load, in MiB.
const EACH: u64 = 64;

/// Results of the load.
struct Load {
    /// Peak memory of the server, in MiB.
    most: u64,
    /// Number of rejected runs.
    refused: usize,
}

/// Starts runs that each take memory and keep it until all have started.
fn runs(server: &Server) -> Load {
    let code = format!("x = bytearray(b'1') * ({EACH} << 20)\nimport time; time.sleep(5)");
    let body = json!({"code": code, "image": "core", "timeout": 60});
    let mut most = 0;
    let mut asked = Vec::new();
    for _ in 0..16 {
        let (address, body) = (server.address.clone(), body.to_string());
        let send = move || send(&address, "POST", "/v1/runs", JSON, body.as_bytes());
        asked.push(thread::spawn(send));
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_millis(250) {
            most = most.max(held(server));
            thread::sleep(Duration::from_millis(20));
        }
    }
    while asked.iter().any(|one| !one.is_finished()) {
        most = most.max(held(server));
        thread::sleep(Duration::from_millis(20));
    }
    let answers: Vec<Answer> = asked.into_iter().map(|one| one.join().unwrap()).collect();
    let (done, refused): (Vec<_>, Vec<_>) = answers.iter().partition(|one| one.status == 200);
    for one in &done {
        assert_eq!(one.json()["success"], true, "what has begun goes on: {}", one.body);
    }
    for one in &refused {
        assert_eq!(one.status, 503, "{}", one.body);
        assert_eq!(one.json()["code"], "memory_budget", "{}", one.body);
        assert!(one.head.contains("retry-after: 1"), "{}", one.head);
    }
    Load {
        most,
        refused: refused.len(),
    }
}

/// Creates sessions that each take memory, and reads from all of them.
fn sessions(server: &Server) -> Load {
    let (mut most, mut refused) = (0, 0);
    let mut until_done = |path: &str, body: &Value| loop {
        let answer = server.ask("POST", path, body);
        most = most.max(held(server));
        match answer.status {
            200 | 201 => return answer.json(),
            503 => refused += 1,
            _ => panic!("{}", answer.body),
        }
        thread::sleep(Duration::from_millis(100));
    };
    let code = format!("x = bytearray(b'1') * ({EACH} << 20)");
    let made: Vec<String> = (0..16)
        .map(|_| {
            let made = until_done("/v1/sessions", &json!({"image": "core"}));
            let id = made["id"].as_str().unwrap().to_owned();
            let ran = until_done(&format!("/v1/sessions/{id}/runs"), &json!({"code": code}));
            assert_eq!(ran["success"], true, "{ran}");
            id
        })
        .collect();
    for id in made {
        let ran = until_done(&format!("/v1/sessions/{id}/runs"), &json!({"code": "len(x)"}));
        assert_eq!(ran["stdout"], format!("{}\n", EACH << 20), "{ran}");
    }
    Load { most, refused }
}

/// Growing load exceeds the budget only by what had started before it was reached; without a budget
/// it takes far more.
#[test]
fn a_budget_of_memory_is_kept_under_load() {
    const BUDGET: u64 = 256;
    // A run that started just below the budget resumes a session, writes to its memory and saves
    // it, while another session is suspended or another run starts: each of these takes EACH once.
    const MOST: u64 = BUDGET + 5 * EACH;
    let free = start(&["--max-runs", "32"]);
    let (in_runs, in_sessions) = (runs(&free), sessions(&free));
    eprintln!("without: {} MiB, {} MiB", in_runs.most, in_sessions.most);
    assert!(in_runs.most > MOST, "the load is too small: {} MiB", in_runs.most);
    assert!(in_sessions.most > MOST, "the load is too small: {} MiB", in_sessions.most);
    assert_eq!(in_runs.refused + in_sessions.refused, 0);
    drop(free);

    let budget = BUDGET.to_string();
    let bound = start(&["--max-runs", "32", "--memory-budget", &budget]);
    let in_runs = runs(&bound);
    eprintln!("with: {} MiB, {} refused", in_runs.most, in_runs.refused);
    assert!(in_runs.most <= MOST && in_runs.refused > 0, "{} MiB", in_runs.most);
    let in_sessions = sessions(&bound);
    eprintln!("with: {} MiB, {} refused", in_sessions.most, in_sessions.refused);
    assert!(in_sessions.most <= MOST, "{} MiB", in_sessions.most);
    // It accepts runs again once the last session is suspended.
    let until = Instant::now() + Duration::from_secs(20);
    while bound.ask("POST", "/v1/runs", &json!({"code": "1", "image": "core"})).status != 200 {
        assert!(Instant::now() < until, "it holds {} MiB", held(&bound));
        thread::sleep(Duration::from_millis(100));
    }
}

/// A budget too small for any run is rejected at startup.
#[test]
fn a_budget_that_the_server_itself_takes_is_refused() {
    let ran = ran(&["serve", "--listen", "127.0.0.1:0", "--no-auth", "--memory-budget", "1"]);
    let ran = ran.exits(2);
    // A warning that the cache is not complete may come before it.
    let is_it = |line: &str| line.starts_with("error: --memory-budget: the server itself uses");
    assert!(ran.stderr.lines().any(is_it), "{}", ran.stderr);
}

//! Commands that are locked down: what they are asked for they do, and what holds them.

use std::os::unix::fs::symlink;
use std::sync::LazyLock;

use super::*;

/// Whether this kernel can lock a process down at all; where every test is to run it has to.
static CAN: LazyLock<bool> = LazyLock::new(|| {
    let can = ran(&["run", "--lockdown=require", "-c", "print(1)"]).status == 0;
    let demanded = std::env::var_os("BELLJAR_TEST_NO_SKIPS").is_some_and(|value| !value.is_empty());
    assert!(can || !demanded, "not tested: this needs Landlock and seccomp");
    can
});

/// A server, and its process.
struct Held {
    child: Child,
    address: String,
    key: Option<String>,
}

impl Held {
    fn start(args: &[&str]) -> Self {
        Self::started(belljar(), args)
    }

    fn started(mut command: Command, args: &[&str]) -> Self {
        command.args(["serve", "--listen", "127.0.0.1:0", "--json"]).args(args);
        let mut child = command.stderr(Stdio::inherit()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let ready: Value = serde_json::from_str(&line).unwrap();
        let (_, address) = ready["url"].as_str().unwrap().split_once("://").unwrap();
        Self {
            child,
            address: address.to_owned(),
            key: ready["key"].as_str().map(str::to_owned),
        }
    }

    /// The status line and the body of an answer.
    fn ask(&self, method: &str, path: &str, key: Option<&str>, body: &str) -> (String, String) {
        let key = key.or(self.key.as_deref());
        let key = key.map(|key| format!("Authorization: Bearer {key}\r\n")).unwrap_or_default();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{key}\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        let mut stream = std::net::TcpStream::connect(&self.address).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head.lines().next().unwrap().to_owned(), body.to_owned())
    }

    /// Asks until the status is this one.
    fn asks_until(&self, status: &str, key: Option<&str>) {
        let start = Instant::now();
        loop {
            let (line, _) = self.ask("GET", "/v1/sessions", key, "");
            if line.contains(status) {
                return;
            }
            assert!(start.elapsed() < Duration::from_secs(20), "{line}");
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Ends it as a service manager does, and returns its status.
    fn end(mut self) -> i32 {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
        let status = self.child.wait().unwrap();
        status.code().unwrap()
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Every thread of a server has a filter and can get no new privileges; without lock-down none has.
#[test]
fn every_thread_of_a_server_is_held() {
    if !*CAN {
        return;
    }
    for (args, held) in [(["--lockdown=require"], true), (["--no-lockdown"], false)] {
        let server = Held::start(&args);
        let (line, body) = server.ask("POST", "/v1/runs", None, r#"{"code": "print(6 * 7)"}"#);
        assert!(line.contains("200") && body.contains("42"), "{line}: {body}");
        let threads = fs::read_dir(format!("/proc/{}/task", server.child.id())).unwrap();
        let mut count = 0;
        for thread in threads {
            // It may have ended.
            let status = thread.unwrap().path().join("status");
            let Ok(status) = fs::read_to_string(status) else {
                continue;
            };
            count += 1;
            for line in ["Seccomp:\t2", "NoNewPrivs:\t1"] {
                assert_eq!(status.contains(line), held, "{args:?}: {status}");
            }
        }
        assert!(count > 2, "{count}");
        let (_, ready) = server.ask("GET", "/readyz", None, "");
        assert!(ready.starts_with("ready\n"), "{ready}");
        let says = ready.contains("lock-down: Landlock ABI ") && ready.contains(", seccomp\n");
        assert_eq!(says, held, "{ready}");
    }
}

/// The tests in `tests/escape` find the same bytes in their own build.
#[test]
fn the_command_has_no_hook_for_escapes() {
    let hook = b"belljar was built with the hook of the escape tests";
    let command = fs::read(env!("CARGO_BIN_EXE_belljar")).unwrap();
    assert!(!command.windows(hook.len()).any(|bytes| bytes == hook));
}

/// An upload of more than 64 KiB goes through a temporary file.
#[test]
fn a_server_takes_large_uploads() {
    for how in ["--lockdown=auto", "--no-lockdown"] {
        let server = Held::start(&[how]);
        let (line, body) = server.ask("POST", "/v1/sessions", None, "{}");
        assert!(line.contains("201"), "{how}: {line}: {body}");
        let made: Value = serde_json::from_str(&body).unwrap();
        let path = format!("/v1/sessions/{}/files/large", made["id"].as_str().unwrap());
        let (line, body) = server.ask("PUT", &path, None, &"x".repeat(1 << 20));
        assert!(line.contains("201"), "{how}: {line}: {body}");
    }
}

#[test]
fn a_server_needs_no_temporary_directory() {
    let mut command = belljar();
    command.env("TMPDIR", "/nowhere");
    let server = Held::started(command, &[]);
    let (line, body) = server.ask("POST", "/v1/runs", None, r#"{"code": "print(6 * 7)"}"#);
    assert!(line.contains("200") && body.contains("42"), "{line}: {body}");
}

#[test]
fn temporary_files_of_a_killed_server_are_removed_by_the_next() {
    let temporary = tempfile::tempdir().unwrap();
    let start = || {
        let mut command = belljar();
        command.env("TMPDIR", temporary.path());
        Held::started(command, &[])
    };
    let list = || -> Vec<_> {
        let entries = fs::read_dir(temporary.path()).unwrap();
        entries.map(|entry| entry.unwrap().file_name()).collect()
    };
    let first = start();
    let before = list();
    assert_eq!(before.len(), 1, "{before:?}");
    // It is killed.
    drop(first);
    assert_eq!(list(), before);
    let _second = start();
    let after = list();
    assert!(after.len() == 1 && after != before, "{after:?}");
}

#[test]
fn a_run_has_its_files_and_directories() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("data")).unwrap();
    fs::write(folder.path().join("data/a.txt"), "mounted").unwrap();
    fs::write(folder.path().join("in.txt"), "copied").unwrap();
    fs::write(folder.path().join("line.txt"), "typed").unwrap();
    let code =
        "open('out.txt', 'w').write(open('/data/a.txt').read() + open('in.txt').read() + input())";
    for how in ["--lockdown=auto", "--no-lockdown"] {
        let ran = ran_in(
            folder.path(),
            &[
                "run",
                how,
                "-c",
                code,
                "--file",
                "in.txt",
                "--mount",
                "data:/data",
                "--out",
                "made/here",
            ]
            .into_iter()
            .chain(["--stdin", "line.txt", "--events=events.json"])
            .collect::<Vec<_>>(),
        );
        ran.exits(0);
        let made = fs::read_to_string(folder.path().join("made/here/out.txt")).unwrap();
        assert_eq!(made, "mountedcopiedtyped");
        assert!(folder.path().join("events.json").metadata().unwrap().len() > 0);
        fs::remove_dir_all(folder.path().join("made")).unwrap();
    }
}

#[test]
fn a_session_in_a_file_goes_on_and_a_link_to_it_too() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("kept")).unwrap();
    symlink("kept/s.belljar", folder.path().join("link")).unwrap();
    for (code, file, says) in
        [("x = 41", "kept/s.belljar", ""), ("print(x + 1)", "link", "42\n"), ("x", "link", "41\n")]
    {
        let ran = ran_in(folder.path(), &["run", "--session", file, "-c", code]).exits(0);
        assert_eq!(ran.stdout, says, "{}", ran.stderr);
    }
    assert_eq!(fs::read_dir(folder.path().join("kept")).unwrap().count(), 1);
}

/// What is written directly in the directory for temporary files leaves all of that writable, which
/// is said.
#[test]
fn what_is_written_beside_others_files_is_told_of() {
    let folder = tempfile::tempdir().unwrap();
    let run = |option: &str, path: &str| {
        let mut command = belljar();
        command.args(["run", option, path, "-c", "1"]).env("TMPDIR", folder.path());
        Ran::from(command.current_dir(folder.path()).output().unwrap()).exits(0).stderr
    };
    assert!(run("--session", "s.belljar").contains("leaves "), "it says nothing");
    assert!(run("--out", ".").contains("leaves "), "it says nothing");
    fs::create_dir(folder.path().join("own")).unwrap();
    assert!(!run("--session", "own/s.belljar").contains("leaves "));
    assert!(!run("--out", "own").contains("leaves "));
}

#[test]
fn a_batch_reads_below_its_directory_and_what_is_allowed() {
    if !*CAN {
        return;
    }
    let (folder, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::create_dir(folder.path().join("a")).unwrap();
    fs::write(folder.path().join("a/x"), "near").unwrap();
    let far = elsewhere.path().join("x");
    fs::write(&far, "far").unwrap();
    let line = |path: &str| {
        json!({"code": "print(open('x').read())", "files": {"x": {"path": path}}}).to_string()
    };
    let far = far.to_str().unwrap();
    let input = format!("{}\n{}\n", line("a/x"), line(far));
    fs::write(folder.path().join("in.jsonl"), input).unwrap();
    let batch = |args: &[&str]| {
        ran_in(
            folder.path(),
            &["batch", "in.jsonl"].into_iter().chain(args.iter().copied()).collect::<Vec<_>>(),
        )
    };
    let held = batch(&[]).exits(1);
    assert_eq!(held.lines()[0]["stdout"], "near\n");
    let error = held.lines()[1]["error"].as_str().unwrap().to_owned();
    assert!(error.contains("ermission denied"), "{error}");
    for args in
        [["--allow-read", elsewhere.path().to_str().unwrap()].as_slice(), &["--no-lockdown"]]
    {
        assert_eq!(batch(args).exits(0).lines()[1]["stdout"], "far\n");
    }
}

#[test]
fn a_prompt_saves_where_it_was_started() {
    if !*CAN {
        return;
    }
    let (folder, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let there = elsewhere.path().join("s.belljar");
    let lines =
        format!("x = 1\n%checkpoint here.belljar\n%checkpoint {}\nx + 1\n", there.display());
    let repl = |args: &[&str]| {
        let mut command = belljar();
        command.arg("repl").args(args).current_dir(folder.path()).stdin(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
        Ran::from(child.wait_with_output().unwrap()).exits(0)
    };
    let held = repl(&[]);
    assert!(held.stdout.contains('2') && folder.path().join("here.belljar").is_file());
    assert!(!there.exists() && held.stderr.contains("ermission denied"), "{}", held.page());
    repl(&["--allow-write", elsewhere.path().to_str().unwrap()]);
    assert!(there.is_file());
}

/// The file is replaced, as editors do, not written.
#[test]
fn keys_that_are_replaced_are_read_again() {
    let folder = tempfile::tempdir().unwrap();
    let make = |file: &str| {
        let path = folder.path().join(file);
        ran(&["key", "somebody", "--keys", path.to_str().unwrap()])
            .exits(0)
            .stdout
            .trim()
            .to_owned()
    };
    let (first, second) = (make("keys.toml"), make("later.toml"));
    let keys = folder.path().join("keys.toml");
    let server = Held::start(&["--keys", keys.to_str().unwrap()]);
    server.asks_until("200", Some(&first));
    let (line, _) = server.ask("GET", "/v1/sessions", Some(&second), "");
    assert!(line.contains("401"), "{line}");
    fs::rename(folder.path().join("later.toml"), &keys).unwrap();
    server.asks_until("200", Some(&second));
    server.asks_until("401", Some(&first));
}

#[test]
fn a_server_keeps_its_sessions() {
    let folder = tempfile::tempdir().unwrap();
    let (state, store) = (folder.path().join("state"), folder.path().join("store"));
    let store = format!("file://{}", store.display());
    for args in [["--state", state.to_str().unwrap()], ["--store", &store]] {
        let args = [args.as_slice(), &["--no-auth"]].concat();
        let server = Held::start(&args);
        let (line, body) = server.ask("POST", "/v1/sessions", None, "{}");
        assert!(line.contains("201"), "{line}: {body}");
        let session: Value = serde_json::from_str(&body).unwrap();
        let runs = format!("/v1/sessions/{}/runs", session["id"].as_str().unwrap());
        let (line, body) = server.ask("POST", &runs, None, r#"{"code": "x = 41"}"#);
        assert!(line.contains("200"), "{line}: {body}");
        assert_eq!(server.end(), 0);
        let server = Held::start(&args);
        let (line, body) = server.ask("POST", &runs, None, r#"{"code": "print(x + 1)"}"#);
        assert!(line.contains("200") && body.contains("42"), "{args:?}: {line}: {body}");
        assert_eq!(server.end(), 0);
    }
}

#[test]
fn its_socket_goes_with_a_server() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s");
    let mut command = belljar();
    let mut child =
        command.args(["serve", "--json", "--unix", path.to_str().unwrap()]).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    assert!(path.exists());
    let id = child.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert!(!path.exists());
}

#[test]
fn who_is_not_locked_down_says_so() {
    let ran = ran(&["run", "--no-lockdown", "-c", "print(1)"]).exits(0);
    assert!(ran.stderr.contains("not locked down"), "{}", ran.stderr);
    let quiet = super::ran(&["run", "--no-lockdown", "--quiet", "-c", "print(1)"]).exits(0);
    assert_eq!((quiet.stdout.as_str(), quiet.stderr.as_str()), ("1\n", ""));
    let both = super::ran(&["run", "--no-lockdown", "--lockdown=require", "-c", "1"]).exits(2);
    assert!(both.stderr.contains("cannot be used with"), "{}", both.stderr);
}

/// A kernel that refuses seccomp, as some containers do.
#[cfg(target_arch = "x86_64")]
#[test]
fn a_kernel_that_refuses_is_told_of_or_enough_to_end() {
    let deny = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/deny.py");
    let run = |numbers: &str, how: &str| -> Ran {
        // It makes what is yet to be made.
        let _ = belljar();
        let mut command = Command::new("python3");
        command.arg(&deny).args([numbers, env!("CARGO_BIN_EXE_belljar"), "run", how]);
        command.args(["-c", "print(1)"]).output().unwrap().into()
    };
    // `seccomp`, and `landlock_create_ruleset`.
    for (number, what) in [("317", "seccomp refuses"), ("444", "no Landlock")] {
        let ran = run(number, "--lockdown=auto");
        if ran.stderr.starts_with("prctl: ") {
            println!("skipped: {}", ran.stderr);
            return;
        }
        assert_eq!(ran.stdout, "1\n", "{}", ran.page());
        assert!(ran.stderr.contains(what), "{}", ran.page());
        let ran = run(number, "--lockdown=require").exits(2);
        assert!(ran.stderr.contains(what) && ran.stdout.is_empty(), "{}", ran.page());
    }
}

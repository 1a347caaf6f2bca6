//! Commands that are locked down: what they are asked for they do, and what holds them.

use std::os::unix::fs::symlink;
use std::sync::LazyLock;

use super::server::Server;
use super::*;

/// Whether this kernel can lock a process down at all; where every test is to run it has to.
static CAN: LazyLock<bool> = LazyLock::new(|| {
    let can = ran(&["run", "--lockdown=require", "-c", "print(1)"]).status == 0;
    let demanded = std::env::var_os("BELLJAR_TEST_NO_SKIPS").is_some_and(|value| !value.is_empty());
    assert!(can || !demanded, "not tested: this needs Landlock and seccomp");
    can
});

#[track_caller]
fn runs(server: &Server) {
    let ran = server.ask("POST", "/v1/runs", &json!({"code": "print(6 * 7)"})).is(200).json();
    assert_eq!(ran["stdout"], "42\n", "{ran}");
}

/// The path of a new session.
#[track_caller]
fn session(server: &Server) -> String {
    let made = server.ask("POST", "/v1/sessions", &json!({})).is(201).json();
    format!("/v1/sessions/{}", made["id"].as_str().unwrap())
}

/// Every thread of a server has a filter and can get no new privileges; without lock-down none has.
#[test]
fn every_thread_of_a_server_is_held() {
    if !*CAN {
        return;
    }
    for (args, held) in [(["--lockdown=require"], true), (["--no-lockdown"], false)] {
        let server = Server::start(&args);
        runs(&server);
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
        let ready = server.ask("GET", "/readyz", &Value::Null).body;
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
        let server = Server::start(&[how]);
        let path = format!("{}/files/large", session(&server));
        server.ask("PUT", &path, &json!("x".repeat(1 << 20))).is(201);
    }
}

#[test]
fn a_server_needs_no_temporary_directory() {
    runs(&Server::of(belljar().arg("serve").env("TMPDIR", "/nowhere")));
}

#[test]
fn temporary_files_of_a_killed_server_are_removed_by_the_next() {
    let temporary = tempfile::tempdir().unwrap();
    let start = || Server::of(belljar().arg("serve").env("TMPDIR", temporary.path()));
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
    let server = Server::start(&["--keys", keys.to_str().unwrap()]);
    assert_eq!((server.status(&first), server.status(&second)), (200, 401));
    fs::rename(folder.path().join("later.toml"), &keys).unwrap();
    server.awaits(200, &second);
    server.awaits(401, &first);
}

#[test]
fn a_server_keeps_its_sessions() {
    let folder = tempfile::tempdir().unwrap();
    let (state, store) = (folder.path().join("state"), folder.path().join("store"));
    let store = format!("file://{}", store.display());
    for args in [["--state", state.to_str().unwrap()], ["--store", &store]] {
        let args = [args.as_slice(), &["--no-auth"]].concat();
        let server = Server::start(&args);
        let runs = format!("{}/runs", session(&server));
        server.ask("POST", &runs, &json!({"code": "x = 41"})).is(200);
        assert_eq!(server.end(), 0);
        let server = Server::start(&args);
        let ran = server.ask("POST", &runs, &json!({"code": "print(x + 1)"})).is(200).json();
        assert_eq!(ran["stdout"], "42\n", "{args:?}: {ran}");
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

/// pip may run and may write to the cache before the lock-down only.
#[test]
fn packages_of_an_image_are_downloaded_before_it_or_not_at_all() {
    let cache = caches::copy_of_the_shared_one();
    let image = cache.path().join("images/web.image");
    let wheels = cache.path().join("wheels");
    for gone in [&image, &wheels, &cache.path().join("packages")] {
        let _ = fs::remove_file(gone).or_else(|_| fs::remove_dir_all(gone));
    }
    let nowhere = tempfile::tempdir().unwrap();
    let command = |args: &[&str], input: &str| {
        let mut command = belljar();
        command.env("BELLJAR_CACHE", cache.path());
        command.env("PIP_NO_INDEX", "1").env("PIP_FIND_LINKS", nowhere.path());
        sent_to(command, input, args)
    };
    for args in [&["run", "--image=web", "-c", "1"][..], &["repl", "--image=web"]] {
        let ran = command(args, "1\n").exits(3);
        assert!(ran.stderr.contains("its packages cannot be downloaded"), "{}", ran.page());
    }
    let line = json!({"code": "1", "image": "web"}).to_string();
    let ran = command(&["batch"], &line);
    assert!(ran.page().contains("its packages are not on this machine"), "{}", ran.page());
}

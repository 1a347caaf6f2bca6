use super::*;

/// A session on the image `core`, created by `code`.
fn made(code: &str) -> TempDir {
    let folder = folder(&[]);
    on(&folder, &["--image", "core", "-c", code]).exits(0);
    folder
}

/// Runs in the session of a folder.
fn on(folder: &TempDir, args: &[&str]) -> Ran {
    ran_in(folder.path(), &[&["run", "--session", "s.belljar"], args].concat())
}

fn names(folder: &TempDir) -> Vec<String> {
    let entries = fs::read_dir(folder.path()).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_session_goes_on_in_the_next_command() {
    let folder = made("import json\nx = [1]\nopen('a.txt', 'w').write('kept')");
    let ran = on(&folder, &["-c", "x.append(2)\njson.dumps(x)\nopen('a.txt').read()"]).exits(0);
    assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("[1, 2]\nkept\n", ""));
    let json = on(&folder, &["--json", "-c", "x"]).exits(0).json();
    assert_eq!((&json["stdout"], &json["execution"]), (&json!("[1, 2]\n"), &json!(3)));
    assert_eq!(json["interpreter_id"].as_str().unwrap().len(), 16);
    assert_eq!(on(&folder, &["--echo", "none", "-c", "x"]).exits(0).stdout, "");
    assert_eq!(names(&folder), ["s.belljar"]);
}

#[test]
fn a_failing_script_keeps_what_it_did_before() {
    let folder = made("x = 1");
    let ran = on(&folder, &["-c", "x = 2\nopen('b', 'w').write('b')\n1/0\nx = 3"]).exits(1);
    assert!(ran.stderr.contains("line 3") && ran.stderr.contains("ZeroDivisionError"));
    assert_eq!(on(&folder, &["-c", "x, open('b').read()"]).exits(0).stdout, "(2, 'b')\n");
    let failing = ["run", "--session", "new", "--image", "core", "-c", "x = 1\n1/0"];
    ran_in(folder.path(), &failing).exits(1);
    let again = ["run", "--session", "new", "-c", "x"];
    assert_eq!(ran_in(folder.path(), &again).exits(0).stdout, "1\n");
}

#[test]
fn a_lost_interpreter_leaves_the_state_before() {
    let folder = made("x = 1");
    let ran = on(&folder, &["-c", "x = 2\nimport os\nos._exit(3)"]).exits(1);
    let says = "the interpreter was lost: s.belljar keeps the state before this run\n";
    assert!(ran.stderr.ends_with(says), "{}", ran.stderr);
    let json = on(&folder, &["--json", "-c", "import os\nos._exit(3)"]).exits(1).json();
    assert_eq!((&json["interpreter_restarted"], &json["execution"]), (&json!(true), &json!(3)));
    assert_eq!(on(&folder, &["-c", "x"]).exits(0).stdout, "1\n");
}

#[test]
fn what_a_run_made_is_copied_out_and_stays() {
    let folder = made("open('old', 'w').write('o')");
    let code = "import os\nos.mkdir('d')\nopen('d/n', 'w').write('new')";
    let ran = on(&folder, &["-c", code, "--out", "out"]).exits(0);
    assert!(ran.stderr.contains("made 1 file, copied to out\n"), "{}", ran.stderr);
    assert_eq!(fs::read_to_string(folder.path().join("out/d/n")).unwrap(), "new");
    assert!(!folder.path().join("out/old").exists());
    let ran = on(&folder, &["-c", "open('m', 'w').write('x')"]).exits(0);
    assert!(ran.stderr.contains("made 1 file, kept in s.belljar\n"), "{}", ran.stderr);
    assert_eq!(on(&folder, &["-c", "open('d/n').read()"]).exits(0).stdout, "new\n");
}

#[test]
fn mistakes_with_a_session_are_explained() {
    let folder = made("x = 1");
    fs::write(folder.path().join("notes.txt"), "not a session, and long enough to be looked at")
        .unwrap();
    let bytes = fs::read(folder.path().join("s.belljar")).unwrap();
    let mut altered = bytes.clone();
    altered[bytes.len() / 2] ^= 1;
    fs::write(folder.path().join("altered"), &altered).unwrap();
    fs::write(folder.path().join("short"), &bytes[..bytes.len() / 2]).unwrap();
    fs::write(folder.path().join("empty"), "").unwrap();
    // As if written by another version, whose number follows the magic bytes.
    let mut other = bytes.clone();
    other[8] += 1;
    fs::write(folder.path().join("other"), &other).unwrap();
    let mistakes: [&[&str]; 10] = [
        &["s.belljar", "--image", "data", "-c", "x"],
        &["s.belljar", "--memory", "64", "--deterministic", "-c", "x"],
        &["s.belljar", "--mount", ".:/data", "-c", "x"],
        &["notes.txt", "-c", "1"],
        &["other", "-c", "1"],
        &["altered", "-c", "1"],
        &["short", "-c", "1"],
        &["empty", "-c", "1"],
        &[".", "-c", "1"],
        &["missing/s.belljar", "-c", "1"],
    ];
    let mut pages = Vec::new();
    for mistake in mistakes {
        let ran = ran_in(folder.path(), &[&["run", "--session"], mistake].concat()).exits(2);
        assert_eq!(ran.stdout, "");
        let stderr =
            ran.stderr.replace(&folder.path().canonicalize().unwrap().display().to_string(), "~");
        // The name of a chunk depends on the contents of memory.
        let is_name = |word: &str| word.len() == 64 && word.bytes().all(|b| b.is_ascii_hexdigit());
        let words = stderr.split(' ').map(|word| if is_name(word) { "NAME" } else { word });
        let stderr = words.collect::<Vec<_>>().join(" ");
        pages.push(format!("$ belljar run --session {}\n{stderr}\n", mistake.join(" ")));
    }
    insta::assert_snapshot!(pages.concat());
    assert_eq!(fs::read(folder.path().join("s.belljar")).unwrap(), bytes);
    assert_eq!(fs::read(folder.path().join("altered")).unwrap(), altered);
    assert_eq!(names(&folder), ["altered", "empty", "notes.txt", "other", "s.belljar", "short"]);
    on(&folder, &["--image", "core", "-c", "x"]).exits(0);
}

#[test]
fn what_a_file_says_cannot_steer_the_terminal() {
    let folder = folder(&[]);
    on(&folder, &["--image", "core", "--mount", ".:/\u{1b}[2Jdata", "-c", "1"]).exits(0);
    let ran = on(&folder, &["-c", "1"]).exits(2);
    assert!(ran.stderr.contains("/\\u{1b}[2Jdata mounted"), "{:?}", ran.stderr);
}

#[test]
fn what_a_session_was_made_with_holds() {
    let folder = folder(&[("in.txt", "given")]);
    let made_with =
        ["--image", "core", "--deterministic=4", "--mount", ".:/data", "--file", "in.txt"];
    let code = "import time\ntime.time()";
    let first = on(&folder, &[&made_with[..], &["--env", "A=b", "-c", code]].concat()).exits(0);
    assert!(first.stdout.starts_with("17672256"), "{}", first.stdout);
    let code = "import os\nopen('/data/in.txt').read(), open('in.txt').read(), os.environ['A']";
    let again = ["--mount", ".:/data", "-c", code];
    assert_eq!(on(&folder, &again).exits(0).stdout, "('given', 'given', 'b')\n");
    // The session file must not choose which host directories are shown.
    let refused = on(&folder, &["-c", code]).exits(2).stderr;
    assert!(refused.contains("is a session with /data mounted"), "{refused}");
    fs::write(folder.path().join("later"), "later").unwrap();
    let code = "open('later').read()";
    let later = ["--mount", ".:/data", "--file", "later", "-c", code];
    assert_eq!(on(&folder, &later).exits(0).stdout, "later\n");
}

#[test]
fn commands_at_the_same_file_wait_for_each_other() {
    let folder = made("seen = []");
    let started: Vec<Child> = (0..6)
        .map(|n| {
            let code = format!("import time\ntime.sleep(0.2)\nseen.append({n})");
            let args = ["run", "--session", "s.belljar", "-c", &code];
            belljar().args(args).current_dir(folder.path()).spawn().unwrap()
        })
        .collect();
    let ran = started.into_iter().map(|child| Ran::from(child.wait_with_output().unwrap()));
    let waited = ran.filter(|ran| {
        assert_eq!(ran.status, 0, "{}", ran.stderr);
        let note = "waiting for another command that uses s.belljar\n";
        assert!(["", note].contains(&ran.stderr.as_str()), "{}", ran.stderr);
        !ran.stderr.is_empty()
    });
    assert!(waited.count() > 0);
    assert_eq!(on(&folder, &["-c", "sorted(seen)"]).exits(0).stdout, "[0, 1, 2, 3, 4, 5]\n");
    assert_eq!(names(&folder), ["s.belljar"]);
}

#[cfg(unix)]
#[test]
fn a_signal_leaves_the_file_as_it_was() {
    let folder = made("x = 1");
    let before = fs::read(folder.path().join("s.belljar")).unwrap();
    let temp = tempfile::tempdir().unwrap();
    let code = "x = 2\nprint('ready', flush=True)\nwhile True: pass";
    let args = ["run", "--session", "s.belljar", "--timeout", "60", "-c", code];
    let mut command = belljar();
    command.args(args).current_dir(folder.path()).env("TMPDIR", temp.path());
    let mut child = command.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    endings::signal(&child, "-INT");
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert_eq!(fs::read(folder.path().join("s.belljar")).unwrap(), before);
    assert_eq!(names(&folder), ["s.belljar"]);
    assert_eq!(fs::read_dir(temp.path()).unwrap().count(), 0);
}

use super::*;

#[test]
fn output_goes_where_the_code_sends_it() {
    let ran = ran(&["run", "-c", "import sys\nprint('out')\nprint('err', file=sys.stderr)"]);
    let ran = ran.exits(0);
    assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("out\n", "err\n"));
}

/// The output of both streams when they lead to the same file.
#[cfg(unix)]
fn on_one_stream(args: &[&str]) -> String {
    let folder = folder(&[]);
    let path = folder.path().join("both");
    let both = fs::OpenOptions::new().create(true).append(true).open(&path).unwrap();
    let mut command = belljar();
    command.args(args).stdout(both.try_clone().unwrap()).stderr(both);
    command.output().unwrap();
    fs::read_to_string(path).unwrap()
}

#[cfg(unix)]
#[test]
fn notes_begin_on_a_line_of_their_own() {
    let code = "import sys; sys.stdout.write('abc'); sys.exit(2)";
    assert!(on_one_stream(&["run", "-c", code]).starts_with("abc\nerror: SystemExit: 2\n"));
    let code = "import sys; sys.stdout.write('no end'); result = 1.5";
    assert_eq!(on_one_stream(&["run", "-c", code]), "no end\nresult: 1.5\n");
    // On separate streams nothing is added to the code's output.
    let apart = ran(&["run", "-c", code]).exits(0);
    assert_eq!((apart.stdout.as_str(), apart.stderr.as_str()), ("no end", "result: 1.5\n"));
    let code = "import sys; sys.stderr.write('abc'); sys.exit(2)";
    let ran = ran(&["run", "-c", code]).exits(1);
    assert!(ran.stderr.starts_with("abc\nerror: SystemExit: 2\n"), "{}", ran.stderr);
}

#[test]
fn an_exception_keeps_the_output_and_exits_with_1() {
    let ran = ran(&["run", "-c", "print('before')\nprint(1/0)"]).exits(1);
    assert_eq!(ran.stdout, "before\n");
    assert!(ran.stderr.contains("line 2") && ran.stderr.contains("ZeroDivisionError"));
    assert!(!ran.stderr.contains("error: "), "the traceback says it: {}", ran.stderr);
}

#[test]
fn every_way_to_fail_is_named() {
    let failures: [&[&str]; 5] = [
        &["run", "-c", "while True: pass", "--timeout", "0.3"],
        &["run", "-c", "print('x'\n"],
        &["run", "-c", "import sys; sys.exit(3)"],
        &["run", "-c", "import os; eval('1')", "--policy", "strict"],
        &["run", "-c", "x = bytearray(300 << 20)", "--memory", "128"],
    ];
    let mut pages = Vec::new();
    for failure in failures {
        let ran = ran(failure).exits(1);
        pages.push(format!("$ belljar {}\n{}\n", failure.join(" "), ran.page()));
    }
    insta::assert_snapshot!(pages.concat());
}

#[test]
fn code_comes_from_a_file_standard_input_or_the_command_line() {
    let folder = folder(&[("a.py", "print('a')")]);
    assert_eq!(ran_in(folder.path(), &["run", "a.py"]).exits(0).stdout, "a\n");
    assert_eq!(ran_with("print('b')", &["run", "-"]).exits(0).stdout, "b\n");
    assert_eq!(ran(&["run", "-c", "-1 and print('c')"]).exits(0).stdout, "c\n");
}

#[test]
fn variables_go_in_and_the_result_comes_out_with_its_types() {
    let code = "result = (n + 1, when.year, pair, text)";
    let date = r#"when={"$": "date", "value": "2026-05-04"}"#;
    let pair = r#"pair={"$": "tuple", "items": [1, 2.5]}"#;
    let set = ["--set", "n=41", "--set", date, "--set", pair, "--set", r#"text="a=b""#];
    let args = [&["run", "-c", code, "--typed"], &set[..]].concat();
    let items = json!([42, 2026, {"$": "tuple", "items": [1, 2.5]}, "a=b"]);
    let typed = json!({"$": "tuple", "items": items});
    let outcome = ran(&[&args[..], &["--json"]].concat()).exits(0).json();
    assert_eq!((&outcome["typed"], &outcome["result"]), (&typed, &Value::Null));
    let said = ran(&args).exits(0).stderr;
    assert_eq!(
        serde_json::from_str::<Value>(said.strip_prefix("result: ").unwrap()).unwrap(),
        typed
    );
    assert!(ran(&["run", "-c", "1", "--json"]).exits(0).json().get("typed").is_none());
}

#[test]
fn a_variable_stays_in_a_session() {
    let folder = folder(&[]);
    ran_in(folder.path(), &["run", "--session", "variable", "-c", "x += 1", "--set", "x=1"])
        .exits(0);
    let ran = ran_in(folder.path(), &["run", "--session", "variable", "-c", "x"]).exits(0);
    assert_eq!(ran.stdout, "2\n");
}

#[test]
fn what_is_no_variable_is_refused() {
    for (set, says) in [
        ("x", "not NAME=JSON"),
        ("=1", "not NAME=JSON"),
        ("x=text", "text needs quotes"),
        (r#"x={"$": "nonesuch"}"#, "the value after = is invalid"),
        ("1x=1", "the request is refused: --set: "),
    ] {
        let ran = ran(&["run", "-c", "", "--set", set]).exits(2);
        assert!(ran.stderr.contains(says), "{set}: {}", ran.stderr);
    }
}

#[test]
fn the_code_gets_its_arguments_environment_and_input() {
    let code = "import os, sys\nprint(sys.argv[1:], os.environ['A'], input(), sys.stdin.read())";
    let args = ["run", "-c", code, "--env", "A=b=c", "--stdin", "-", "--", "-x", "--json"];
    let ran = ran_with("first\nsecond", &args).exits(0);
    assert_eq!(ran.stdout, "['-x', '--json'] b=c first second\n");
    let folder = folder(&[("in", "from a file")]);
    let ran = ran_in(folder.path(), &["run", "-c", "print(input())", "--stdin", "in"]).exits(0);
    assert_eq!(ran.stdout, "from a file\n");
}

#[test]
fn the_environment_of_the_command_stays_outside() {
    let mut command = belljar();
    command.env("SECRET", "s3cret").args(["run", "-c", "import os; print(dict(os.environ))"]);
    let ran = Ran::from(command.output().unwrap()).exits(0);
    assert!(!ran.stdout.contains("s3cret"), "{}", ran.stdout);
}

#[test]
fn files_and_mounts_are_seen_where_they_were_put() {
    if ELSEWHERE {
        return;
    }
    let folder = folder(&[("a.csv", "a"), ("b.csv", "b"), ("c.csv", "c")]);
    let code = "for name in ['a.csv', 'in/b.csv', 'x', '/data/c.csv']: print(open(name).read())";
    let files = ["--file", "a.csv", "--file", "b.csv:in/", "--file", "c.csv:x"];
    let args = [&["run", "-c", code, "--mount", ".:/data"], files.as_slice()].concat();
    assert_eq!(ran_in(folder.path(), &args).exits(0).stdout, "a\nb\nc\nc\n");
    let write = "open('/data/a.csv', 'w')";
    let ran = ran_in(folder.path(), &["run", "-c", write, "--mount", ".:/data"]).exits(1);
    assert!(ran.stderr.contains("Error"), "{}", ran.stderr);
    assert_eq!(fs::read_to_string(folder.path().join("a.csv")).unwrap(), "a");
}

#[test]
fn files_are_copied_out_and_summed_up() {
    let folder = folder(&[("in.csv", "a")]);
    let code = "import os\nos.mkdir('sub')\nopen('sub/b.txt', 'w').write('hello')\n\
                open('a\\x1b[31m.txt', 'w').write('x' * 2000)\nresult = {'rows': 3}";
    let args = ["run", "-c", code, "--file", "in.csv", "--out", "made/here"];
    let ran = ran_in(folder.path(), &args).exits(0);
    insta::assert_snapshot!(ran.page());
    let out = folder.path().join("made/here");
    assert_eq!(fs::read_to_string(out.join("sub/b.txt")).unwrap(), "hello");
    assert!(out.join("a\u{1b}[31m.txt").exists() && !out.join("in.csv").exists());
}

#[test]
fn a_file_that_cannot_be_copied_out_costs_only_itself() {
    let folder = folder(&[]);
    fs::create_dir_all(folder.path().join("out/b")).unwrap();
    let code = "for name in 'abc': open(name, 'w').write(name)";
    let sessions = [&[][..], &["--session", "three", "--image", "core"]];
    for session in sessions {
        let args = [&["run", "-c", code, "--out", "out"], session].concat();
        let ran = ran_in(folder.path(), &args).exits(2);
        assert!(ran.stderr.contains("made 3 files, 2 of them copied to out\n"), "{}", ran.stderr);
        let reason = "cannot copy 1 of 3 files to out: out/b: Is a directory (os error 21)\nhint: ";
        assert!(ran.stderr.contains(reason), "{}", ran.stderr);
        assert_eq!(fs::read_to_string(folder.path().join("out/c")).unwrap(), "c");
        fs::remove_file(folder.path().join("out/c")).unwrap();
    }
}

#[test]
fn quiet_says_only_what_went_wrong() {
    let made = "open('a', 'w').write('x')";
    assert_eq!(ran(&["-q", "run", "-c", made]).exits(0).stderr, "");
    assert!(ran(&["run", "-c", made]).exits(0).stderr.contains("made 1 file"));
    let ran = ran(&["run", "-q", "-c", "while True: pass", "--timeout", "0.2"]).exits(1);
    assert!(ran.stderr.contains("error: Code execution timed out"), "{}", ran.stderr);
}

#[test]
fn json_is_the_outcome_and_nothing_else() {
    let ran = ran(&["run", "--json", "-c", "print('hi'); open('a', 'w').write('x'); 1/0"]).exits(1);
    assert_eq!((ran.stdout.lines().count(), ran.stderr.as_str()), (1, ""));
    let outcome = ran.json();
    let keys: Vec<&String> = outcome.as_object().unwrap().keys().collect();
    let expected = [
        "success",
        "result",
        "stdout",
        "stderr",
        "files",
        "plots",
        "dataframes",
        "error",
        "error_detail",
        "code",
        "truncated",
        "usage",
    ];
    assert_eq!(keys, expected);
    assert_eq!(outcome["stdout"], "hi\n");
    assert_eq!(outcome["files"], json!([{"path": "a", "size": 1}]));
    assert_eq!(outcome["error"], "ZeroDivisionError: division by zero");
}

#[test]
fn echo_and_the_result_are_chosen() {
    let run = |args: &[&str]| {
        let code = "1 + 1\n'x'\nresult = 1\nother = [2]";
        ran(&[&["run", "--json", "-c", code], args].concat()).exits(0).json()
    };
    let seen = |args: &[&str]| {
        let outcome = run(args);
        (outcome["stdout"].clone(), outcome["result"].clone())
    };
    assert_eq!(seen(&[]), (json!(""), json!(1)));
    assert_eq!(seen(&["--echo", "all"]).0, json!("2\nx\n"));
    assert_eq!(seen(&["--result-var", "other"]).1, json!([2]));
}

#[test]
fn a_policy_is_widened_by_its_own_option() {
    let run = |args: &[&str]| ran(&[&["run", "-c", "import heapq; print(1)"], args].concat());
    run(&[]).exits(0);
    run(&["--policy", "strict"]).exits(1);
    run(&["--policy", "strict", "--allow-import", "heapq,glob"]).exits(0);
    run(&["--allow-import", "glob"]).exits(1);
}

#[test]
fn limits_arrive() {
    let cut = ran(&["run", "-c", "print('x' * 5000)", "--output-limit", "100"]);
    assert!(cut.stdout.len() < 200, "{}", cut.stdout.len());
    assert!(cut.stderr.contains("--output-limit"), "{}", cut.stderr);
    let fuel = ran(&["run", "--json", "-c", "while True: pass", "--fuel", "500000000"]).exits(1);
    assert_eq!(fuel.json()["error_detail"]["kind"], "fuel");
    let big = ["run", "--json", "-c", "open('a', 'wb').write(b'x' * (2 << 20))"];
    ran(&[&big, ["--workspace-limit", "1"].as_slice()].concat()).exits(1);
    ran(&[&big, ["--workspace-limit", "4"].as_slice()].concat()).exits(0);
    let many = ["run", "-c", "for i in range(9): open(str(i), 'w')", "--file-limit", "5"];
    ran(&many).exits(1);
}

#[test]
fn a_deterministic_run_is_the_same_twice() {
    let code = "import random, time, uuid\nprint(random.random(), time.time(), uuid.uuid4())";
    let run = |seed| ran(&["run", "--json", "-c", code, seed]).exits(0).stdout;
    let first = run("--deterministic");
    assert_eq!(first, run("--deterministic=0"));
    assert_ne!(first, run("--deterministic=1"));
}

#[test]
fn plots_and_tables_come_as_asked() {
    let code = "import pandas as pd, matplotlib.pyplot as plt\n\
                df = pd.DataFrame({'a': [1, 2, 3]})\ndf.plot()";
    let more = ["--svg", "--inline-images", "--hashes", "--tables", "2"];
    let ran = ran(&[&["run", "--json", "-c", code], more.as_slice()].concat()).exits(0);
    let outcome = ran.json();
    assert_eq!(outcome["plots"][0]["path"], "plots/plot_1.svg");
    let uri = outcome["plots"][0]["base64_uri"].as_str().unwrap();
    assert!(uri.starts_with("data:image/svg+xml;base64,"));
    assert_eq!(outcome["files"][0]["sha256"].as_str().unwrap().len(), 64);
    assert_eq!(outcome["files"][0]["media_type"], "image/svg+xml");
    assert_eq!(outcome["dataframes"][0]["table"]["rows"], json!([[1], [2]]));
}

#[test]
fn output_appears_as_it_comes() {
    let code = "import time\nprint('now', flush=True)\ntime.sleep(4)";
    let mut child = belljar().args(["run", "-c", code]).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "now\n");
    assert!(child.try_wait().unwrap().is_none(), "the code still sleeps");
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn tracing_is_only_for_those_who_ask() {
    if ELSEWHERE {
        return;
    }
    let traced = |set: &str, args: &[&str]| {
        let mut command = belljar();
        command.env("BELLJAR_LOG", set).args(["run", "-c", "1"]).args(args);
        Ran::from(command.output().unwrap()).exits(0).stderr
    };
    assert_eq!(traced("", &[]), "");
    for trace in [traced("belljar=trace", &[]), traced("", &["-v"])] {
        for event in
            ["the engine has started", "an image was loaded", "a run begins", "a run ended"]
        {
            assert!(trace.contains(event), "{event}: {trace}");
        }
    }
}

#[test]
fn traces_name_the_run_and_its_image() {
    if ELSEWHERE {
        return;
    }
    let ran = belljar().args(["-v", "run", "-c", "1"]).output().unwrap();
    let ran = Ran::from(ran).exits(0);
    let begins = ran.stderr.lines().find(|line| line.contains("begins"));
    assert!(
        begins.is_some_and(|line| line.contains(r#"run{id=1 image="core"}"#)),
        "{}",
        ran.stderr
    );
}

#[test]
fn places_and_an_environment_of_one_run() {
    let folder = folder(&[]);
    let session = ["run", "--image", "core", "--session", "places", "--alias", "/mnt/data"];
    let code =
        "import os; open('/mnt/data/a', 'w').close(); print(os.getcwd(), os.environ['ONCE'])";
    let args = ["--cwd", "/mnt/data/in", "--run-env", "ONCE=yes", "-c", code];
    let ran = ran_in(folder.path(), &[&session[..], &args].concat()).exits(0);
    assert_eq!(ran.stdout, "/mnt/data/in yes\n");
    let code = "print(sorted(os.listdir('/mnt/data')), os.getcwd(), 'ONCE' in os.environ)";
    let ran = ran_in(folder.path(), &["run", "--session", "places", "-c", code]).exits(0);
    assert_eq!(ran.stdout, "['a', 'in'] /workspace False\n");
    let refused = ran_in(folder.path(), &["run", "--session", "places", "--alias", "/x", "-c", ""]);
    assert!(refused.exits(2).stderr.contains("--alias: set for a whole session"));
    let refused = ran_in(folder.path(), &["run", "--cwd", "/elsewhere", "-c", ""]).exits(2);
    assert!(refused.stderr.contains("--cwd: "), "{}", refused.stderr);
}

#[test]
fn events_are_written_while_they_happen() {
    let types = |events: &[Value]| -> Vec<String> {
        let types = events.iter().map(|event| event["type"].as_str().unwrap().to_owned());
        // Output may come in pieces.
        let mut types: Vec<String> = types.collect();
        types.dedup();
        types
    };
    let code = "import sys\nprint('a')\ndisplay('b')\nprint('c', file=sys.stderr)\n1/0";
    let all = ["started", "stdout", "display", "stderr", "error", "ended"];
    let ran = ran(&["run", "--image", "core", "--events=-", "-c", code]).exits(1);
    assert_eq!(types(&ran.lines()), all);
    let texts = ran.lines().into_iter().filter(|event| event["type"] == "stdout");
    let texts: String = texts.map(|event| event["text"].as_str().unwrap().to_owned()).collect();
    assert_eq!(texts, "a\n");
    assert_eq!(ran.stderr, "");

    let folder = folder(&[("e", "old")]);
    let args = ["run", "--image", "core", "--events=e", "-c", code];
    let ran = ran_in(folder.path(), &args).exits(1);
    assert_eq!(ran.stdout, "a\n");
    let read = || -> Vec<Value> {
        let text = fs::read_to_string(folder.path().join("e")).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    assert_eq!(types(&read()), all);
    let outcome = ran_in(folder.path(), &[&args[..], &["--json"]].concat()).exits(1).json();
    assert_eq!((types(&read()), outcome.get("events")), (all.map(String::from).to_vec(), None));

    for args in [["--json", "--events=-"], ["-q", "--events=no/such/e"]] {
        ran_in(folder.path(), &[&["run", "-c", "1"], &args[..]].concat()).exits(2);
    }
}

/// The first line must appear before the code writes the last.
#[cfg(unix)]
#[test]
fn events_and_answers_are_a_conversation() {
    let code = "name = input('Who? ')\nprint(f'Hello, {name}')\nprint(input('And? '), input())";
    let mut command = belljar();
    command.args(["run", "--image", "core", "--timeout", "60", "--ask", "--events=-", "-c", code]);
    let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let mut events = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut text_until = |end: &str| {
        let mut text = String::new();
        while !text.ends_with(end) {
            let event: Value = serde_json::from_str(&events.next().unwrap().unwrap()).unwrap();
            text += event["text"].as_str().unwrap_or_default();
        }
        text
    };
    assert_eq!(text_until("? "), "Who? ");
    stdin.write_all(b"Ada\n").unwrap();
    assert_eq!(text_until("And? "), "Hello, Ada\nAnd? ");
    // Two lines in one chunk, the second unfinished.
    stdin.write_all(b"one\r\ntwo").unwrap();
    drop(stdin);
    assert_eq!(text_until("\n"), "one two\n");
    assert!(child.wait().unwrap().success());

    let ran = ran_with("", &["run", "--image", "core", "--ask", "-c", "input()"]).exits(1);
    assert!(ran.stderr.contains("EOFError"), "{}", ran.stderr);
    let ran = ran_with("1", &["run", "--ask", "-"]).exits(2);
    assert!(ran.stderr.contains("--ask"), "{}", ran.stderr);
}

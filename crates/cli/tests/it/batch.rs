use super::*;

#[test]
fn answers_come_in_order_with_their_ids_first() {
    let requests: Vec<Value> = (0..40)
        .map(|n| {
            let code = format!("import time; time.sleep({}); print({n})", 0.02 * f64::from(n % 3));
            json!({"id": n, "code": code})
        })
        .collect();
    let ran = ran_with(lines(&requests), &["batch", "--jobs", "4"]).exits(0);
    let answers = ran.lines();
    assert_eq!(answers.len(), 40);
    for (n, answer) in answers.iter().enumerate() {
        assert_eq!(answer.as_object().unwrap().keys().next().unwrap(), "id");
        assert_eq!((&answer["id"], &answer["stdout"]), (&json!(n), &json!(format!("{n}\n"))));
    }
    assert!(ran.stderr.starts_with("40 lines: 40 succeeded in "), "{}", ran.stderr);
}

#[test]
fn unordered_answers_come_as_they_finish() {
    let slow = json!({"id": "slow", "code": "import time; time.sleep(1.5)"});
    let fast = json!({"id": "fast", "code": "1"});
    let args = ["batch", "--jobs", "2", "--unordered"];
    let ran = ran_with(lines(&[slow, fast]), &args).exits(0);
    let ids: Vec<Value> = ran.lines().iter().map(|answer| answer["id"].clone()).collect();
    assert_eq!(ids, ["fast", "slow"]);
}

#[test]
fn a_bad_line_costs_only_itself() {
    let input = concat!(
        r#"{"id": 1, "code": "print(1)"}"#,
        "\n\n",
        r#"{"id": {"n": 2}, "cod": "print(2)"}"#,
        "\n",
        "not JSON\n",
        r#"[4, "print(4)"]"#,
        "\n",
        r#"{"id": 4, "code": "print(4)", "timeout": -4}"#,
        "\n",
        r#"{"id": 5, "code": "print(5)", "memory_mb": 9999, "max_files": 1000000}"#,
        "\n",
        r#"{"id": 5, "code": "print(5)", "image": "nonesuch"}"#,
        "\n",
        r#"{"id": 6, "code": "", "files": {"a": {"path": "/nonexistent"}}}"#,
        "\n",
        r#"{"id": 7, "code": "1/0"}"#,
        "\n",
        r#"{"code": "print(8)"}"#,
    );
    let ran = ran_with(input, &["batch"]).exits(1);
    assert!(ran.stderr.starts_with("10 lines: 2 succeeded, 1 failed, 7 could not be run in "));
    let answers = ran.lines();
    let errors: Vec<&Value> = answers.iter().filter(|a| a.get("line").is_some()).collect();
    let errors = errors.iter().map(|error| format!("{error}\n")).collect::<Vec<_>>().concat();
    let errors = errors.replace(&known_images(&errors), "...");
    insta::assert_snapshot!(errors);
    let ids: Vec<&Value> = answers.iter().map(|answer| &answer["id"]).collect();
    let expected = [
        json!(1),
        json!({"n": 2}),
        json!(null),
        json!(null),
        json!(4),
        json!(5),
        json!(5),
        json!(6),
        json!(7),
        json!(null),
    ];
    assert_eq!(ids, expected.iter().collect::<Vec<_>>());
    assert_eq!(answers[9]["stdout"], "8\n");
}

/// The part of an error that depends on the machine's images.
fn known_images(errors: &str) -> String {
    let (_, after) = errors.split_once("there are ").unwrap();
    after.split_once('"').unwrap().0.to_owned()
}

#[test]
fn every_key_of_a_line_does_something() {
    let folder = folder(&[("h.txt", "host")]);
    let code = "import os, sys\nfor name in 'tbh': print(open(name).read())\n\
                print(input(), os.environ['A'], sys.argv[1:])\n1 + 1\nmine = 5";
    let request = json!({
        "id": [1, {"two": 2.5}], "code": code, "image": "core", "stdin": "typed",
        "files": {"t": "text", "b": {"base64": "Ynl0ZXM="}, "h": {"path": "h.txt"}},
        "env": {"A": "b"}, "args": ["-n"], "timeout": 4.5, "memory_mb": 64, "fuel": 9_000_000_000_u64,
        "policy": "open", "echo": "all", "result_var": "mine", "deterministic": {"seed": 3},
        "capture": {"dataframes": false}, "output_bytes": 5000, "workspace_mb": 2, "max_files": 9,
    });
    fs::write(folder.path().join("in.jsonl"), format!("{request}\n")).unwrap();
    let ran = ran_in(folder.path(), &["batch", "in.jsonl"]).exits(0);
    let answer = &ran.lines()[0];
    assert_eq!(answer["error"], json!(null));
    assert_eq!(answer["id"], request["id"]);
    assert_eq!(answer["stdout"], "text\nbytes\nhost\ntyped b ['-n']\n2\n");
    assert_eq!(answer["result"], 5);
}

#[test]
fn an_empty_input_is_an_empty_output() {
    let ran = ran_with("\n  \n", &["batch", "-q"]).exits(0);
    assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("", ""));
}

#[test]
fn an_input_that_cannot_be_read_is_a_usage_error() {
    let folder = folder(&[]);
    for file in ["missing.jsonl", "."] {
        let ran = ran_in(folder.path(), &["batch", file]).exits(2);
        assert!(ran.stderr.starts_with("error: "), "{}", ran.stderr);
    }
}

/// The first run sleeps while many others wait for it; input is read only as far as the limit
/// allows.
#[test]
fn input_is_not_read_further_than_answers_may_wait() {
    let mut child = belljar().args(["batch", "--jobs", "2"]).stdin(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let padding = "#".repeat(60_000);
    writeln!(stdin, "{}", json!({"id": 0, "code": "import time; time.sleep(3)"})).unwrap();
    let writer = std::thread::spawn(move || {
        let started = Instant::now();
        for n in 1..100 {
            writeln!(stdin, "{}", json!({"id": n, "code": padding})).unwrap();
        }
        started.elapsed()
    });
    let answers = BufReader::new(child.stdout.take().unwrap()).lines().count();
    assert_eq!(answers, 100);
    let took = writer.join().unwrap();
    assert!(took > Duration::from_secs(2), "all input was read after {took:?}");
    assert!(child.wait().unwrap().success());
}

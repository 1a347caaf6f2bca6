use super::*;

#[test]
fn mistakes_are_explained_and_exit_with_2() {
    let folder = folder(&[("a.csv", "1"), ("b.py", "print(1)"), ("latin", "")]);
    fs::write(folder.path().join("latin"), b"print('\xe4')").unwrap();
    let mistakes: [&[&str]; 23] = [
        &["run"],
        &["run", "b.py", "-c", "1"],
        &["run", "b.py", "--frobnicate"],
        &["run", "missing.py"],
        &["run", "latin"],
        &["run", "."],
        &["run", "-c", "1", "--timeout", "soon"],
        &["run", "-c", "1", "--timeout", "-1"],
        &["run", "-c", "1", "--timeout", "inf"],
        &["run", "-c", "1", "--timeout", "0", "--memory", "999999"],
        &["run", "-c", "1", "--workspace-limit", "99999", "--output-limit", "999999999"],
        &["run", "-c", "1", "--memory", "512M"],
        &["run", "-c", "1", "--memory", "1.5"],
        &["run", "-c", "1", "--output-limit", "many"],
        &["run", "-c", "1", "--deterministic=x"],
        &["run", "-c", "1", "--file", "missing.csv"],
        &["run", "-c", "1", "--file", "."],
        &["run", "-c", "1", "--file", "a.csv", "--file", "b.py:a.csv"],
        &["run", "-c", "1", "--file", "a.csv:../a.csv"],
        &["run", "-c", "1", "--mount", "data"],
        &["run", "-c", "1", "--mount", "missing:/data", "--mount", ".:/usr"],
        &["run", "-c", "1", "--policy", "open", "--allow-import", "os"],
        &["run", "-", "--stdin", "-"],
    ];
    let mut pages = Vec::new();
    for mistake in mistakes {
        let ran = ran_in(folder.path(), mistake).exits(2);
        assert_eq!(ran.stdout, "");
        pages.push(format!("$ belljar {}\n{}\n", mistake.join(" "), ran.stderr));
    }
    insta::assert_snapshot!(pages.concat());
}

#[test]
fn an_image_that_does_not_exist_is_a_mistake_too() {
    for command in [["run", "-c", "1", "--image"].as_slice(), &["setup", "--image"]] {
        let ran = ran(&[command, &["nonesuch"]].concat()).exits(2);
        let start = "error: there is no image \"nonesuch\"; there are core, data, science";
        assert!(ran.stderr.contains(start), "{}", ran.stderr);
        assert!(ran.stderr.contains("\nhint: "), "{}", ran.stderr);
    }
}

#[test]
fn a_directory_for_out_that_cannot_be_made_is_told_before_the_run() {
    let folder = folder(&[("taken", "")]);
    let ran = ran_in(folder.path(), &["run", "-c", "print(1)", "--out", "taken/out"]).exits(2);
    assert_eq!(ran.stdout, "");
    assert!(ran.stderr.contains("cannot create taken/out"), "{}", ran.stderr);
    for command in [["run", "-c", "print(1)"].as_slice(), &["repl"]] {
        let ran = ran_in(folder.path(), &[command, &["--out", "taken"]].concat()).exits(2);
        assert_eq!(ran.stdout, "");
        let said = "error: taken is not a directory\nhint: choose another with --out\n";
        assert_eq!(ran.stderr, said);
    }
}

#[test]
fn an_engine_that_cannot_start_exits_with_3_and_says_what_to_do() {
    let folder = folder(&[("taken", "")]);
    let ran = ran_in(folder.path(), &["--cache", "taken/cache", "run", "-c", "1"]).exits(3);
    assert!(ran.stderr.starts_with("error: cannot create "), "{}", ran.stderr);
}

#[test]
fn a_wheel_that_is_not_the_one_is_a_mistake() {
    let folder = folder(&[("other.whl", "")]);
    for (wheel, said) in [
        ("missing.whl", "error: cannot read the wheel missing.whl: No such file"),
        ("other.whl", "error: other.whl is not the pinned wheel: its SHA-256 is e3b0c44298fc1c14"),
    ] {
        for command in [&["run", "-c", "1"][..], &["licenses"]] {
            let options = ["-q", "--cache", "new", "--wheel", wheel];
            let ran = ran_in(folder.path(), &[&options, command].concat()).exits(2);
            assert!(ran.stderr.starts_with(said), "{}", ran.stderr);
            assert!(ran.stderr.contains("\nhint: fetch it with "), "{}", ran.stderr);
        }
    }
}

use super::*;

#[test]
fn every_page_of_help() {
    let commands: [&[&str]; 23] = [
        &[],
        &["run"],
        &["replay"],
        &["repl"],
        &["kernel"],
        &["kernel", "install"],
        &["batch"],
        &["lambda"],
        &["check"],
        &["setup"],
        &["image"],
        &["image", "list"],
        &["image", "inspect"],
        &["image", "build"],
        &["image", "make"],
        &["image", "remove"],
        &["bundle"],
        &["package"],
        &["package", "build"],
        &["doctor"],
        &["licenses"],
        &["completions"],
        &["schema"],
    ];
    let mut pages = Vec::new();
    for command in commands {
        let ran = ran(&[command, &["--help"]].concat()).exits(0);
        assert_eq!(ran.stderr, "");
        pages.push(format!("=== belljar {} --help\n{}\n", command.join(" "), ran.stdout));
    }
    insta::assert_snapshot!(pages.concat());
}

#[test]
fn no_command_shows_what_there_is() {
    let ran = ran(&[]).exits(2);
    assert!(ran.stderr.contains("Usage: belljar"), "{}", ran.stderr);
}

#[test]
fn the_version_is_the_package_version() {
    let ran = ran(&["--version"]).exits(0);
    assert_eq!(ran.stdout, format!("belljar {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn completions_for_every_shell() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let ran = ran(&["completions", shell]).exits(0);
        assert!(ran.stdout.contains("output-limit"), "{shell}");
    }
}

#[cfg(unix)]
#[test]
fn bash_takes_the_completions() {
    let script = "source /dev/stdin <<< \"$1\" && complete -p belljar";
    let completions = ran(&["completions", "bash"]).exits(0).stdout;
    let bash = Command::new("bash").args(["-c", script, "bash", &completions]).output().unwrap();
    assert!(bash.status.success(), "{}", String::from_utf8_lossy(&bash.stderr));
}

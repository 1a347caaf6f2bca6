//! Keys, and options from files and variables.

use std::os::unix::fs::PermissionsExt;

use super::server::Server;
use super::*;

fn listed(file: &str) -> Vec<Value> {
    let keys = ran(&["key", "list", "--json", "--keys", file]).exits(0).json();
    keys.as_array().unwrap().clone()
}

#[test]
fn keys_are_created_listed_rotated_and_revoked_while_a_server_runs() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("keys.toml");
    let file = path.to_str().unwrap();
    let made = |args: &[&str]| {
        let ran = ran(&[args, &["--keys", file]].concat()).exits(0);
        ran.stdout.trim().to_owned()
    };
    let first = made(&["key", "alice", "--sessions", "3"]);
    let bob = made(&["key", "create", "bob", "--expires-in", "2", "--operator"]);
    assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let again = ran(&["key", "create", "alice", "--keys", file]).exits(2);
    assert!(
        again.stderr.contains("already") && again.stderr.contains("rotate"),
        "{}",
        again.stderr
    );

    let server = Server::start(&["--keys", file]);
    assert_eq!((server.status(&first), server.status(&bob)), (200, 200));
    assert_eq!(server.status("belljar_0"), 401);
    let second = made(&["key", "rotate", "alice"]);
    server.awaits(200, &second);
    assert_eq!(server.status(&first), 200, "both keys are valid for a day");
    let keys = listed(file);
    let names: Vec<_> = keys.iter().map(|key| key["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["alice", "bob", "alice"]);
    assert_eq!(keys[2]["limits"], json!({"sessions": 3}));
    assert!(keys[0]["expires"].is_string() && keys[2]["expires"].is_null());
    let table = ran(&["key", "list", "--keys", file]).exits(0).stdout;
    assert!(table.contains("sessions=3") && table.contains("operator"), "{table}");

    ran(&["key", "revoke", "alice", "--id", keys[0]["id"].as_str().unwrap(), "--keys", file])
        .exits(0);
    server.awaits(401, &first);
    assert_eq!(server.status(&second), 200);
    ran(&["key", "revoke", "alice", "--keys", file]).exits(0);
    server.awaits(401, &second);
    assert_eq!(server.status(&bob), 200);
    let none = ran(&["key", "revoke", "alice", "--keys", file]).exits(2);
    assert!(none.stderr.contains("no account"), "{}", none.stderr);
}

#[test]
fn a_key_file_that_is_as_old_as_the_one_before_is_read_again() {
    let dir = TempDir::new().unwrap();
    let [path, new] = ["keys.toml", "new.toml"].map(|name| dir.path().join(name));
    let key = |name: &str, file: &Path| {
        ran(&["key", name, "--keys", file.to_str().unwrap()]).exits(0).stdout.trim().to_owned()
    };
    let (alice, bob) = (key("alice", &path), key("bob", &new));
    let server = Server::start(&["--keys", path.to_str().unwrap()]);
    // By then the server has seen how old the file is.
    std::thread::sleep(Duration::from_secs(3));
    assert_eq!(server.status(&alice), 200);
    let modified = path.metadata().unwrap().modified().unwrap();
    fs::File::options().write(true).open(&new).unwrap().set_modified(modified).unwrap();
    fs::rename(&new, &path).unwrap();
    server.awaits(401, &alice);
    assert_eq!(server.status(&bob), 200);
}

#[test]
fn a_key_in_a_file_or_a_variable_stays_the_same() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("key");
    let args = ["--key-file", path.to_str().unwrap()];
    let server = Server::start(&args);
    let key = fs::read_to_string(&path).unwrap();
    assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!((server.status(key.trim()), &server.key), (200, &None));
    drop(server);
    assert_eq!(Server::start(&args).status(key.trim()), 200);

    let server = Server::of(belljar().arg("serve").env("BELLJAR_KEY", "0123456789abcdef"));
    assert_eq!((server.status("0123456789abcdef"), server.status("0123456789abcdee")), (200, 401));
    let short = belljar().args(["serve", "--check"]).env("BELLJAR_KEY", "short").output().unwrap();
    let short = Ran::from(short).exits(2);
    assert!(short.stderr.contains("16 characters"), "{}", short.stderr);
}

#[test]
fn the_printed_request_has_a_header_for_the_key() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("a key");
    let cases = [
        (vec!["--key-file", path.to_str().unwrap()], format!("$(cat '{}')", path.display())),
        (vec![], "$BELLJAR_KEY".to_owned()),
    ];
    for (args, key) in cases {
        let mut command = belljar();
        command.args(["serve", "--listen", "127.0.0.1:0"]).args(&args);
        let mut child = command.env("BELLJAR_KEY", "0123456789abcdef").spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let line = lines.find(|line| line.as_ref().unwrap().starts_with("try: ")).unwrap().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        let header = format!("-H \"Authorization: Bearer {key}\"");
        assert!(line.contains(&header), "{line}");
    }
}

fn printed(command: &mut Command) -> Vec<(String, String)> {
    let ran = Ran::from(command.arg("--print-config").output().unwrap()).exits(0);
    let lines = ran.stdout.lines().filter(|line| !line.starts_with('#'));
    let pairs = lines.map(|line| line.split_once(" = ").unwrap());
    pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

fn value(config: &[(String, String)], name: &str) -> Option<String> {
    config.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone())
}

#[test]
fn the_command_line_comes_before_variables_and_those_before_the_file() {
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("belljar.toml");
    fs::write(
        &file,
        "max_runs = 3\nmax_waiting = 4\nmax_sessions = 5\nkeys = \"keys.toml\"\n\
         origin = [\"https://a.example\", \"https://b.example\"]\nno_lockdown = true\n",
    )
    .unwrap();
    let mut command = belljar();
    command.args(["serve", "--config", file.to_str().unwrap(), "--max-runs", "7"]);
    command.env("BELLJAR_SERVE_MAX_RUNS", "8").env("BELLJAR_SERVE_MAX_WAITING", "9");
    let config = printed(&mut command);
    for (name, expected) in [
        ("max_runs", "7"),
        ("max_waiting", "9"),
        ("max_sessions", "5"),
        ("origin", "[\"https://a.example\", \"https://b.example\"]"),
        ("no_lockdown", "true"),
        ("max_timeout", "600"),
    ] {
        assert_eq!(value(&config, name).as_deref(), Some(expected), "{name}");
    }
    let keys = value(&config, "keys").unwrap();
    assert_eq!(keys, format!("{:?}", dir.path().join("keys.toml")), "relative to the file");
}

/// What is printed can be read again, and every option has its variable.
#[test]
fn every_option_can_be_in_a_file_and_in_a_variable() {
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("belljar.toml");
    let defaults = Ran::from(belljar().args(["serve", "--print-config"]).output().unwrap());
    fs::write(&file, &defaults.stdout).unwrap();
    let again =
        belljar().args(["serve", "--print-config", "--config"]).arg(&file).output().unwrap();
    assert_eq!(Ran::from(again).exits(0).stdout, defaults.stdout);

    for (name, set) in [
        ("listen", "127.0.0.1:1"),
        ("unix", "/tmp/s"),
        ("keys", "/k"),
        ("key_file", "/k"),
        ("no_auth", "true"),
        ("state", "/s"),
        ("store", "memory:"),
        ("faces", "v1"),
        ("base_path", "/b"),
        ("trust_proxy", "10.0.0.0/8"),
        ("host", "h"),
        ("origin", "https://o.example"),
        ("sandbox_domain", "d.example"),
        ("grace", "1"),
        ("memory_budget", "1000"),
        ("file_memory", "1"),
        ("log_format", "json"),
        ("max_timeout", "1"),
        ("max_memory", "1"),
        ("max_output", "1"),
        ("max_workspace", "1"),
        ("max_runs", "1"),
        ("max_waiting", "1"),
        ("max_sessions", "1"),
        ("max_session_lifetime", "1"),
        ("max_session_idle", "1"),
        ("max_session_fuel", "1"),
        ("clock_resolution", "1"),
        ("lockdown", "require"),
        ("no_lockdown", "true"),
        ("allow_read", "/r"),
        ("allow_write", "/w"),
    ] {
        let variable = format!("BELLJAR_SERVE_{}", name.to_uppercase());
        let config = printed(belljar().arg("serve").env(&variable, set));
        let found = value(&config, name).unwrap_or_default();
        assert!(found.contains(set), "{variable}={set}: {found}");
    }
}

#[test]
fn mistakes_in_a_file_are_named() {
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("belljar.toml");
    let args = ["serve", "--check", "--config", file.to_str().unwrap()];
    assert!(ran(&args).exits(2).stderr.contains("cannot read"));
    for (text, message) in [
        ("max_runs", "not valid TOML"),
        ("max_run = 1", "max_run"),
        ("config = \"x\"", "config"),
        ("no_auth = 1", "true or false"),
        ("origin = \"x\"", "a list"),
        ("max_runs = [1]", "a string or a number"),
        ("max_runs = 0", "--max-runs"),
        ("node = \"n\"", "--store"),
        ("store = \"ftp://x\"", "ftp"),
        ("keys = \"none.toml\"", "none.toml"),
        ("listen = \"0.0.0.0:1\"", "other machines"),
    ] {
        fs::write(&file, text).unwrap();
        let ran = ran(&args).exits(2);
        assert!(ran.stderr.contains(message), "{text}: {}", ran.stderr);
    }
    fs::write(&file, "max_runs = 2").unwrap();
    assert_eq!(ran(&args).exits(0).stdout, "the configuration is valid\n");
}

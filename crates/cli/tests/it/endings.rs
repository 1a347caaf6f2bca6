use super::*;

pub(super) fn signal(child: &Child, name: &str) {
    let kill = Command::new("kill").args([name, &child.id().to_string()]).status().unwrap();
    assert!(kill.success());
}

/// Starts code that runs forever, with its own directory for temporary files.
fn started(args: &[&str], input: &str) -> (Child, TempDir) {
    let temp = tempfile::tempdir().unwrap();
    let mut command = belljar();
    command.args(args).env("TMPDIR", temp.path()).stdin(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    (child, temp)
}

fn entries(folder: &TempDir) -> usize {
    fs::read_dir(folder.path()).unwrap().count()
}

#[test]
fn a_signal_ends_a_run_and_leaves_nothing_behind() {
    for (name, status) in [("-INT", 130), ("-TERM", 143), ("-HUP", 129)] {
        let code = "print('ready', flush=True)\nopen('a', 'w').write('x')\nwhile True: pass";
        let (mut child, temp) = started(&["run", "-", "--timeout", "60"], code);
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(entries(&temp), 0, "what the code wrote is in memory");
        signal(&child, name);
        assert_eq!(child.wait().unwrap().code(), Some(status), "{name}");
        assert_eq!(entries(&temp), 0, "{name}");
    }
}

#[test]
fn a_signal_ends_a_batch_and_leaves_nothing_behind() {
    let forever = json!({"code": "while True: pass", "timeout": 60});
    let input = lines(&[json!({"id": 1, "code": "1"}), forever.clone(), forever]);
    let (mut child, temp) = started(&["batch", "--jobs", "2"], &input);
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    assert!(line.starts_with(r#"{"id":1,"#), "{line}");
    signal(&child, "-INT");
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert_eq!(entries(&temp), 0);
}

#[cfg(target_os = "linux")]
#[test]
fn a_signal_that_the_parent_ignores_is_ignored() {
    let mut shell = Command::new("sh");
    let script = "trap '' HUP; exec \"$0\" run -c \
                  'import time; print(1, flush=True); time.sleep(1); print(2)'";
    shell.args(["-c", script, env!("CARGO_BIN_EXE_belljar")]);
    let mut child = shell.stdout(Stdio::piped()).spawn().unwrap();
    let mut reader = BufReader::new(child.stdout.take().unwrap());
    let mut text = String::new();
    reader.read_line(&mut text).unwrap();
    signal(&child, "-HUP");
    reader.read_to_string(&mut text).unwrap();
    assert_eq!((text.as_str(), child.wait().unwrap().code()), ("1\n2\n", Some(0)));
}

/// `nohup` and a script's background are parents that ignore signals.
#[test]
fn tests_do_not_depend_on_the_signals_that_their_parent_ignores() {
    let script = "trap '' HUP INT TERM; exec \"$0\" --exact \"$1\"";
    let test = "endings::a_signal_ends_a_run_and_leaves_nothing_behind";
    let mut shell = Command::new("sh");
    shell.args(["-c", script]).arg(std::env::current_exe().unwrap()).arg(test);
    let output = shell.output().unwrap();
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && stdout.contains("1 passed"), "{stdout}");
}

/// Reads the beginning of the output, then closes it.
fn ended_unread(args: &[&str], input: &str) -> (Ran, TempDir) {
    let (mut child, temp) = started(args, input);
    let mut start = [0; 10];
    child.stdout.take().unwrap().read_exact(&mut start).unwrap();
    (child.wait_with_output().unwrap().into(), temp)
}

#[test]
fn a_reader_that_goes_away_ends_it_quietly() {
    let (ran, temp) = ended_unread(&["run", "-", "--timeout", "60"], "while True: print('y')");
    assert_eq!((ran.status, ran.stderr.as_str()), (141, ""));
    assert_eq!(entries(&temp), 0);
    let many = lines(&vec![json!({"code": "print('y' * 10000)"}); 100]);
    let (ran, temp) = ended_unread(&["batch"], &many);
    assert_eq!((ran.status, ran.stderr.as_str()), (141, ""));
    assert_eq!(entries(&temp), 0);
}

#[cfg(target_os = "linux")]
#[test]
fn output_that_cannot_be_written_is_an_error() {
    for args in [["run", "-c", "print(1)"].as_slice(), &["run", "--json", "-c", "1"], &["doctor"]] {
        let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let ran = Ran::from(belljar().args(args).stdout(full).output().unwrap()).exits(3);
        assert!(ran.stderr.starts_with("error: cannot write to standard output: "));
    }
}

use super::*;

/// The prompt with lines from a pipe.
fn typed(input: &str) -> Ran {
    let folder = folder(&[]);
    typed_in(folder.path(), input, &[])
}

fn typed_in(folder: &Path, input: &str, args: &[&str]) -> Ran {
    let mut command = belljar();
    command.args(["repl", "--image", "core"]).args(args).current_dir(folder);
    talked(command, input)
}

fn talked(mut command: Command, input: &str) -> Ran {
    let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    child.wait_with_output().unwrap().into()
}

#[test]
fn state_stays_from_line_to_line() {
    let ran = typed("x = 20\nimport math\nx + 1\n'text'\nNone\nmath.sqrt(x - 4); x * 2\n").exits(0);
    assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("21\n'text'\n40\n", ""));
}

#[test]
fn lines_that_belong_together_run_together() {
    let input = "def twice(x):\n    '''Not\n\n    the end'''\n    return 2 * x\n\ntwice(4)\n";
    assert_eq!(typed(input).exits(0).stdout, "8\n");
    let input = "for n in range(3):\n    if n:\n        print(n)\n    else:\n        print('no')\n\n\
                 total = (1 +\n\n  2)\n\ntotal\n# nothing\n\"\"\"a\n\nb\"\"\"\nif total: print('last')\n";
    let ran = typed(input).exits(0);
    assert_eq!(ran.stdout, "no\n1\n2\n3\n'a\\n\\nb'\nlast\n");
    assert_eq!(ran.stderr, "");
}

#[test]
fn an_error_is_shown_and_the_next_line_runs() {
    let ran = typed("x = 1\ny = 1 / 0\nx +\nx = x + 1; undefined\nx\nimport sys; sys.exit(3)\nx\n");
    let ran = ran.exits(0);
    assert_eq!(ran.stdout, "2\n2\n");
    insta::assert_snapshot!(ran.stderr);
}

#[test]
fn forks_go_their_own_ways() {
    let input = "x = 1\n%fork\nx = 'fork'\n%fork second\n%switch main\nx\n%switch fork1\nx\n\
                 %sessions\n%fork second\n%switch nonesuch\n";
    insta::assert_snapshot!(typed(input).exits(0).page());
}

#[test]
fn a_session_goes_back() {
    let input = "x = [1]\nx.append(2)\nx.append(3)\n%rewind 2\nx\n%rewind 7\n%rewind\n%reset\nx\n\
                 %history\n%reset\n%history\n";
    let ran = typed(input).exits(0);
    let (history, rest): (Vec<&str>, Vec<&str>) =
        ran.stdout.lines().partition(|line| line.contains(" ms"));
    assert_eq!(rest, ["[1, 2]"]);
    let columns = |line: &str| {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        (words[0].clone(), words[1].clone(), words[4..].join(" "))
    };
    let history: Vec<_> = history.into_iter().map(columns).collect();
    let good = |number: &str, code: &str| (number.to_owned(), "good".to_owned(), code.to_owned());
    let failed = ("1".to_owned(), "failed".to_owned(), "x".to_owned());
    let expected = [good("1", "x = [1]"), good("2", "x.append(2)"), good("3", "x"), failed];
    assert_eq!(history, expected);
    insta::assert_snapshot!(ran.stderr);
}

#[test]
fn a_checkpoint_is_taken_up_again() {
    let folder = folder(&[("notes.txt", "mine, and longer than that")]);
    let input = "x = 'kept'\n%checkpoint my.belljar\nx = 'changed'\n%restore my.belljar\nx\n\
                 %sessions\n%checkpoint notes.txt\n%restore notes.txt\n%restore missing\n";
    let ran = typed_in(folder.path(), input, &[]).exits(0);
    assert_eq!(ran.stdout, "'kept'\n   main  2 runs  core\n*  my    2 runs  core\n");
    assert!(ran.stderr.contains("notes.txt exists and is not a session\nhint: name another"));
    if !ELSEWHERE {
        assert!(ran.stderr.contains("notes.txt is not a usable checkpoint: "), "{}", ran.stderr);
    }
    assert!(ran.stderr.contains("error: cannot open the checkpoint missing: "), "{}", ran.stderr);
    let notes = fs::read_to_string(folder.path().join("notes.txt")).unwrap();
    assert_eq!(notes, "mine, and longer than that");
    // On this machine: a checkpoint of a server's session is a file like others.
    let mut command = here();
    command.args(["run", "--session", "my.belljar", "-c", "x"]).current_dir(folder.path());
    assert_eq!(Ran::from(command.output().unwrap()).exits(0).stdout, "kept\n");
}

#[test]
fn files_come_out() {
    let folder = folder(&[("in.csv", "a,b\n"), ("taken.txt", "mine")]);
    let input = "%files\nimport os; os.mkdir('d')\nn = open('d/out.txt', 'w').write('hello')\n\
                 %files\n%save d/out.txt\n%save d/out.txt taken.txt\n%save 'd/out.txt' 'a b'\n\
                 %save nonesuch\n";
    let ran = typed_in(folder.path(), input, &["--file", "in.csv"]).exits(0);
    insta::assert_snapshot!(ran.page());
    for (name, text) in [("out.txt", "hello"), ("taken.txt", "mine"), ("a b", "hello")] {
        assert_eq!(fs::read_to_string(folder.path().join(name)).unwrap(), text);
    }
}

#[test]
fn figures_are_saved_under_names_of_their_own() {
    let folder = folder(&[]);
    let saved = || {
        let mut command = belljar();
        command.args(["repl", "--out", "figures", "--timeout", "60"]).current_dir(folder.path());
        let plot = "import matplotlib.pyplot as plt\nplt.plot([1, 2]); None\n";
        let ran = talked(command, plot).exits(0);
        let name = ran.stderr.strip_prefix("figure figures/").unwrap().trim_end().to_owned();
        let bytes = fs::read(folder.path().join("figures").join(&name)).unwrap();
        assert!(bytes.starts_with(b"\x89PNG"), "{name}");
        name
    };
    let first = saved();
    assert_eq!(saved(), first.replace(".png", "-2.png"));
}

#[test]
fn the_other_commands() {
    if ELSEWHERE {
        return;
    }
    let args = ["--timeout", "1.5", "--memory", "64", "--fuel", "5000000000"];
    let folder = folder(&[]);
    let input = "%limits\n%frobnicate\n%switch\n%history\n%files\n%help\n%quit\nprint('never')\n";
    insta::assert_snapshot!(typed_in(folder.path(), input, &args).exits(0).page());
    let alone = typed("%switch ma\n").exits(0).stderr;
    assert_eq!(alone, "error: there is no session ma\nhint: there is only main\n");
    let ran = typed("%time sum(range(1000))\n%time 1/0\nexit()\nprint('never')\n").exits(0);
    let lines: Vec<&str> = ran.stdout.lines().collect();
    assert_eq!((lines.len(), lines[0]), (3, "499500"), "{}", ran.stdout);
    for line in &lines[1..] {
        assert!(line.contains(" ms, ") && line.ends_with(" fuel"), "{line}");
    }
}

#[test]
fn a_name_is_shown_and_nothing_runs() {
    let input = "def area(width, height=2):\n    'Width times height.'\n    return width * height\n\n\
                 prices = {'a': 3, 'b': '\\x1b[2J'}\nprices?\narea?\narea??\nprices.nonesuch?\nnonesuch?\n\
                 class Sly:\n    def __repr__(self):\n        prices.clear(); return '\\x1b[2J'\n\n\
                 sly = Sly()\nsly?\nlen(prices)\n%history\n";
    let ran = typed(input).exits(0);
    let (history, rest): (Vec<&str>, Vec<&str>) =
        ran.stdout.lines().partition(|line| line.contains(" ms"));
    insta::assert_snapshot!(format!("{}\n--- stderr\n{}", rest.join("\n"), ran.stderr));
    assert_eq!(history.len(), 5, "{history:?}");
}

#[test]
fn a_lost_interpreter_is_said_and_why() {
    let input = "x = 1\nx = 2; import os; os._exit(3)\nx\nwhile True: pass\n\nx\n";
    let ran = typed_in(folder(&[]).path(), input, &["--timeout", "0.5"]).exits(0);
    assert_eq!(ran.stdout, "1\n1\n");
    assert!(
        ran.stderr.contains("); the session is back in its previous state\n")
            && ran.stderr.contains("the interpreter was lost ("),
        "{}",
        ran.stderr
    );
    assert!(ran.stderr.contains("timed out after 0.5 seconds"), "{}", ran.stderr);
}

#[test]
fn a_session_is_kept_in_its_file() {
    if ELSEWHERE {
        return;
    }
    let folder = folder(&[]);
    let ran = typed_in(folder.path(), "x = 1\n%fork\nx = 2\n", &["--session", "s"]).exits(0);
    assert!(ran.stderr.contains("saved fork1 to ") && ran.stderr.ends_with("/s\n"));
    let mut command = belljar();
    command.args(["repl", "--session", "s"]).current_dir(folder.path());
    let ran = talked(command, "x\n%checkpoint s\nx = 3\n").exits(0);
    assert_eq!(ran.stdout, "2\n");
    assert!(ran.stderr.contains("/s: the state after run 2\n"), "{}", ran.stderr);
    let ran = ran_in(folder.path(), &["run", "--session", "s", "-c", "x"]).exits(0);
    assert_eq!(ran.stdout, "3\n");
    let refused = typed_in(folder.path(), "x\n", &["--session", "s", "--memory", "64"]).exits(2);
    assert!(refused.stderr.contains("leave that out, or name another file"), "{}", refused.stderr);
    ran_in(folder.path(), &["repl", "--timeout", "0"]).exits(2);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

/// Starts a prompt that runs `code`, and waits until it has printed a line.
#[cfg(unix)]
fn running(folder: &TempDir, code: &str) -> (Child, std::process::ChildStdin, impl BufRead) {
    let mut command = belljar();
    command.args(["repl", "--image", "core", "--timeout", "60", "--session", "s"]);
    command.current_dir(folder.path()).env("TMPDIR", folder.path()).stdin(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(code.as_bytes()).unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    stdout.read_line(&mut String::new()).unwrap();
    (child, stdin, stdout)
}

#[cfg(unix)]
#[test]
fn ctrl_c_interrupts_what_runs_and_keeps_the_state() {
    let folder = folder(&[]);
    let code =
        "x = 5\nif x:\n    x = 6\n    print('ready', flush=True)\n    while True: pass\n\nx\n";
    let (child, stdin, mut stdout) = running(&folder, code);
    endings::signal(&child, "-INT");
    let mut line = String::new();
    stdout.read_line(&mut line).unwrap();
    assert_eq!(line, "6\n");
    drop(stdin);
    let ran = Ran::from(child.wait_with_output().unwrap()).exits(0);
    assert!(ran.stderr.contains("KeyboardInterrupt"), "{}", ran.stderr);
    let named = ["3", "4"].map(|line| format!("interrupted (line {line} was running)"));
    assert!(named.iter().any(|text| ran.stderr.contains(text)), "{}", ran.stderr);
}

#[cfg(unix)]
#[test]
fn a_request_to_end_saves_the_session_and_leaves_nothing_behind() {
    if ELSEWHERE {
        return;
    }
    for (code, value) in [
        ("x = 5\nprint('ready')\n", "5\n"),
        (
            "x = 5\nif x:\n    print('ready', flush=True)\n    x = 6\n    while True: pass\n\n",
            "5\n",
        ),
    ] {
        let folder = folder(&[]);
        let (mut child, _stdin, _stdout) = running(&folder, code);
        endings::signal(&child, "-TERM");
        assert_eq!(child.wait().unwrap().code(), Some(143));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        let ran = ran_in(folder.path(), &["run", "--session", "s", "-c", "x"]).exits(0);
        assert_eq!(ran.stdout, value);
    }
}

/// On a real terminal: line editing, completion, and Ctrl-C as a key.
#[cfg(target_os = "linux")]
#[test]
fn it_is_pleasant_on_a_terminal() {
    if Command::new("script").arg("--version").output().is_err() {
        eprintln!("skipped: there is no `script` here, which makes terminals");
        return;
    }
    let folder = folder(&[]);
    let (mut child, mut keys, mut screen) = on_terminal(&folder, "repl --image core --timeout 60");
    let mut type_and_see = |text: &str, expected: &str| {
        keys.write_all(text.as_bytes()).unwrap();
        screen.wait_for(expected);
    };
    type_and_see("", ">>> ");
    type_and_see("takings = 41\r", ">>> ");
    type_and_see("taki\t + 1\r", "42\r\n");
    type_and_see("", ">>> ");
    type_and_see("takings.numer\t + 2\r", "43\r\n");
    type_and_see("", ">>> ");
    type_and_see("not meant\x03", ">>> ");
    type_and_see("name = input('Who? ')\r", "\nWho? ");
    type_and_see("Ada\r", ">>> ");
    type_and_see("name + '!'\r", "\n'Ada!'\r\n");
    type_and_see("", ">>> ");
    type_and_see("input('Really? ')\r", "\nReally? ");
    type_and_see("\x04", "EOFError");
    type_and_see("", ">>> ");
    type_and_see("input('Why? ')\r", "\nWhy? ");
    type_and_see("\x03", "KeyboardInterrupt");
    type_and_see("", ">>> ");
    type_and_see("for n in [1, 2]:\r", "...     ");
    type_and_see("print('n', n)\r", "...     ");
    type_and_see("\r", "n 1\r\nn 2\r\n");
    type_and_see("", ">>> ");
    type_and_see("import time\r", ">>> ");
    type_and_see("while True: print('on'); time.sleep(0.05)\r", "... ");
    type_and_see("\r", "on\r\n");
    type_and_see("\x03", "KeyboardInterrupt");
    type_and_see("", ">>> ");
    type_and_see("print(takings, end='')\r", "\n41\r\n");
    type_and_see("", ">>> ");
    type_and_see("\x1b[A\x1b[A\r", "... ");
    type_and_see("\x03", ">>> ");
    keys.write_all(b"\x04").unwrap();
    assert!(child.wait().unwrap().success());
    let history = fs::read_to_string(folder.path().join(".local/state/belljar/history")).unwrap();
    assert!(history.contains("takings = 41\n") && history.contains("for n in [1, 2]:\\n"));
}

/// A person types what `input()` asks for.
#[cfg(target_os = "linux")]
#[test]
fn a_run_asks_on_a_terminal() {
    if Command::new("script").arg("--version").output().is_err() {
        eprintln!("skipped: there is no `script` here, which makes terminals");
        return;
    }
    let folder = folder(&[]);
    let args =
        "run --image core --timeout 60 -c 'print(input(\"Who? \") + \"!\", input(\"And? \"))'";
    let (mut child, mut keys, mut screen) = on_terminal(&folder, args);
    screen.wait_for("Who? ");
    keys.write_all("Gr\u{f6}\u{df}e\r".as_bytes()).unwrap();
    screen.wait_for("And? ");
    keys.write_all(b"you\r").unwrap();
    screen.wait_for("Gr\u{f6}\u{df}e! you\r\n");
    assert!(child.wait().unwrap().success());
}

/// The command on a new terminal.
#[cfg(target_os = "linux")]
fn on_terminal(folder: &TempDir, args: &str) -> (Child, std::process::ChildStdin, Screen) {
    let mut command = Command::new("script");
    // Without `exec`, Ctrl-C would kill the shell in between.
    let shell = format!("exec {} {args}", env!("CARGO_BIN_EXE_belljar"));
    command.args(["-qec", &shell, "/dev/null"]).env("TERM", "xterm").env("HOME", folder.path());
    // The history belongs to this test; the cache is shared.
    let cache = directories::ProjectDirs::from("", "", "belljar").unwrap();
    let cache = std::env::var_os("BELLJAR_CACHE").unwrap_or_else(|| cache.cache_dir().into());
    command.env("BELLJAR_CACHE", cache).env_remove("XDG_STATE_HOME");
    // The server.
    command.envs(belljar().get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    let keys = child.stdin.take().unwrap();
    let screen = Screen::of(child.stdout.take().unwrap());
    (child, keys, screen)
}

/// The output of a terminal, read as it comes.
#[cfg(target_os = "linux")]
struct Screen {
    pieces: std::sync::mpsc::Receiver<Vec<u8>>,
    text: String,
}

#[cfg(target_os = "linux")]
impl Screen {
    fn of(mut from: impl Read + Send + 'static) -> Self {
        let (sender, pieces) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(length @ 1..) = from.read(&mut buffer) {
                if sender.send(buffer[..length].to_vec()).is_err() {
                    return;
                }
            }
        });
        Self {
            pieces,
            text: String::new(),
        }
    }

    /// Waits until `expected` appears after the text of the previous wait.
    #[track_caller]
    fn wait_for(&mut self, expected: &str) {
        let patience = Instant::now() + Duration::from_mins(1);
        loop {
            if let Some(at) = self.text.find(expected) {
                self.text.drain(..at + expected.len());
                return;
            }
            let left = patience.saturating_duration_since(Instant::now());
            let Ok(piece) = self.pieces.recv_timeout(left) else {
                panic!("{expected:?} never came; there is {:?}", self.text);
            };
            self.text.push_str(&String::from_utf8_lossy(&piece));
        }
    }
}

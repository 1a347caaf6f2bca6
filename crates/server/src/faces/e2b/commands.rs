//! Commands that can be answered without a process: Python itself, and a few that need none.

use belljar::Request;
use belljar::request::Dialect;

/// What a command comes down to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Command {
    /// Python that runs a text: code and arguments.
    Code(String, Vec<String>),
    /// Python that runs a file of the sandbox: its path and arguments.
    File(String, Vec<String>),
    /// A line that the input dialect of notebooks answers.
    Line(String),
}

/// Commands that the dialect answers by itself.
const LINES: [&str; 6] = ["cat", "echo", "ls", "pip", "pip3", "pwd"];
/// What ends a simple command, or is more than one.
const BEYOND: &str = "|<>&;`$(\n";

impl Command {
    /// The command that a client's process stands for; `None` where a process would be needed.
    pub(super) fn of(program: &str, args: &[String]) -> Option<Self> {
        let name = program.rsplit('/').next().unwrap_or(program);
        match (name, args) {
            ("bash" | "sh", [rest @ .., line])
                if rest.last().is_some_and(|flag| is_command(flag)) =>
            {
                Self::of_line(line.trim())
            }
            _ => Self::of_words(name, args),
        }
    }

    fn of_line(line: &str) -> Option<Self> {
        let words = shlex::split(line)?;
        let (program, args) = words.split_first()?;
        let name = program.rsplit('/').next().unwrap_or(program);
        if is_python(name) {
            // The shell's own characters mean nothing inside of quotes, where code has them.
            let is_plain = shlex::try_join(words.iter().map(String::as_str)).is_ok();
            let outside = unquoted(line);
            return (is_plain && !outside.contains(|c| BEYOND.contains(c)))
                .then(|| Self::of_words(name, args))
                .flatten();
        }
        let is_simple = !unquoted(line).contains(|c| BEYOND.contains(c));
        (LINES.contains(&name) && is_simple).then(|| Self::Line(line.to_owned()))
    }

    fn of_words(name: &str, args: &[String]) -> Option<Self> {
        if LINES.contains(&name) {
            let words = std::iter::once(name).chain(args.iter().map(String::as_str));
            return shlex::try_join(words).ok().filter(|line| !line.contains('\n')).map(Self::Line);
        }
        if !is_python(name) {
            return None;
        }
        let args = match args {
            [flag, rest @ ..] if flag == "-u" => rest,
            all => all,
        };
        match args {
            [flag] if flag == "--version" || flag == "-V" => Some(Self::Code(
                "import platform; print('Python', platform.python_version())".into(),
                vec![],
            )),
            [flag, module, rest @ ..] if flag == "-m" && module == "pip" => {
                Self::of_words("pip", rest)
            }
            [flag, code, rest @ ..] if flag == "-c" => {
                Some(Self::Code(code.clone(), rest.to_vec()))
            }
            [file, rest @ ..] if !file.starts_with('-') => {
                Some(Self::File(file.clone(), rest.to_vec()))
            }
            _ => None,
        }
    }

    /// The request that answers it, of one that has limits and nothing else.
    pub(super) fn into_request(self, mut request: Request) -> Request {
        request.echo = Some(belljar::request::Echo::None);
        match self {
            Self::Code(code, args) => {
                request.code = if code.trim().is_empty() {
                    "pass".into()
                } else {
                    code
                };
                request.args = args;
            }
            Self::File(path, args) => {
                request.code = "import runpy, sys\nsys.argv.pop(0)\nrunpy.run_path(sys.argv[0], run_name='__main__')".into();
                request.args = std::iter::once(path).chain(args).collect();
            }
            Self::Line(line) => {
                request.code = format!("!{line}\nraise SystemExit(_exit_code)");
                request.dialect = Dialect::Ipython;
            }
        }
        request
    }
}

fn is_command(flag: &str) -> bool {
    flag.starts_with('-') && flag.ends_with('c')
}

fn is_python(name: &str) -> bool {
    matches!(name, "python" | "python3")
}

/// A line without what is in quotes or behind a backslash.
fn unquoted(line: &str) -> String {
    let mut outside = String::new();
    let mut quote = None;
    let mut characters = line.chars();
    while let Some(c) = characters.next() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (Some('\''), _) => {}
            (_, '\\') => drop(characters.next()),
            // In these the shell still puts values in.
            (Some(_), '$' | '`') => outside.push(c),
            (Some(_), _) => {}
            (None, '\'' | '"') => quote = Some(c),
            (None, c) => outside.push(c),
        }
    }
    outside
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(line: &str) -> Option<Command> {
        Command::of("/bin/bash", &["-l".into(), "-c".into(), line.into()])
    }

    #[test]
    fn what_needs_no_process_is_known() {
        let line = |text: &str| Some(Command::Line(text.into()));
        assert_eq!(of("ls -la /home/user"), line("ls -la /home/user"));
        assert_eq!(of("echo 'a; b'"), line("echo 'a; b'"));
        assert_eq!(of("pip install requests"), line("pip install requests"));
        assert_eq!(of("python3 -m pip install -q x"), line("pip install -q x"));
        let code = Some(Command::Code("print(1); print('a|b')".into(), vec!["x".into()]));
        assert_eq!(of("python -c \"print(1); print('a|b')\" x"), code);
        let file = Some(Command::File("a b.py".into(), vec!["--x".into()]));
        assert_eq!(of("python3 -u 'a b.py' --x"), file);
        assert!(matches!(of("python3 --version"), Some(Command::Code(..))));
        assert_eq!(
            Command::of("python3", &["-c".into(), "1".into()]),
            Some(Command::Code("1".into(), vec![]))
        );
    }

    #[test]
    fn what_needs_one_is_not() {
        for line in [
            "",
            "'",
            "npm install",
            "ls | wc",
            "echo $(id)",
            "echo \"$HOME\"",
            "cat a > b",
            "python3 a.py && rm a.py",
            "python3",
            "python3 -i",
            "python3 -m http.server",
            "sudo ls",
            "bash",
            "echo a\necho b",
        ] {
            assert_eq!(of(line), None, "{line}");
        }
        assert_eq!(Command::of("bash", &[]), None);
    }

    proptest! {
        #[test]
        fn any_line_is_taken_or_not(line in "\\PC{0,60}") {
            if let Some(Command::Line(taken)) = of(&line) {
                prop_assert!(LINES.contains(&shlex::split(&taken).unwrap()[0].rsplit('/').next().unwrap()));
            }
        }
    }
}

//! The commands of the prompt: lines that begin with `%`, and `NAME?`.

use std::path::PathBuf;

use crate::exit::Usage;

/// A parsed command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Command {
    Fork(Option<String>),
    Sessions,
    Switch(String),
    Rewind(u64),
    History,
    Reset,
    Checkpoint(PathBuf),
    Restore(PathBuf),
    Files,
    Save(String, Option<PathBuf>),
    Limits,
    Time(String),
    Help,
    /// Describes a name, with its source if `detail`.
    Inspect {
        name: String,
        detail: bool,
    },
    Quit,
}

/// All commands: name, arguments, description.
pub(super) const COMMANDS: &[(&str, &str, &str)] = &[
    ("fork", "[NAME]", "continue in a copy of this session; the original stays as it is"),
    ("sessions", "", "list the sessions"),
    ("switch", "NAME", "switch to another session"),
    ("rewind", "[N]", "go back to the state after run N, or to the beginning with 0"),
    ("history", "", "list the runs that %rewind can go back to"),
    ("reset", "", "go back to the beginning"),
    ("checkpoint", "FILE", "save the session to a file"),
    ("restore", "FILE", "continue in a session saved to a file"),
    ("files", "", "list the files of the session"),
    ("save", "PATH [TO]", "copy a file of the session to this machine"),
    ("limits", "", "show the limits of a run"),
    ("time", "CODE", "run code and show how long it takes"),
    ("help", "", "show this"),
    ("quit", "", "exit, like Ctrl-D"),
];

impl Command {
    /// Whether a line is a command, not Python.
    pub(super) fn begins(line: &str) -> bool {
        line.starts_with('%') || inspected(line).is_some()
    }

    /// Parses a command line.
    pub(super) fn read(line: &str) -> Result<Self, Usage> {
        match inspected(line) {
            Some((name, detail)) => Ok(Self::Inspect {
                name: name.to_owned(),
                detail,
            }),
            None => Self::parse(line.strip_prefix('%').unwrap_or(line)),
        }
    }

    /// Parses the text after `%`.
    fn parse(text: &str) -> Result<Self, Usage> {
        let text = text.trim();
        let (name, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
        let rest = rest.trim();
        if !COMMANDS.iter().any(|(known, ..)| *known == name) {
            return Err(
                Usage::new(format!("unknown command %{name}")).hint("%help lists the commands")
            );
        }
        if name == "time" && !rest.is_empty() {
            return Ok(Self::Time(rest.to_owned()));
        }
        let words = words(rest)?;
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        Ok(match (name, words.as_slice()) {
            ("fork", []) => Self::Fork(None),
            ("fork", [name]) => Self::Fork(Some((*name).to_owned())),
            ("sessions", []) => Self::Sessions,
            ("switch", [name]) => Self::Switch((*name).to_owned()),
            ("history" | "rewind", []) => Self::History,
            ("rewind", [number]) => {
                let number = number.parse().map_err(|_| {
                    Usage::new(format!("{number} is not the number of a run"))
                        .hint("%history lists them")
                });
                Self::Rewind(number?)
            }
            ("reset", []) => Self::Reset,
            ("checkpoint", [file]) => Self::Checkpoint(file.into()),
            ("restore", [file]) => Self::Restore(file.into()),
            ("files", []) => Self::Files,
            ("save", [path]) => Self::Save((*path).to_owned(), None),
            ("save", [path, to]) => Self::Save((*path).to_owned(), Some(to.into())),
            ("limits", []) => Self::Limits,
            ("help", []) => Self::Help,
            ("quit", []) => Self::Quit,
            _ => return Err(misused(name)),
        })
    }

    /// Whether a line is one of the ways to leave Python's own prompt.
    pub(super) fn leaves(line: &str) -> bool {
        matches!(line.trim(), "exit" | "quit" | "exit()" | "quit()")
    }
}

/// The (dotted) name in `NAME?`, and whether there is a second question mark.
fn inspected(line: &str) -> Option<(&str, bool)> {
    let name = line.trim().strip_suffix('?')?;
    let (name, detail) = match name.strip_suffix('?') {
        Some(name) => (name, true),
        None => (name, false),
    };
    let is_name = |part: &str| {
        part.starts_with(|c: char| c.is_alphabetic() || c == '_')
            && part.chars().all(|c| c.is_alphanumeric() || c == '_')
    };
    name.split('.').all(is_name).then_some((name, detail))
}

/// `%name ARGUMENTS`.
pub(super) fn usage(name: &str, arguments: &str) -> String {
    format!("%{name} {arguments}").trim_end().to_owned()
}

fn misused(name: &str) -> Usage {
    let arguments = COMMANDS.iter().find(|(known, ..)| *known == name).map_or("", |known| known.1);
    Usage::new(format!("usage: {}", usage(name, arguments)))
        .hint("%help describes the commands; names with spaces need quotes")
}

/// Splits into words as a shell does.
fn words(text: &str) -> Result<Vec<String>, Usage> {
    shlex::split(text).ok_or_else(|| {
        Usage::new("a quote is not closed, or nothing comes after a backslash".to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_is_read() {
        let parse = |text: &str| Command::parse(text).unwrap();
        assert_eq!(parse("fork"), Command::Fork(None));
        assert_eq!(parse("fork  a "), Command::Fork(Some("a".to_owned())));
        assert_eq!(parse("rewind"), Command::History);
        assert_eq!(parse("rewind 3"), Command::Rewind(3));
        assert_eq!(parse("time 'a' + \"b"), Command::Time("'a' + \"b".to_owned()));
        let save = Command::Save("a b".to_owned(), Some("c".into()));
        assert_eq!(parse("save 'a b'  c"), save);
        assert_eq!(parse("restore \"it's\""), Command::Restore("it's".into()));
        assert_eq!(parse("restore it\\'s\\ mine"), Command::Restore("it's mine".into()));
        for (name, arguments, _) in COMMANDS {
            let arguments = arguments.replace("[N]", "1").replace(['[', ']'], "");
            assert!(Command::parse(&format!("{name} {arguments}")).is_ok(), "{name}");
        }
    }

    #[test]
    fn mistakes_name_the_way_to_write_it() {
        for (text, says) in [
            ("frok", "unknown command %frok"),
            ("switch", "usage: %switch NAME"),
            ("time", "usage: %time CODE"),
            ("files x", "usage: %files"),
            ("rewind -1", "-1 is not the number of a run"),
            ("save 'a", "a quote is not closed, or nothing comes after a backslash"),
        ] {
            assert_eq!(Command::parse(text).unwrap_err().to_string(), says);
        }
    }

    #[test]
    fn a_name_with_a_question_mark_is_asked_about() {
        let inspect = |line| Command::begins(line).then(|| Command::read(line).unwrap());
        let asks = |name: &str, detail| {
            let name = name.to_owned();
            Some(Command::Inspect { name, detail })
        };
        assert_eq!(inspect("x?"), asks("x", false));
        assert_eq!(inspect(" os.path.größe?? "), asks("os.path.größe", true));
        for python in ["?", "x.?", "f(x)?", "'a?", "1x?", "x???", "# why?"] {
            assert_eq!(inspect(python), None, "{python}");
        }
    }

    #[test]
    fn leaving_is_understood() {
        assert!(Command::leaves("exit()") && Command::leaves(" quit "));
        assert!(!Command::leaves("exit(1)"));
    }
}

//! Name completion by the session, which does not count as a run and leaves no trace.

use std::sync::{Weak, mpsc};

use rustyline::completion::{Completer, FilenameCompleter, Pair};
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::validate::Validator;
use rustyline::{Context, Helper};
use tokio::runtime::Handle;

use super::command::COMMANDS;
use super::seat::Seat;

const INDENT: &str = "    ";

/// The source of names for completion.
pub(super) struct Scope {
    /// Weak, so that an unfinished line does not keep the session when the command ends.
    pub session: Weak<Seat>,
    /// Names of all sessions.
    pub names: Vec<String>,
    /// Lines of the block before the current one.
    pub earlier: String,
}

/// Completion by the tab key.
pub(super) struct Completion {
    reactor: Handle,
    scope: Option<Scope>,
    files: FilenameCompleter,
}

impl Completion {
    /// Completes with the session's answers on `reactor`.
    pub(super) fn new(reactor: Handle) -> Self {
        Self {
            reactor,
            scope: None,
            files: FilenameCompleter::new(),
        }
    }

    /// Sets where names are looked up.
    pub(super) fn look_in(&mut self, scope: Scope) {
        self.scope = Some(scope);
    }

    /// The start of the name at the end of the text, and its completions; `None` if the session
    /// does not answer.
    fn in_session(&self, before: &str) -> Option<(usize, Vec<String>)> {
        let Scope {
            session, earlier, ..
        } = self.scope.as_ref()?;
        let (session, code) = (session.upgrade()?, format!("{earlier}{before}"));
        let (answer, answered) = mpsc::channel();
        self.reactor.spawn(async move {
            let cursor = code.chars().count();
            let _ = answer.send(session.complete(&code, cursor).await);
        });
        // If the command ends meanwhile, there is no answer.
        let (start, matches) = answered.recv().ok()??;
        let start = start.checked_sub(earlier.chars().count())?;
        let places = before.char_indices().map(|(at, _)| at);
        let start = places.chain([before.len()]).nth(start)?;
        // A guest chose these names, and they are shown on the terminal.
        let names = matches.into_iter().filter(|name| name.chars().all(is_name));
        Some((start, names.collect()))
    }
}

fn is_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Completions that do not need the session.
fn fixed(before: &str, sessions: &[String]) -> Option<(usize, Vec<String>)> {
    if let Some(start) = before.strip_prefix('%').filter(|start| start.chars().all(is_name)) {
        let known = COMMANDS.iter().map(|(name, ..)| *name);
        let found = known.filter(|name| name.starts_with(start)).map(str::to_owned);
        return Some((1, found.collect()));
    }
    if let Some(start) = before.strip_prefix("%switch ") {
        let found = sessions.iter().filter(|name| name.starts_with(start)).cloned();
        return Some((before.len() - start.len(), found.collect()));
    }
    if before.trim().is_empty() {
        return Some((before.len(), vec![INDENT.to_owned()]));
    }
    // After anything else, every name would be possible.
    let has_begun = before.ends_with(|c| is_name(c) || c == '.')
        || ["from ", "import "].iter().any(|word| before.trim_start().starts_with(word));
    (!has_begun).then(|| (before.len(), Vec::new()))
}

impl Completer for Completion {
    type Candidate = Pair;

    fn complete(
        &self,
        line: &str,
        cursor: usize,
        _: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<Pair>)> {
        if ["%checkpoint ", "%restore "].iter().any(|command| line.starts_with(command)) {
            return self.files.complete_path(line, cursor);
        }
        let before = &line[..cursor];
        let sessions = self.scope.as_ref().map_or(&[][..], |scope| &scope.names);
        let found = fixed(before, sessions).or_else(|| self.in_session(before));
        let (start, found) = found.unwrap_or((cursor, Vec::new()));
        let pair = |name: String| Pair {
            display: name.clone(),
            replacement: name,
        };
        Ok((start, found.into_iter().map(pair).collect()))
    }
}

impl Hinter for Completion {
    type Hint = String;
}

impl Highlighter for Completion {}
impl Validator for Completion {}
impl Helper for Completion {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_and_sessions_are_completed_after_the_percent_sign() {
        let sessions = ["main", "fork1"].map(str::to_owned);
        let found = |before| fixed(before, &sessions);
        assert_eq!(found("%re").unwrap().1, ["rewind", "reset", "restore"]);
        assert_eq!(found("%switch fo"), Some((8, vec!["fork1".to_owned()])));
    }

    #[test]
    fn tab_indents_at_the_beginning_of_a_line() {
        assert_eq!(fixed("  ", &[]), Some((2, vec![INDENT.to_owned()])));
    }

    #[test]
    fn the_session_is_asked_for_names_that_have_begun() {
        for before in ["x", "f(größe", "a.", "import ", "from os import ", "%time le"] {
            assert_eq!(fixed(before, &[]), None, "{before}");
        }
        for before in ["f(", "x = ", "1 +"] {
            assert_eq!(fixed(before, &[]), Some((before.len(), Vec::new())));
        }
    }
}
